package extproc

import (
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"
)

// Part is a part of an HTTP request or of its answer. The values are the numbers of ProcessingRequest's fields.
type Part int

const (
	RequestHeaders Part = iota + 2
	ResponseHeaders
	RequestBody
	ResponseBody
	RequestTrailers
	responseTrailers
)

func (p Part) String() string {
	return [...]string{"request_headers", "response_headers", "request_body", "response_body", "request_trailers", "response_trailers"}[p-2]
}

// Mode says how bodies are sent. The values are those of ProcessingMode.BodySendMode.
type Mode int

const (
	none Mode = iota
	streamed
	Buffered
	bufferedPartial
	FullDuplex
)

func (m Mode) String() string {
	if m < none || m > FullDuplex {
		return fmt.Sprintf("BodySendMode(%d)", int(m))
	}
	return [...]string{"NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED"}[m]
}

// Modes are how the bodies of a request and of its answer are sent.
type Modes struct{ Request, Response Mode }

// Message is what Envoy tells: a part of a request or of its answer.
type Message struct {
	Part     Part
	Headers  http.Header                    // of headers; those such as :path are as they came
	Body     []byte                         // of a body
	End      bool                           // nothing of this request, or answer, follows
	Metadata map[string]map[string][]string // texts, and lists of them, by namespace and key
	Modes    *Modes                         // in the first message of newer ones; else nil
	Observe  bool                           // answers do not count
}

var errWire = errors.New("the message is no protobuf of its type")

// each calls values with each field of a message that is a text, bytes or a message, and numbers, unless that is nil,
// with each that is a varint: the field's number, and what it holds. Fields of other kinds are skipped.
func each(data []byte, values func(n protowire.Number, value []byte) error, numbers func(n protowire.Number, v uint64)) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errWire
		}
		data = data[n:]
		switch kind {
		case protowire.BytesType:
			var value []byte
			if value, n = protowire.ConsumeBytes(data); n >= 0 {
				if err := values(number, value); err != nil {
					return err
				}
			}
		case protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(data); n >= 0 && numbers != nil {
				numbers(number, v)
			}
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return errWire
		}
		data = data[n:]
	}
	return nil
}

// decode reads a ProcessingRequest.
func decode(data []byte) (*Message, error) {
	m := &Message{}
	err := each(data, func(n protowire.Number, value []byte) error {
		switch n {
		case 2, 3, 4, 5, 6, 7:
			if m.Part != 0 {
				return fmt.Errorf("the message has %v and %v", m.Part, Part(n))
			}
			m.Part = Part(n)
			return m.decodePart(value)
		case 8:
			return each(value, m.decodeNamespace, nil)
		case 11:
			m.Modes = &Modes{}
			return each(value, skip, m.Modes.set)
		}
		return nil
	}, func(n protowire.Number, v uint64) {
		if n == 10 {
			m.Observe = v != 0
		}
	})
	if err == nil && m.Part == 0 {
		err = errors.New("the message has no part of a request or of an answer")
	}
	return m, err
}

func skip(protowire.Number, []byte) error { return nil }

// set takes a field of ProtocolConfiguration.
func (m *Modes) set(n protowire.Number, v uint64) {
	switch n {
	case 1:
		m.Request = Mode(v)
	case 2:
		m.Response = Mode(v)
	}
}

// decodePart reads HttpHeaders, HttpBody or HttpTrailers.
func (m *Message) decodePart(data []byte) error {
	var body bool
	var end protowire.Number // the field end_of_stream, which trailers have not
	switch m.Part {
	case RequestBody, ResponseBody:
		body, end = true, 2
	case RequestHeaders, ResponseHeaders:
		end = 3
	default:
		m.End = true
	}
	if !body {
		m.Headers = http.Header{}
	}
	return each(data, func(n protowire.Number, value []byte) error {
		switch {
		case n == 1 && body:
			m.Body = value
		case n == 1:
			return each(value, m.decodeHeader, nil)
		}
		return nil
	}, func(n protowire.Number, v uint64) {
		if n == end {
			m.End = v != 0
		}
	})
}

// decodeHeader reads a HeaderValue of a HeaderMap.
func (m *Message) decodeHeader(n protowire.Number, value []byte) error {
	if n != 1 {
		return nil
	}
	var key, text string
	err := each(value, func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			key = string(value)
		case 2, 3: // value or raw_value, of which one is set
			if len(value) > 0 {
				text = string(value)
			}
		}
		return nil
	}, nil)
	m.Headers.Add(key, text)
	return err
}

// decodeNamespace reads an entry of Metadata.filter_metadata.
func (m *Message) decodeNamespace(n protowire.Number, value []byte) error {
	if n != 1 {
		return nil
	}
	name, fields, err := entry(value)
	if err != nil {
		return err
	}
	texts := map[string][]string{}
	if m.Metadata == nil {
		m.Metadata = map[string]map[string][]string{}
	}
	m.Metadata[name] = texts
	return each(fields, func(n protowire.Number, value []byte) error {
		if n != 1 {
			return nil
		}
		key, value, err := entry(value)
		if err != nil {
			return err
		}
		texts[key] = []string{}
		return each(value, func(n protowire.Number, value []byte) error { return appendTexts(texts, key, n, value) }, nil)
	}, nil)
}

// appendTexts takes note of field n of a Value, where it is a text, or a list of texts.
func appendTexts(texts map[string][]string, key string, n protowire.Number, value []byte) error {
	switch n {
	case 3:
		texts[key] = append(texts[key], string(value))
	case 6:
		return each(value, func(n protowire.Number, item []byte) error {
			if n != 1 {
				return nil
			}
			return each(item, func(n protowire.Number, value []byte) error {
				if n == 3 {
					texts[key] = append(texts[key], string(value))
				}
				return nil
			}, nil)
		}, nil)
	}
	return nil
}

// entry reads an entry of a map from texts to messages.
func entry(data []byte) (key string, message []byte, err error) {
	err = each(data, func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			key = string(value)
		case 2:
			message = value
		}
		return nil
	}, nil)
	return key, message, err
}
