package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNesting is how deep values may be nested in a body.
const maxNesting = 512

// body is what the gateway needs to know of a request's JSON. The slices are parts of it.
type body struct {
	raw      []byte
	modelAt  [2]int // where the model's name is in raw, with its quotes; zeros if there is none
	model    string
	stream   bool
	options  bool // it has stream_options
	user     string
	session  string // prompt_cache_key
	salt     string // cache_salt
	saltAt   [2]int // where it is in raw, also if it is null; zeros if there is none
	priority string // as it is written
	most     int    // tokens of the answer; 0 if the request does not say
	mostAt   []edit // where it says so
	answers  int
	values   int    // of the JSON, about
	tools    []byte // what precedes the prompt in most templates
	prompt   []byte // messages, prompt, input or what else the request is about
	promptAt [2]int // where that is in raw

	priorityAt [2]int // where the priority is; zeros if there is none
	transfer   bool   // it says where KV blocks come from or go to
	special    bool   // it has keys with which a stream cannot be resumed; see resumable
	byTokens   bool   // it has keys with which a stream can be resumed by its tokens alone
}

// edit is a part of a body that is replaced.
type edit struct {
	at  [2]int
	new []byte
}

// scan reads a body once, from left to right. It looks only at the keys of the outermost object; other values it skips,
// as far as it must to find their ends: what else is wrong with them is for the endpoint to tell.
func scan(raw []byte) (body, error) {
	b := body{raw: raw, answers: 1}
	var seen [len(known)]bool
	s := scanner{data: raw}
	err := s.members(func(key string, value []byte, at int) error {
		byText, may := resumable[key]
		b.options = b.options || key == "stream_options"
		b.special, b.byTokens = b.special || !may, b.byTokens || may && !byText
		for i, k := range known {
			if k.name != key {
				if strings.EqualFold(k.name, key) { // some upstreams take it for the key
					return fmt.Errorf("%q: expected %s, in these letters", key, k.name)
				}
				continue
			}
			if seen[i] {
				return fmt.Errorf("%s is there twice", key)
			}
			if key == saltKey {
				b.saltAt = [2]int{at, at + len(value)}
			}
			if seen[i] = true; string(value) != "null" {
				return k.read(&b, key, value, at)
			}
		}
		return nil
	})
	b.values = s.values
	return b, err
}

// members calls f with the keys and the values of an object, and where each value begins.
func members(raw []byte, f func(key string, value []byte, at int) error) error {
	return (&scanner{data: raw}).members(f)
}

func (s *scanner) members(f func(key string, value []byte, at int) error) error {
	raw := s.data
	if s.next() != '{' {
		return s.bad("an object")
	}
	s.at++
	for first := true; ; first = false {
		switch c := s.next(); {
		case c == '}':
			if s.at++; s.next() != 0 || s.at < len(raw) {
				return s.bad("the end of the body")
			}
			return nil
		case !first && c != ',':
			return s.bad("',' or '}'")
		case !first:
			s.at++
		}
		key, err := s.text()
		if err != nil {
			return err
		}
		if s.next() != ':' {
			return s.bad("':'")
		}
		s.at++
		s.values++
		s.next()
		start := s.at
		if err := s.skip(); err != nil {
			return err
		}
		if err := f(key, raw[start:s.at], start); err != nil {
			return err
		}
	}
}

// known are the keys that the gateway reads.
var known = [...]struct {
	name string
	read func(b *body, key string, value []byte, at int) error
}{
	{"model", func(b *body, key string, value []byte, at int) error {
		b.modelAt = [2]int{at, at + len(value)}
		return readName(key, value, &b.model)
	}},
	{"stream", func(b *body, key string, value []byte, _ int) error {
		if b.stream = string(value) == "true"; !b.stream && string(value) != "false" {
			return fmt.Errorf("%s: expected true or false, found %.40s", key, value)
		}
		return nil
	}},
	{"user", func(b *body, key string, value []byte, _ int) error { return readName(key, value, &b.user) }},
	{"prompt_cache_key", func(b *body, key string, value []byte, _ int) error { return readName(key, value, &b.session) }},
	{saltKey, func(b *body, key string, value []byte, _ int) error { return readName(key, value, &b.salt) }},
	{"priority", func(b *body, _ string, value []byte, at int) error {
		b.priority, b.priorityAt = string(value), [2]int{at, at + len(value)}
		return nil
	}},
	{"kv_transfer_params", readTransfer}, {"bootstrap_room", readTransfer},
	{"max_tokens", readMost}, {"max_completion_tokens", readMost}, {"max_output_tokens", readMost},
	{"n", func(b *body, _ string, value []byte, _ int) error { readNumber(value, &b.answers); return nil }},
	{"tools", func(b *body, _ string, value []byte, _ int) error { b.tools = value; return nil }},
	{"messages", readPrompt}, {"prompt", readPrompt}, {"input", readPrompt}, {"documents", readPrompt},
}

func readTransfer(b *body, _ string, _ []byte, _ int) error {
	b.transfer = true
	return nil
}

func readText(key string, value []byte, into *string) error {
	if value[0] != '"' {
		return fmt.Errorf("%s: expected a string, found %.40s", key, value)
	}
	if bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value) {
		*into = string(value[1 : len(value)-1])
		return nil
	}
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// longestName is the most bytes of a name that a client gives: it is logged, and outlives the request.
const longestName = 512

