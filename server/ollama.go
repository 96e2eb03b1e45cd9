package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/api/ollama"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/sampling"
)

// ollamaAPI is Ollama's API.
func ollamaAPI() *dialect {
	return &dialect{
		names: map[fault.Field]string{engine.FieldMaxTokens: "options.num_predict", text.FieldText: "input",
			sampling.FieldRepetitionPenalty: "options.repeat_penalty", engine.FieldAdapter: "model"},
		fail:       func(f *failure) any { return ollama.ErrorResponse{Error: f.message} },
		failEvent:  func(dst []byte, f *failure) []byte { return ollama.AppendError(dst, f.message) },
		streamType: "application/x-ndjson",
		title:      "Ollama", replies: ollamaReplies,
		routes: func(s *Server) map[string]route {
			return map[string]route{
				"/api/chat":        {"POST", s.ollamaAsks(decodeOllamaChat), clients, "Ollama: the next message of a conversation"},
				"/api/generate":    {"POST", s.ollamaAsks(decodeOllamaGenerate), clients, "Ollama: the continuation of a text"},
				"/api/embed":       {"POST", pooled(s, ollama.DecodeEmbed, s.ollamaEmbed), clients, "Ollama: the vectors of texts"},
				"/api/embeddings":  {"POST", pooled(s, ollama.DecodeEmbeddings, s.ollamaEmbedOne), clients, "Ollama: the vector of one text"},
				"/api/tags":        {"GET", s.ollamaTags, clients, "Ollama: the models"},
				"/api/ps":          {"GET", s.ollamaPs, clients, "Ollama: the models in memory"},
				"/api/show":        {"POST", pooled(s, ollama.DecodeShow, s.ollamaShow), clients, "Ollama: what a model is"},
				"/api/pull":        {"POST", s.ollamaPull, admins, "Ollama: fetch a model from the hub"},
				"/api/create":      {"POST", s.ollamaCreate, admins, "Ollama: make a model of another one"},
				"/api/copy":        {"POST", s.ollamaCopy, admins, "Ollama: give a model another name"},
				"/api/delete":      {"DELETE", s.ollamaDelete, admins, "Ollama: take a model away"},
				blobPath:           {"POST", s.putBlob, admins, "Ollama: leave a file that models are made of"},
				"HEAD " + blobPath: {"HEAD", s.hasBlob, admins, "Ollama: whether a file is there"},
				"/api/version":     {"GET", s.ollamaVersion, anyone, "the version of Ollama whose API this is"},
			}
		},
	}
}

// ollamaReplies are what the paths answer.
var ollamaReplies = map[string]reply{
	"/api/chat": {ollama.Line{}, ollama.Line{}}, "/api/generate": {ollama.Line{}, ollama.Line{}},
	"/api/embed": {whole: ollama.EmbedResponse{}}, "/api/embeddings": {whole: ollama.EmbeddingsResponse{}},
	"/api/tags": {whole: ollama.Tags{}}, "/api/ps": {whole: ollama.Processes{}}, "/api/show": {whole: ollama.ShowResponse{}},
	"/api/pull": {ollama.Progress{}, ollama.Progress{}}, "/api/create": {ollama.Progress{}, ollama.Progress{}},
	"/api/copy": {whole: success{}}, "/api/delete": {whole: success{}}, "/api/version": {whole: versionReport{}},
}

func (s *Server) ollamaVersion(w http.ResponseWriter, _ *http.Request) {
	s.write(w, http.StatusOK, versionReport{ollama.APIVersion})
}

