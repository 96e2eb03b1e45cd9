package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/gateway/cache"
)

// joinable are the paths whose requests can be joined, with the keys of what they are about. Of several keys, each has
// as many inputs, which make pairs.
var joinable = map[string][]string{
	"/v1/embeddings": {"input"}, "/v1/score": {"text_1", "text_2"}, "/score": {"text_1", "text_2"},
}

// share is a request's part of a batch.
type share struct {
	x      *exchange
	inputs [][]json.RawMessage // of each key
	rest   []byte              // the members that all requests of a batch have in common, without the brace at the end
	name   string              // of these, and of all else that must be equal
	tokens int                 // as estimated
	sizes  int                 // bytes of the inputs, or their number of tokens

	done   chan struct{} // closed once the batch has ended
	answer []byte        // nil if the request has to go by itself
	used   tokenUsage
	by     *exchange // that asked for the batch
}

// errNotJoined is why a request goes by itself.
var errNotJoined = errors.New("the request cannot be joined with others")

// share takes a request apart.
func (x *exchange) share(m *model) (*share, error) {
	keys := joinable[x.r.URL.Path]
	if len(keys) == 0 || x.hooked || x.body.stream {
		return nil, errNotJoined
	}
	s := &share{x: x, inputs: make([][]json.RawMessage, len(keys)), rest: []byte{'{'}, done: make(chan struct{})}
	kind := byte(0)
	err := members(x.body.raw, func(key string, value []byte, _ int) error {
		i := slices.Index(keys, key)
		switch {
		case key == "user" || key == "model" || key == "priority" && x.demotion != nil:
			return nil
		case i < 0:
			name, err := json.Marshal(key)
			s.rest = append(append(append(append(s.rest, name...), ':'), value...), ',')
			return err
		case s.inputs[i] != nil:
			return errNotJoined
		}
		var k byte
		s.inputs[i], k = inputs(value)
		if k == 0 || kind != 0 && k != kind {
			return errNotJoined
		}
		kind = k
		return nil
	})
	if err == nil {
		err = s.pair()
	}
	if err != nil {
		return nil, err
	}
	for _, list := range s.inputs {
		for _, in := range list {
			if s.sizes += len(in); kind == tokenInput {
				s.sizes += bytes.Count(in, []byte{','}) + 1 - len(in)
			}
		}
	}
	if s.tokens = s.sizes; kind == textInput {
		s.tokens /= bytesPerToken
	}
	authorization := ""
	if x.account == nil { // endpoints see it
		authorization = x.r.Header.Get("Authorization")
	}
	s.name, err = cache.Name([]byte("0"), x.r.URL.Path, x.body.model, m.name, string(s.rest), string(kind), authorization, strconv.Itoa(x.priority))
	return s, err
}

// Kinds of inputs.
const (
	textInput  = 't'
	tokenInput = 'k'
)

// inputs takes apart what a request is about: a text, a list of texts, a list of tokens or a list of such lists. The
// kind is 0 of anything else.
func inputs(value []byte) (list []json.RawMessage, kind byte) {
	if value[0] == '"' {
		return []json.RawMessage{value}, textInput
	}
	if value[0] != '[' || json.Unmarshal(value, &list) != nil || len(list) == 0 {
		return nil, 0
	}
	first := list[0][0]
	for _, in := range list {
		if in[0] != first && (first == '"' || first == '[') {
			return nil, 0
		}
	}
	switch {
	case first == '"':
		return list, textInput
	case first == '[':
		return list, tokenInput
	case first >= '0' && first <= '9':
		return []json.RawMessage{value}, tokenInput
	}
	return nil, 0
}

// pair makes pairs of one text with each of many.
func (s *share) pair() error {
	for _, list := range s.inputs {
		if len(list) == 0 {
			return errNotJoined
		}
	}
	if len(s.inputs) == 2 {
		if first, second := s.inputs[0], s.inputs[1]; len(first) == 1 {
			s.inputs[0] = slices.Repeat(first, len(second))
		} else if len(first) != len(second) {
			return errNotJoined
		}
	}
	return nil
}

// count is how many inputs or pairs there are.
func (s *share) count() int { return len(s.inputs[0]) }

// joined makes the body of a batch.
func joined(path, model string, shares []*share) []byte {
	name, _ := json.Marshal(model) // of a string, which does not fail
	out := slices.Concat(shares[0].rest, []byte(`"model":`), name)
	for i, key := range joinable[path] {
		var all []string
		for _, s := range shares {
			for _, in := range s.inputs[i] {
				all = append(all, string(in))
			}
		}
		out = append(out, `,"`+key+`":[`+strings.Join(all, ",")+"]"...)
	}
	return append(out, '}')
}

// divide gives each share its part of a batch's answer, with its part of the usage. It returns false, and has changed
// nothing, if the answer is not what was asked for.
func divide(answer []byte, shares []*share) bool {
	var all map[string]json.RawMessage
	var data []map[string]json.RawMessage
	var used map[string]json.RawMessage
	count, size := 0, 0
	for _, s := range shares {
		count, size = count+s.count(), size+s.sizes
	}
	if json.Unmarshal(answer, &all) != nil || json.Unmarshal(all["data"], &data) != nil || len(data) != count {
		return false
	}
	ordered := make([]map[string]json.RawMessage, count)
	for at, d := range data {
		if d["index"] != nil && json.Unmarshal(d["index"], &at) != nil || at < 0 || at >= count || ordered[at] != nil {
			return false
		}
		ordered[at] = d
	}
	if all["usage"] != nil && json.Unmarshal(all["usage"], &used) != nil {
		return false
	}
	answers, before := make([][]byte, len(shares)), 0
	for n, s := range shares {
		own := ordered[:s.count()]
		ordered = ordered[s.count():]
		for i, d := range own {
			d["index"], _ = json.Marshal(i)
		}
		all["data"], _ = json.Marshal(own)
		if used != nil {
			all["usage"] = portion(used, before, before+s.sizes, size)
		}
		before += s.sizes
		var err error
		if answers[n], err = json.Marshal(all); err != nil {
			return false
		}
	}
	for n, s := range shares {
		s.answer = answers[n]
		s.used.read(s.answer)
	}
	return true
}

// portion is the part of a usage that belongs to the inputs from one size to another of all. The parts of all inputs
// add up to the whole.
func portion(used map[string]json.RawMessage, from, to, all int) []byte {
	out := map[string]json.RawMessage{}
	for key, value := range used {
		var n int
		var details map[string]json.RawMessage
		switch out[key] = value; {
		case string(value) == "null":
		case json.Unmarshal(value, &n) == nil:
			out[key], _ = json.Marshal(n*to/all - n*from/all)
		case json.Unmarshal(value, &details) == nil:
			out[key] = portion(details, from, to, all)
		}
	}
	data, _ := json.Marshal(out) // of JSON, which does not fail
	return data
}
