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

// field is a field of a message on the wire.
type field struct {
	number protowire.Number
	value  []byte // of a text, bytes or a message
	varint uint64 // of a number
}

func (f *field) text() string { return string(f.value) }

var errWire = errors.New("the message is no protobuf of its type")

// each calls do with the fields of a message. Kinds of fields that no message here has are skipped.
func each(data []byte, do func(f *field) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errWire
		}
		data = data[n:]
		f := field{number: number}
		switch kind {
		case protowire.BytesType:
			f.value, n = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			f.varint, n = protowire.ConsumeVarint(data)
		default:
			if n = protowire.ConsumeFieldValue(number, kind, data); n >= 0 {
				data = data[n:]
				continue
			}
		}
		if n < 0 {
			return errWire
		}
		data = data[n:]
		if err := do(&f); err != nil {
			return err
		}
	}
	return nil
}

// decode reads a ProcessingRequest.
func decode(data []byte) (*Message, error) {
	m := &Message{}
	err := each(data, func(f *field) error {
		switch f.number {
		case 2, 3, 4, 5, 6, 7:
			if m.Part != 0 {
				return fmt.Errorf("the message has %v and %v", m.Part, Part(f.number))
			}
			m.Part = Part(f.number)
			return m.decodePart(f.value)
		case 8:
			return each(f.value, m.decodeNamespace)
		case 10:
			m.Observe = f.varint != 0
		case 11:
			m.Modes = &Modes{}
			return each(f.value, func(f *field) error {
				switch f.number {
				case 1:
					m.Modes.Request = Mode(f.varint)
				case 2:
					m.Modes.Response = Mode(f.varint)
				}
				return nil
			})
		}
		return nil
	})
	if err == nil && m.Part == 0 {
		err = errors.New("the message has no part of a request or of an answer")
	}
	return m, err
}

// decodePart reads HttpHeaders, HttpBody or HttpTrailers.
func (m *Message) decodePart(data []byte) error {
	body := m.Part == RequestBody || m.Part == ResponseBody
	if !body {
		m.Headers = http.Header{}
	}
	m.End = m.Part == RequestTrailers || m.Part == responseTrailers
	return each(data, func(f *field) error {
		switch {
		case body && f.number == 1:
			m.Body = f.value
		case body && f.number == 2, !body && f.number == 3:
			m.End = m.End || f.varint != 0
		case !body && f.number == 1:
			return each(f.value, m.decodeHeader)
		}
		return nil
	})
}

// decodeHeader reads a HeaderValue of a HeaderMap.
func (m *Message) decodeHeader(f *field) error {
	if f.number != 1 {
		return nil
	}
	var key, value string
	err := each(f.value, func(f *field) error {
		switch f.number {
		case 1:
			key = f.text()
		case 2, 3: // value or raw_value, of which one is set
			if len(f.value) > 0 {
				value = f.text()
			}
		}
		return nil
	})
	m.Headers.Add(key, value)
	return err
}

// decodeNamespace reads an entry of Metadata.filter_metadata.
func (m *Message) decodeNamespace(f *field) error {
	if f.number != 1 {
		return nil
	}
	name, fields, err := entry(f.value)
	if err != nil {
		return err
	}
	texts := map[string][]string{}
	if m.Metadata == nil {
		m.Metadata = map[string]map[string][]string{}
	}
	m.Metadata[name] = texts
	return each(fields, func(f *field) error {
		if f.number != 1 {
			return nil
		}
		key, value, err := entry(f.value)
		if err != nil {
			return err
		}
		texts[key] = []string{}
		return each(value, func(f *field) error { return appendTexts(texts, key, f) })
	})
}

// appendTexts takes note of a Value that is a text, or a list of texts.
func appendTexts(texts map[string][]string, key string, f *field) error {
	switch f.number {
	case 3:
		texts[key] = append(texts[key], f.text())
	case 6:
		return each(f.value, func(item *field) error {
			return each(item.value, func(f *field) error {
				if f.number == 3 {
					texts[key] = append(texts[key], f.text())
				}
				return nil
			})
		})
	}
	return nil
}

// entry reads an entry of a map from texts to messages.
func entry(data []byte) (key string, value []byte, err error) {
	err = each(data, func(f *field) error {
		switch f.number {
		case 1:
			key = f.text()
		case 2:
			value = f.value
		}
		return nil
	})
	return key, value, err
}