// ollamaParams are the members of "options". Those of the second half say how Ollama computes a model, which no answer
// here depends on.
var ollamaParams = parameters{
	"temperature":       openaiParams["temperature"],
	"top_p":             openaiParams["top_p"],
	"min_p":             openaiParams["min_p"],
	"typical_p":         openaiParams["typical_p"],
	"presence_penalty":  openaiParams["presence_penalty"],
	"frequency_penalty": openaiParams["frequency_penalty"],
	"mirostat":          openaiParams["mirostat"],
	"mirostat_tau":      openaiParams["mirostat_tau"],
	"mirostat_eta":      openaiParams["mirostat_eta"],
	"stop":              openaiParams["stop"],
	"seed":              openaiParams["seed"],
	"top_k":             param(integer(-1, math.MaxInt32), func(r *text.Request, n int) { r.Sampling.TopK = n }),
	"repeat_penalty":    param(positive(1e6), func(r *text.Request, x float32) { r.Sampling.RepetitionPenalty = x }),
	"num_predict":       param(integer(-2, math.MaxInt32), func(r *text.Request, n int) { r.MaxTokens = max(n, 0) }),
	"num_ctx":           param(integer(0, math.MaxInt32), func(r *text.Request, n int) { r.Context = cmp.Or(n, math.MaxInt32) }),
	"repeat_last_n":     inert("-1"), // repeat_penalty looks at all tokens

	"num_keep": unused(integer(-1, math.MaxInt32)), "num_batch": unused(integer(0, math.MaxInt32)),
	"num_gpu": unused(integer(-1, math.MaxInt32)), "main_gpu": unused(integer(-1, math.MaxInt32)),
	"num_thread": unused(integer(0, math.MaxInt32)), "numa": unused((*wire.Cursor).Bool),
	"low_vram": unused((*wire.Cursor).Bool), "f16_kv": unused((*wire.Cursor).Bool),
	"use_mmap": unused((*wire.Cursor).Bool), "use_mlock": unused((*wire.Cursor).Bool),
	"penalize_newline": inert("true"), "tfs_z": inert("1", "1.0"), "vocab_only": inert("false"),
	"logits_all": inert("false"), "embedding_only": inert("false"),
}

// unused reads a parameter that changes nothing.
func unused[T any](read func(*wire.Cursor) (T, error)) func(*wire.Cursor) (setter, error) {
	return param(read, func(*text.Request, T) {})
}

// inert reads a parameter that is accepted only while it asks for nothing.
func inert(allowed ...string) func(*wire.Cursor) (setter, error) {
	return func(c *wire.Cursor) (setter, error) { return func(*text.Request) {}, c.Inert(allowed...) }
}

// ollamaAnswer answers /api/chat and /api/generate.
type ollamaAnswer struct {
	common   *ollama.Common
	chat     *ollama.ChatRequest     // or
	generate *ollama.GenerateRequest // is nil
	params   given
	encoder  ollama.Encoder
	job      *job

	came, begun time.Time     // the request, and its model
	calls       []ollama.Call // whose arguments may not be complete
}

func decodeOllamaChat(body []byte) (*ollamaAnswer, error) {
	a := &ollamaAnswer{params: given{known: ollamaParams}, came: time.Now()}
	var err error
	if a.chat, err = ollama.DecodeChat(body, a.params.read); err != nil {
		return nil, err
	}
	a.common, a.encoder = &a.chat.Common, ollama.Encoder{Model: a.chat.Model, Chat: true}
	return a, nil
}

func decodeOllamaGenerate(body []byte) (*ollamaAnswer, error) {
	a := &ollamaAnswer{params: given{known: ollamaParams}, came: time.Now()}
	var err error
	if a.generate, err = ollama.DecodeGenerate(body, a.params.read); err != nil {
		return nil, err
	}
	a.common, a.encoder = &a.generate.Common, ollama.Encoder{Model: a.generate.Model}
	return a, nil
}

// empty reports whether a request is only to load a model, or to unload it.
func (a *ollamaAnswer) empty() bool {
	if a.chat != nil {
		return len(a.chat.Messages) == 0
	}
	return a.generate.Prompt == "" && a.generate.Suffix == nil
}

