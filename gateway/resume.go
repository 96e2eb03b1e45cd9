package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// resumable are the keys of requests whose streams another endpoint can go on with. Where the value is true, the text
// that the client has is enough: the endpoint is asked to continue a prompt that ends with it. The others depend on
// where the answer began, or on what was in it: for them the endpoint needs the answer's tokens, and only kvasir
// engines take these. A request with a key that is not here is not resumed.
var resumable = map[string]bool{
	"model": true, "messages": true, "prompt": true, "stream": true, "stream_options": true, "max_tokens": true,
	"max_completion_tokens": true, "temperature": true, "top_p": true, "top_k": true, "min_p": true, "stop": true,
	"seed": true, "user": true, "prompt_cache_key": true, "cache_salt": true, "priority": true, "ignore_eos": true, "n": true,

	"presence_penalty": false, "frequency_penalty": false, "repetition_penalty": false, "logit_bias": false,
	"min_tokens": false, "stop_token_ids": false, "chat_template_kwargs": false, "reasoning_effort": false,
	"enable_thinking": false,
}

// record begins to note what the client gets of a stream, if the stream can be resumed.
func (x *exchange) record(m *model) {
	x.g.mu.Lock()
	wanted := m.Resume
	x.g.mu.Unlock()
	b := &x.body
	if wanted && b.stream && !b.special && b.answers == 1 && b.edge(x.r.URL.Path) >= 0 {
		x.said = &transcript{byTokens: b.byTokens}
	}
}

// errCannotGoOn is why an endpoint cannot go on with a stream. It says nothing of the endpoint's health.
var errCannotGoOn = errors.New("the endpoint does not go on with what another one began")

// resumption are the edits that let an endpoint tell the tokens of a stream that may have to be resumed, and go on with
// one: by its tokens if the endpoint is a kvasir, else by its text.
func (a *attempt) resumption() ([]edit, error) {
	t, b := a.said, &a.body
	if t == nil {
		return nil, nil
	}
	e := a.placement.endpoint
	a.g.mu.Lock()
	unknown := e.cfg.API == "" && e.maker == unmet
	a.g.mu.Unlock()
	if unknown {
		a.g.meet(a.ctx, e)
	}
	a.g.mu.Lock()
	a.tells = e.maker == kvasir
	continues := e.cfg.API == "" && (e.maker == unmet || e.maker.goesOn(a.r.URL.Path))
	a.g.mu.Unlock()
	var edits []edit
	end := bytes.LastIndexByte(b.raw, '}')
	if a.tells {
		edits = []edit{{[2]int{end, end}, []byte(`,"return_token_ids":true`)}}
	}
	switch {
	case t.tokens == 0:
	case a.tells && t.exact():
		ids, err := json.Marshal(t.ids)
		a.exactly = true
		return append(edits, edit{[2]int{end, end}, slices.Concat([]byte(`,"continue_token_ids":`), ids)}), err
	case t.byTokens || !continues:
		return nil, errCannotGoOn
	default:
		return append(edits, b.resumption(a.r.URL.Path, t)...), nil
	}
	return edits, nil
}

// edge returns where in raw what the answer said so far goes: behind the last message, or at the end of the prompt. It
// is -1 if the body has no such place.
func (b *body) edge(path string) int {
	chat, text := path == "/v1/chat/completions", path == "/v1/completions"
	switch p := b.prompt; {
	case chat && len(p) > 2 && p[0] == '[' && len(bytes.TrimSpace(p[1:len(p)-1])) > 0, text && len(p) > 0 && p[0] == '"':
		return b.promptAt[1] - 1
	}
	return -1
}

// resumption are the edits that make an endpoint go on with an answer.
func (b *body) resumption(path string, t *transcript) []edit {
	said, _ := json.Marshal(t.text.String()) // of a string, which does not fail
	at := b.edge(path)
	var edits []edit
	if path == "/v1/completions" {
		edits = []edit{{[2]int{at, at}, said[1 : len(said)-1]}}
	} else {
		end := bytes.LastIndexByte(b.raw, '}')
		edits = []edit{
			{[2]int{at, at}, []byte(`,{"role":"assistant","content":` + string(said) + "}")},
			{[2]int{end, end}, []byte(`,"continue_final_message":true,"add_generation_prompt":false`)},
		}
	}
	for _, e := range b.mostAt {
		left, _ := json.Marshal(b.most - t.tokens)
		edits = append(edits, edit{e.at, left})
	}
	return edits
}

// mostSaid is the most bytes of an answer that another endpoint may have to go on with.
const mostSaid = 4 << 20

// transcript is what the client got of a stream that can be resumed.
type transcript struct {
	text     strings.Builder
	tokens   int     // events with text
	ids      []int32 // the tokens, as far as endpoints told them
	untold   bool    // some were not told
	byTokens bool    // the text is not enough to go on
	told     bool    // events tell tokens, which the client did not ask for
	resumed  bool    // what comes is another endpoint's
	before   int     // tokens that are not in its usage
	finished bool    // the answer has its finish_reason
	lost     bool    // there was more in it than text
	first    struct{ id, created json.RawMessage }
}