func readName(key string, value []byte, into *string) error {
	if err := readText(key, value, into); err != nil {
		return err
	}
	return checkName(key, *into)
}

// checkName refuses a name that is too long.
func checkName(where, name string) error {
	if len(name) > longestName {
		return fmt.Errorf("%s: expected at most %d bytes, found %d", where, longestName, len(name))
	}
	return nil
}

// readNumber leaves what is no whole number of at least 0 to the endpoint.
func readNumber(value []byte, into *int) {
	if n, err := strconv.Atoi(string(value)); err == nil && n >= 0 && n <= 1<<30 {
		*into = n
	}
}

func readMost(b *body, _ string, value []byte, at int) error {
	var n int
	if readNumber(value, &n); n > 0 {
		b.most = max(b.most, n)
		b.mostAt = append(b.mostAt, edit{at: [2]int{at, at + len(value)}})
	}
	return nil
}

func readPrompt(b *body, _ string, value []byte, at int) error {
	if len(value) > len(b.prompt) {
		b.prompt, b.promptAt = value, [2]int{at, at + len(value)}
	}
	return nil
}

// naming is the edit that replaces the model's name, none if it is that already.
func (b *body) naming(name string) []edit {
	if b.modelAt[1] == 0 || name == b.model {
		return nil
	}
	quoted, _ := json.Marshal(name) // of a string, which does not fail
	return []edit{{b.modelAt, quoted}}
}

// edited returns the body with edits, in parts.
func (b *body) edited(edits []edit) (parts [][]byte) {
	slices.SortFunc(edits, func(a, b edit) int { return a.at[0] - b.at[0] })
	at := 0
	for _, e := range edits {
		parts = append(parts, b.raw[at:e.at[0]], e.new)
		at = e.at[1]
	}
	return append(parts, b.raw[at:])
}

// scanner walks through JSON.
type scanner struct {
	data   []byte
	at     int
	values int // that it went by
}

// next skips white space and returns the next byte, 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// peek returns the byte that s is at, 0 at the end.
func (s *scanner) peek() byte {
	if s.at >= len(s.data) {
		return 0
	}
	return s.data[s.at]
}

func (s *scanner) bad(expected string) error {
	if s.at >= len(s.data) {
		return fmt.Errorf("invalid JSON: expected %s, found the end of the body", expected)
	}
	return fmt.Errorf("invalid JSON at byte %d: expected %s, found %q", s.at, expected, s.data[s.at])
}

// text reads a string.
func (s *scanner) text() (string, error) {
	if s.next() != '"' {
		return "", s.bad("a key in quotes")
	}
	start := s.at
	if err := s.skipText(); err != nil {
		return "", err
	}
	var out string
	err := readText("a key", s.data[start:s.at], &out)
	return out, err
}

// Words of eight equal bytes.
const (
	ones        = 0x0101010101010101
	highs       = 0x8080808080808080
	quotes      = '"' * ones
	backslashes = '\\' * ones
)

// skipText goes behind a string, which s is at.
func (s *scanner) skipText() error {
	for s.at++; s.at < len(s.data); s.at++ {
		for s.at+8 <= len(s.data) { // by eight bytes that have neither a quote nor a backslash
			x := binary.LittleEndian.Uint64(s.data[s.at:])
			q, e := x^quotes, x^backslashes
			if found := ((q-ones)&^q | (e-ones)&^e) & highs; found != 0 {
				s.at += bits.TrailingZeros64(found) / 8
				break
			}
			s.at += 8
		}
		if s.at == len(s.data) {
			break
		}
		switch s.data[s.at] {
		case '"':
			s.at++
			return nil
		case '\\':
			s.at++
		}
	}
	s.at = len(s.data)
	return s.bad("the end of a string")
}

// skip goes behind a value of any kind, which s is at.
func (s *scanner) skip() error {
	if s.at >= len(s.data) {
		return s.bad("a value")
	}
	switch s.data[s.at] {
	case '"':
		return s.skipText()
	case '{', '[':
		return s.skipNested()
	}
	start := s.at
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c == '-', c == '+', c == '.', c == 'E':
			continue
		}
		break
	}
	if s.at == start {
		return s.bad("a value")
	}
	return nil
}

// skipNested goes behind an object or an array.
func (s *scanner) skipNested() error {
	var open [maxNesting]byte
	for depth := 0; s.at < len(s.data); {
		switch c := s.data[s.at]; c {
		case '"':
			if err := s.skipText(); err != nil {
				return err
			}
			continue
		case '{', '[':
			if depth == maxNesting {
				return fmt.Errorf("invalid JSON at byte %d: nested more than %d deep", s.at, maxNesting)
			}
			open[depth] = c + 2 // the closing one in ASCII
			depth++
			s.values++
		case ',':
			s.values++
		case '}', ']':
			if depth--; open[depth] != c {
				return s.bad(strconv.QuoteRune(rune(open[depth])))
			}
			if depth == 0 {
				s.at++
				return nil
			}
		}
		s.at++
	}
	return s.bad("the end of an object or array")
}
