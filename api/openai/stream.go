package openai

import (
	"strconv"
	"unicode/utf8"
)

// Done is the event that ends a stream.
const Done = "data: [DONE]\n\n"

// Encoder writes the events of one stream. It appends to the caller's buffer and allocates nothing of its own.
type Encoder struct {
	head []byte // of every event, up to the index of the choice
	tail []byte // of an event without usage: closes it
	base int    // length of head without the choices
	chat bool
}

// NewEncoder returns the encoder of a stream that answers a chat (object ObjectChatChunk) or a completion (object
// ObjectCompletion). If usageLast, events say "usage": null but for those that have one.
func NewEncoder(object, id, model string, created int64, usageLast bool) *Encoder {
	e := &Encoder{chat: object == ObjectChatChunk}
	e.head = append(e.head, `data: {"id":`...)
	e.head = AppendString(e.head, id)
	e.head = append(e.head, `,"object":`...)
	e.head = AppendString(e.head, object)
	e.head = append(e.head, `,"created":`...)
	e.head = strconv.AppendInt(e.head, created, 10)
	e.head = append(e.head, `,"model":`...)
	e.head = AppendString(e.head, model)
	e.base = len(e.head)
	e.head = append(e.head, `,"choices":[{"index":`...)
	if usageLast {
		e.tail = append(e.tail, `,"usage":null`...)
	}
	e.tail = append(e.tail, "}\n\n"...)
	return e
}

// Piece is what one event adds to one choice.
type Piece struct {
	Index    int
	Role     bool // a chat's first event: it names the role
	Text     string
	Chat     []TokenLogprob      // log probabilities in a chat
	Logprobs *CompletionLogprobs // log probabilities in a completion
	Finish   string              // "" while the choice goes on
	TokenIDs []int32             // nil if not asked for
	Prompt   []int32             // the prompt's ids; nil if not asked for, or told before
	Usage    *Usage              // nil if not asked for
}

// AppendPiece appends the event.
func (e *Encoder) AppendPiece(dst []byte, p *Piece) []byte {
	dst = append(dst, e.head...)
	dst = strconv.AppendInt(dst, int64(p.Index), 10)
	if e.chat {
		dst = e.appendDelta(dst, p)
	} else {
		dst = append(dst, `,"text":`...)
		dst = AppendString(dst, p.Text)
	}
	switch {
	case p.Chat != nil:
		dst = append(dst, `,"logprobs":{"content":`...)
		dst = appendTokens(dst, p.Chat)
		dst = append(dst, '}')
	case p.Logprobs != nil:
		dst = append(dst, `,"logprobs":`...)
		dst = p.Logprobs.append(dst)
	default:
		dst = append(dst, `,"logprobs":null`...)
	}
	dst = append(dst, `,"finish_reason":`...)
	if p.Finish == "" {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, p.Finish)
	}
	if p.TokenIDs != nil {
		dst = append(dst, `,"token_ids":`...)
		dst = appendIDs(dst, p.TokenIDs)
	}
	if p.Prompt != nil {
		dst = append(dst, `,"prompt_token_ids":`...)
		dst = appendIDs(dst, p.Prompt)
	}
	dst = append(dst, "}]"...)
	if p.Usage == nil {
		return append(dst, e.tail...)
	}
	return p.Usage.appendTo(dst)
}

func (e *Encoder) appendDelta(dst []byte, p *Piece) []byte {
	dst = append(dst, `,"delta":{`...)
	if p.Role {
		dst = append(dst, `"role":"assistant",`...)
	}
	if p.Role || p.Text != "" || p.Finish == "" {
		dst = append(dst, `"content":`...)
		dst = AppendString(dst, p.Text)
	}
	return append(dst, '}')
}

// AppendUsage appends the event that reports the usage of a whole request.
func (e *Encoder) AppendUsage(dst []byte, u *Usage) []byte {
	dst = append(dst, e.head[:e.base]...)
	dst = append(dst, `,"choices":[]`...)
	return u.appendTo(dst)
}

// appendTo appends the usage and closes the event.
func (u *Usage) appendTo(dst []byte) []byte {
	dst = append(dst, `,"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.PromptTokens), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.CompletionTokens), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.TotalTokens), 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.PromptTokensDetails.CachedTokens), 10)
	return append(dst, "}}}\n\n"...)
}

func appendTokens(dst []byte, tokens []TokenLogprob) []byte {
	dst = append(dst, '[')
	for i := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = tokens[i].append(dst)
		dst = append(dst, `,"top_logprobs":[`...)
		for j := range tokens[i].Top {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = tokens[i].Top[j].append(dst)
			dst = append(dst, '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, ']')
}

// append leaves the object open.
func (t *TopLogprob) append(dst []byte) []byte {
	dst = append(dst, `{"token":`...)
	dst = AppendString(dst, t.Token)
	dst = append(dst, `,"logprob":`...)
	dst = appendLogprob(dst, t.Logprob)
	dst = append(dst, `,"bytes":`...)
	return appendBytes(dst, t.Bytes)
}

func (l *CompletionLogprobs) append(dst []byte) []byte {
	body, err := Encode(l) // maps are written in the order of their sorted keys
	if err != nil {        // strings and numbers always marshal
		panic(err)
	}
	return append(dst, body[:len(body)-1]...)
}

func appendIDs(dst []byte, ids []int32) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string, as encoding/json does without HTML escaping: what is not UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= ' ' && b < utf8.RuneSelf && b != '"' && b != '\\' {
			i++
			continue
		}
		if b < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, b)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\ufffd`...)
			start = i + n
		case r == '\u2028' || r == '\u2029': // line ends in JavaScript
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hex[r&0xf])
			start = i + n
		}
		i += n
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&0xf])
}

// TokenText spells a token's bytes: as text, or as "bytes:\xe2\x82" if they are not whole characters.
func TokenText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	out := []byte("bytes:")
	for _, x := range b {
		out = append(out, '\\', 'x', hex[x>>4], hex[x&0xf])
	}
	return string(out)
}