// exact reports whether all tokens are known.
func (t *transcript) exact() bool { return !t.untold && len(t.ids) > 0 }

// resumable reports whether the answer can go on at another endpoint.
func (t *transcript) resumable(b *body) bool {
	if t == nil || t.lost || t.finished || t.byTokens && !t.exact() && t.tokens > 0 {
		return false
	}
	return b.most == 0 || max(t.tokens, len(t.ids)) < b.most
}

// chunk is an event of a stream of chat completions or completions.
type chunk map[string]json.RawMessage

// choice is what an event adds to an answer.
type choice map[string]json.RawMessage

// add notes an event and returns what the client gets in its place: of another endpoint's stream the answer's own id
// and time, and no second beginning.
func (t *transcript) add(event []byte) []byte {
	data, ok := bytes.CutPrefix(bytes.TrimSpace(event), fields[0])
	if data = bytes.TrimSpace(data); !ok || data[0] != '{' { // a comment, or [DONE]
		t.lost = t.lost || bytes.Contains(event, []byte("\ndata:"))
		return event
	}
	var c chunk
	var choices []choice
	if json.Unmarshal(data, &c) != nil || c["choices"] == nil || json.Unmarshal(c["choices"], &choices) != nil || len(choices) > 1 {
		t.lost = true
		return event
	}
	if t.first.id == nil {
		t.first.id, t.first.created = c["id"], c["created"]
	}
	news := len(choices) == 0
	for _, x := range choices {
		news = t.note(x) || news
	}
	if !t.resumed {
		return t.cut(event)
	}
	if !news {
		return nil
	}
	return t.rewrite(c, choices)
}

// note notes a choice, and reports whether it says anything.
func (t *transcript) note(c choice) (news bool) {
	text := c["text"]
	if c["delta"] != nil {
		var delta map[string]json.RawMessage
		t.lost = t.lost || json.Unmarshal(c["delta"], &delta) != nil
		text = delta["content"]
		for key, value := range delta {
			switch {
			case key == "content" || key == "role" || string(value) == "null":
			case key == "reasoning_content" || key == "reasoning":
				t.byTokens, news = true, true
			default:
				t.lost = true
			}
		}
	}
	var ids []int32
	if told := c["token_ids"]; told != nil && json.Unmarshal(told, &ids) != nil {
		t.untold = true
	}
	t.ids = append(t.ids, ids...)
	var s string
	if text != nil && json.Unmarshal(text, &s) == nil && s != "" {
		t.text.WriteString(s)
		news = true
	}
	if t.text.Len() > mostSaid || len(t.ids) > mostSaid/bytesPerToken {
		*t = transcript{first: t.first, told: t.told, resumed: t.resumed, before: t.before, tokens: t.tokens, lost: true, untold: true}
	}
	if news {
		t.tokens++
		t.untold = t.untold || len(ids) == 0
	}
	if reason := c["finish_reason"]; reason != nil && string(reason) != "null" {
		t.finished, news = true, true
	}
	return news
}

// toldTokens begin what an event tells of tokens.
var toldTokens = [][]byte{[]byte(`,"token_ids":[`), []byte(`,"prompt_token_ids":[`)}

// cut takes out of an event the tokens that the client did not ask for. In a text their names would have backslashes.
func (t *transcript) cut(event []byte) []byte {
	if !t.told {
		return event
	}
	for _, name := range toldTokens {
		if i := bytes.Index(event, name); i >= 0 {
			if n := bytes.IndexByte(event[i:], ']'); n > 0 {
				event = slices.Concat(event[:i], event[i+n+1:])
			}
		}
	}
	return event
}

// rewrite makes an event of another endpoint one of the answer.
func (t *transcript) rewrite(c chunk, choices []choice) []byte {
	if t.first.id != nil {
		c["id"], c["created"] = t.first.id, t.first.created
	}
	if t.told {
		delete(c, "prompt_token_ids")
	}
	for _, x := range choices {
		if t.told {
			delete(x, "token_ids")
		}
		var delta map[string]json.RawMessage
		if json.Unmarshal(x["delta"], &delta) == nil {
			delete(delta, "role")
			x["delta"], _ = json.Marshal(delta)
		}
	}
	var usage map[string]json.RawMessage
	if json.Unmarshal(c["usage"], &usage) == nil && usage != nil {
		shift := func(name string, by int) {
			var n int
			if json.Unmarshal(usage[name], &n) == nil {
				usage[name], _ = json.Marshal(max(0, n+by))
			}
		}
		shift("prompt_tokens", -t.before) // what went before is part of the answer
		shift("completion_tokens", t.before)
		c["usage"], _ = json.Marshal(usage)
	}
	if len(choices) > 0 {
		c["choices"], _ = json.Marshal(choices)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.lost = true
		return nil
	}
	return append(append([]byte("data: "), data...), "\n\n"...)
}