// ollamaAsks returns the handler of an endpoint whose requests are read by decode.
func (s *Server) ollamaAsks(decode func([]byte) (*ollamaAnswer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var j *job
		a, err := read(w, r, decode)
		if err == nil && a.empty() {
			s.ollamaLoad(w, r, a)
			return
		}
		if err == nil {
			if a.chat != nil {
				warn(w, a.chat.Ignored)
			}
			keepFor(r.Context(), a.common.KeepAlive)
			j, err = s.await(w, r, &ask{model: ollamaName(a.common.Model), stream: a.common.Stream, made: 1, given: 1,
				answer: a, prompts: a.prompts})
			if longer(r.Context()) {
				warn(w, []string{"keep_alive"})
			}
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.answer(w, r, j)
	}
}

// ollamaName returns a model's name without the tag that Ollama's clients add to names that have none.
func ollamaName(name string) string { return strings.TrimSuffix(name, ":latest") }

// errOthersUseIt keeps the holder of an API key from unloading what holders of others use.
var errOthersUseIt = refuse(http.StatusForbidden, "keep_alive", "needs_admin_key",
	"Other API keys use the model too. Unloading it takes the admin key: POST /models/unload.")

// ollamaLoad loads a model for requests to come, or unloads it if it is to be kept for no time.
func (s *Server) ollamaLoad(w http.ResponseWriter, r *http.Request, a *ollamaAnswer) {
	var err error
	done := &ollama.Done{Reason: "load"}
	if keep := a.common.KeepAlive; keep != nil && *keep == 0 {
		done.Reason = "unload"
		if err = errOthersUseIt; tenantOf(r.Context()).Name == "" {
			err = s.unload(r.Context(), ollamaName(a.common.Model))
		}
	} else {
		keepFor(r.Context(), keep)
		_, _, err = s.lookup(r.Context(), ollamaName(a.common.Model))
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, json.RawMessage(a.encoder.Append(nil, &ollama.Piece{Created: time.Now(), Done: done})))
}

func (a *ollamaAnswer) prompts(info text.Info) ([]text.Request, error) {
	info.Defaults.Seed = mathrand.Uint64()
	r := a.params.request(info)
	r.Context = cmp.Or(r.Context, math.MaxInt32)
	if a.common.Logprobs {
		r.Logprobs = a.common.TopLogprobs
	}
	if f := a.common.Format; f != nil {
		r.Answer.Form = &text.Form{Field: "format", Spec: grammar.Spec{Schema: f.Schema, JSON: f.Schema == nil, Compact: true,
			Ordered: true}}
	}
	r.Answer.Parse = true
	if t := a.common.Think; t != nil && t.On && !info.Reasons {
		return nil, wire.Invalid("think", wire.CodeInvalidValue, "%s does not reason before it answers", info.Name)
	}
	switch g := a.generate; {
	case g == nil:
		a.converse(&r)
	case g.Raw || g.Suffix != nil || !info.Chats && g.System == "":
		r.Prompt, r.Suffix, r.Answer.Parse = g.Prompt, g.Suffix, false
	default:
		r.Chat = &chat.Input{AddGenerationPrompt: true}
		if g.System != "" {
			r.Chat.Messages = append(r.Chat.Messages, chat.Message{Role: "system", Content: g.System})
		}
		r.Chat.Messages = append(r.Chat.Messages, chat.Message{Role: "user", Content: g.Prompt})
		a.think(r.Chat)
	}
	return []text.Request{r}, nil
}

// think tells the template whether the model is to reason.
func (a *ollamaAnswer) think(in *chat.Input) {
	t := a.common.Think
	if t == nil {
		return
	}
	in.Extra = chat.NewDict()
	in.Extra.Set("enable_thinking", t.On) // templates call it by two names
	in.Extra.Set("thinking", t.On)
	if t.Effort != "" {
		in.Extra.Set("reasoning_effort", t.Effort)
	}
}

// converse puts a conversation and its tools into a request.
func (a *ollamaAnswer) converse(r *text.Request) {
	last := a.chat.Messages[len(a.chat.Messages)-1]
	r.Chat = &chat.Input{AddGenerationPrompt: true}
	if last.Role == "assistant" && len(last.Calls) == 0 { // as Ollama does
		r.Chat.AddGenerationPrompt, r.Chat.Continue = false, true
	}
	for _, m := range a.chat.Messages {
		out := chat.Message{Role: m.Role, Content: m.Content, Reasoning: m.Thinking, Name: m.ToolName, ToolCallID: m.ToolCallID}
		for _, c := range m.Calls {
			out.ToolCalls = append(out.ToolCalls, chat.ToolCall{ID: c.ID, Name: c.Name, Arguments: string(c.Arguments)})
		}
		r.Chat.Messages = append(r.Chat.Messages, out)
	}
	a.think(r.Chat)
	for i, t := range a.chat.Tools {
		r.Chat.Tools = append(r.Chat.Tools, t.JSON)
		r.Answer.Tools = append(r.Answer.Tools, text.Tool{Field: fault.Field(fmt.Sprintf("tools[%d].function.parameters", i)),
			Tool: chat.Tool{Name: t.Name, Parameters: t.Parameters}})
	}
}

func (a *ollamaAnswer) begin(j *job) {
	a.job, a.begun = j, time.Now()
	a.encoder.Model = cmp.Or(a.encoder.Model, j.title())
}

// ping writes a line that says nothing, which clients take for an empty piece.
func (a *ollamaAnswer) ping(dst []byte) []byte {
	return a.encoder.Append(dst, &ollama.Piece{Created: time.Now()})
}

// piece writes a line, if there is something to say. Calls of tools are told once they are complete.
func (a *ollamaAnswer) piece(dst []byte, c *choice, d *text.Delta) []byte {
	p := ollama.Piece{Text: d.Text, Thinking: d.Reasoning, Logprobs: ollamaLogprobs(d.Tokens)}
	for _, e := range d.Calls {
		if e.Kind == chat.Called {
			p.Calls = append(p.Calls, a.called()...)
		}
		a.add(e)
	}
	if d.Finish != "" {
		p.Calls = append(p.Calls, a.called()...)
	}
	if p.Text == "" && p.Thinking == "" && p.Calls == nil && p.Logprobs == nil {
		return dst
	}
	p.Created = time.Now()
	return a.encoder.Append(dst, &p)
}

// add adds an event to the calls.
func (a *ollamaAnswer) add(e chat.Event) {
	if e.Kind == chat.Called {
		a.calls = append(a.calls, ollama.Call{ID: e.ID, Name: e.Text})
		return
	}
	last := &a.calls[len(a.calls)-1]
	last.Arguments = append(last.Arguments, e.Text...)
}

// called returns the complete calls, and forgets them. One whose arguments are no object, since the answer was cut off,
// is left out: clients could not read it.
func (a *ollamaAnswer) called() (complete []ollama.Call) {
	for _, c := range a.calls {
		if len(c.Arguments) == 0 {
			c.Arguments = json.RawMessage("{}")
		}
		if json.Valid(c.Arguments) && c.Arguments[0] == '{' {
			complete = append(complete, c)
		}
	}
	a.calls = nil
	return complete
}

func ollamaLogprobs(tokens []text.TokenInfo) (out []ollama.Logprob) {
	for _, t := range tokens {
		out = append(out, ollama.Logprob{Token: t.Bytes, Logprob: t.Logprob, Top: ollamaLogprobs(t.Top)})
	}
	return out
}

// done returns what ends an answer.
func (a *ollamaAnswer) done() *ollama.Done {
	now, u, c := time.Now(), a.job.usage(), a.job.choices[0]
	d := &ollama.Done{Reason: c.finish, Total: now.Sub(a.came), Load: a.begun.Sub(a.came), PromptEval: c.came.Sub(a.begun),
		Eval: now.Sub(c.came), Prompt: u.Prompt, Generated: u.Generated}
	if d.Reason == "tool_calls" {
		d.Reason = "stop"
	}
	return d
}

func (a *ollamaAnswer) end(dst []byte) []byte {
	return a.encoder.Append(dst, &ollama.Piece{Created: time.Now(), Done: a.done()})
}

func (a *ollamaAnswer) whole() any {
	c := a.job.choices[0]
	for _, e := range c.events {
		a.add(e)
	}
	return json.RawMessage(a.encoder.Append(nil, &ollama.Piece{Created: time.Now(), Text: c.text.String(),
		Thinking: c.reason.String(), Calls: a.called(), Logprobs: ollamaLogprobs(c.tokens), Done: a.done()}))
}
