package server

import (
	"cmp"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/sampling"
)

// llamaAPI is what editors use of the API of llama.cpp's server, beside OpenAI's.
func llamaAPI() *dialect {
	return &dialect{
		names: map[fault.Field]string{engine.FieldMaxTokens: "n_predict"},
		fail: func(f *failure) any {
			kind := "invalid_request_error"
			if f.status >= 500 {
				kind = "server_error"
			}
			return llamaFailure{llamaError{f.status, f.message, kind}}
		},
		title: "llama.cpp", replies: map[string]reply{"/completion": {llamaPiece{}, llamaPiece{}},
			"/infill": {llamaPiece{}, llamaPiece{}}, "/props": {whole: llamaProps{}}, "/slots": {whole: []llamaSlot{}}},
		failEvent: func(dst []byte, f *failure) []byte {
			dst = wire.AppendString(append(dst, `error: {"message":`...), f.message)
			return append(dst, "}\n\n"...)
		},
		streamType: "text/event-stream; charset=utf-8", ping: ": ping\n\n",
		routes: func(s *Server) map[string]route {
			return map[string]route{
				"/completion": {"POST", s.asks(decodeLlamaCompletion), clients, "llama.cpp: the continuation of a text"},
				"/infill":     {"POST", s.asks(decodeLlamaInfill), clients, "llama.cpp: what is between two texts"},
				"/props":      {"GET", s.llamaProps, clients, "llama.cpp: what a model is"},
				"/slots":      {"GET", s.llamaSlots, clients, "llama.cpp: what is computed now"},
			}
		},
	}
}

// llamaFailure is an answer that is an error.
type llamaFailure struct {
	Error llamaError `json:"error"`
}

type llamaError struct {
	Code    int    `json:"code"` // the status
	Message string `json:"message"`
	Type    string `json:"type"`
}

// llamaPiece is a piece of a stream, or a whole answer: those members of it that the request selects.
type llamaPiece struct {
	Index      int                `json:"index,omitempty"`
	Content    string             `json:"content,omitempty"`
	Tokens     []int32            `json:"tokens,omitempty"`
	Slot       int                `json:"id_slot,omitempty"`
	Stop       bool               `json:"stop,omitempty"`
	Model      string             `json:"model,omitempty"`
	Predicted  int                `json:"tokens_predicted,omitempty"`
	Evaluated  int                `json:"tokens_evaluated,omitempty"`
	Cached     int                `json:"tokens_cached,omitempty"`
	Truncated  bool               `json:"truncated,omitempty"`
	StopType   string             `json:"stop_type,omitempty" enum:"eos,limit"`
	Timings    map[string]float64 `json:"timings,omitempty"`
	PromptN    int                `json:"timings/prompt_n,omitempty"` // members of timings, selected by their paths
	PromptMS   float64            `json:"timings/prompt_ms,omitempty"`
	PromptRate float64            `json:"timings/prompt_per_second,omitempty"`
	AnswerN    int                `json:"timings/predicted_n,omitempty"`
	AnswerMS   float64            `json:"timings/predicted_ms,omitempty"`
	AnswerRate float64            `json:"timings/predicted_per_second,omitempty"`
}

// llamaProps is the answer of /props.
type llamaProps struct {
	Defaults struct {
		Context int            `json:"n_ctx"` // tokens
		Params  map[string]any `json:"params"`
	} `json:"default_generation_settings"`
	Alias      string          `json:"model_alias"`
	Path       string          `json:"model_path"`
	Template   string          `json:"chat_template"`
	Modalities map[string]bool `json:"modalities"`
	Build      string          `json:"build_info"`
}

// llamaParams are the parameters of both endpoints. Those of the last lines say how llama.cpp keeps its cache and what
// it tells, which no answer here depends on.
var llamaParams = parameters{
	"temperature": openaiParams["temperature"], "top_k": ollamaParams["top_k"], "top_p": openaiParams["top_p"],
	"min_p": openaiParams["min_p"], "typical_p": openaiParams["typical_p"], "top_n_sigma": openaiParams["top_n_sigma"],
	"repeat_penalty": ollamaParams["repeat_penalty"], "presence_penalty": openaiParams["presence_penalty"],
	"frequency_penalty": openaiParams["frequency_penalty"], "repeat_last_n": inert("-1"),
	"xtc_probability": openaiParams["xtc_probability"], "xtc_threshold": openaiParams["xtc_threshold"],
	"dynatemp_range": openaiParams["dynatemp_range"], "dynatemp_exponent": openaiParams["dynatemp_exponent"],
	"mirostat": openaiParams["mirostat"], "mirostat_tau": openaiParams["mirostat_tau"],
	"mirostat_eta": openaiParams["mirostat_eta"], "dry_multiplier": openaiParams["dry_multiplier"],
	"dry_base": openaiParams["dry_base"], "dry_allowed_length": openaiParams["dry_allowed_length"],
	"dry_penalty_last_n": openaiParams["dry_penalty_last_n"], "dry_sequence_breakers": openaiParams["dry_sequence_breakers"],
	"seed": param((*wire.Cursor).Int, func(r *text.Request, n int64) {
		if n != -1 { // which is any
			r.Sampling.Seed = uint64(n)
		}
	}),
	"samplers": param(llamaStages, func(r *text.Request, list []sampling.Stage) { r.Sampling.Samplers = list }),
	"stop":     openaiParams["stop"], "ignore_eos": openaiParams["ignore_eos"], "logit_bias": openaiParams["logit_bias"],
	"t_max_predict_ms": unused(integer(0, math.MaxInt32)), "t_max_prompt_ms": unused(integer(0, math.MaxInt32)),
	"n_keep": unused(integer(-1, math.MaxInt32)), "n_cache_reuse": unused(integer(0, math.MaxInt32)),
	"cache_prompt": unused((*wire.Cursor).Bool), "timings_per_token": unused((*wire.Cursor).Bool),
	"id_slot": unused(integer(-1, math.MaxInt32)), "n_probs": inert("0"), "n_indent": unused(integer(0, math.MaxInt32)),
}

// llamaStages reads the order of the samplers, as OpenAI's API here has it, but for "infill": llama.cpp's own sampler,
// which only ends answers earlier.
func llamaStages(c *wire.Cursor) ([]sampling.Stage, error) { return readStages(c, "infill") }

// llamaAnswer answers /completion and /infill.
type llamaAnswer struct {
	params         given
	most           int // n_predict
	prompt         string
	ids            []int32
	prefix, suffix string          // of infill: what precedes the prompt, and what follows the answer
	extra          strings.Builder // of infill: what precedes the prefix
	infill         bool
	form           *text.Form
	fields         []string // of the answer that are told; nil is all
	job            *job
	begun          time.Time
}

func decodeLlamaCompletion(body []byte) (*ask, error) { return new(llamaAnswer).decode(body) }
func decodeLlamaInfill(body []byte) (*ask, error)     { return (&llamaAnswer{infill: true}).decode(body) }

func (l *llamaAnswer) decode(body []byte) (*ask, error) {
	l.params.known, l.most = llamaParams, -1
	a := &ask{made: 1, given: 1, answer: l, prompts: l.prompts}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "model":
			a.model, err = c.Text()
		case "stream":
			a.stream, err = c.Bool()
		case "n_predict", "max_tokens":
			l.most, err = c.IntIn(-1, math.MaxInt32)
		case "prompt":
			if c.Peek() == '[' {
				l.ids, err = c.Tokens(math.MaxInt32)
			} else {
				l.prompt, err = c.Text()
			}
		case "json_schema":
			l.form = &text.Form{Field: "json_schema", Spec: grammar.Spec{Compact: true, Ordered: true}}
			l.form.Spec.Schema, err = c.Raw()
		case "grammar":
			var source string
			if source, err = c.Text(); source != "" {
				l.form = &text.Form{Field: "grammar", Spec: grammar.Spec{Grammar: source}}
			}
		case "response_fields":
			err = c.Array("an array of strings", func(int) error {
				field, err := c.Text()
				l.fields = append(l.fields, field)
				return err
			})
		case "input_prefix", "input_suffix", "input_extra":
			err = l.readInput(c, key)
		default:
			var known bool
			if known, err = l.params.read(c, key); !known && err == nil {
				err = c.Unsupported()
			}
		}
		return err
	})
	a.silent = l.most == 0 // the prompt is computed, for requests to come
	if err == nil && l.infill && l.ids != nil {
		err = wire.Invalid("prompt", wire.CodeInvalidType, "expected a string, found tokens")
	}
	return a, err
}

// readInput reads what an infill is made of.
func (l *llamaAnswer) readInput(c *wire.Cursor, key string) (err error) {
	switch {
	case !l.infill:
		return c.Unsupported()
	case key == "input_prefix":
		l.prefix, err = c.Text()
		return err
	case key == "input_suffix":
		l.suffix, err = c.Text()
		return err
	}
	l.extra.Reset()
	return c.Array("an array of objects", func(int) error {
		var name, snippet string
		err := c.Object(func(key string) (err error) {
			switch key {
			case "filename":
				name, err = c.Text()
			case "text":
				snippet, err = c.Text()
			case "time": // when it was seen, which some editors add
				err = c.Skip()
			default:
				err = c.Unsupported()
			}
			return err
		})
		fmt.Fprintf(&l.extra, "--- %s ---\n%s\n", cmp.Or(name, "snippet"), snippet)
		return err
	})
}

func (l *llamaAnswer) prompts(info text.Info) ([]text.Request, error) {
	info.Defaults.Seed = mathrand.Uint64()
	r := l.params.request(info)
	if l.most >= 0 {
		r.MaxTokens = max(l.most, 1)
	}
	r.Context, r.Prompt, r.IDs, r.Answer.Form = math.MaxInt32, l.prompt, l.ids, l.form
	if l.infill {
		r.Prompt, r.Suffix = l.extra.String()+l.prefix+l.prompt, &l.suffix
	}
	return []text.Request{r}, nil
}

func (l *llamaAnswer) begin(j *job) { l.job, l.begun = j, time.Now() }

func (l *llamaAnswer) piece(dst []byte, c *choice, d *text.Delta) []byte {
	if d.Text == "" {
		return dst
	}
	return appendEvent(dst, map[string]any{"index": 0, "content": d.Text, "tokens": d.IDs, "stop": false, "id_slot": 0,
		"tokens_predicted": c.usage.Generated, "tokens_evaluated": c.usage.Prompt})
}

func (l *llamaAnswer) end(dst []byte) []byte { return appendEvent(dst, l.selected(l.last(""))) }

func (l *llamaAnswer) whole() any { return l.selected(l.last(l.job.choices[0].text.String())) }

// last returns what ends an answer.
func (l *llamaAnswer) last(content string) map[string]any {
	c, u, now := l.job.choices[0], l.job.usage(), time.Now()
	reason := "eos"
	if c.finish == "length" {
		reason = "limit"
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	rate := func(n int, d time.Duration) float64 { return float64(n) / max(d.Seconds(), 1e-6) }
	prompt, answer := c.came.Sub(l.begun), now.Sub(c.came)
	return map[string]any{"index": 0, "content": content, "tokens": []int32{}, "id_slot": 0, "stop": true,
		"model": l.job.title(), "tokens_predicted": u.Generated, "tokens_evaluated": u.Prompt, "tokens_cached": u.Cached,
		"truncated": false, "stop_type": reason, "timings": map[string]any{
			"prompt_n": u.Prompt - u.Cached, "prompt_ms": ms(prompt), "prompt_per_second": rate(u.Prompt-u.Cached, prompt),
			"predicted_n": u.Generated, "predicted_ms": ms(answer), "predicted_per_second": rate(u.Generated, answer)}}
}

// selected returns the fields that are wanted, those inside others by their path, such as timings/prompt_n.
func (l *llamaAnswer) selected(all map[string]any) map[string]any {
	if l.fields == nil {
		return all
	}
	out := map[string]any{}
	for _, path := range l.fields {
		outer, inner, nested := strings.Cut(path, "/")
		v, ok := all[outer]
		if m, _ := v.(map[string]any); nested {
			v, ok = m[inner]
		}
		if ok {
			out[path] = v
		}
	}
	return out
}

func (s *Server) llamaProps(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "model")
	var m *Served
	if err == nil {
		m, _, err = s.lookup(r.Context(), q["model"])
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	info := m.Model.Info()
	p := info.Defaults
	out := llamaProps{Alias: info.Name, Path: info.Name, Template: m.About.Template,
		Modalities: map[string]bool{"vision": false, "audio": false}, Build: "kvasir " + s.cfg.Version}
	out.Defaults.Context = info.Context
	out.Defaults.Params = map[string]any{"temperature": p.Temperature, "top_k": p.TopK, "top_p": p.TopP, "min_p": p.MinP,
		"repeat_penalty": p.RepetitionPenalty, "n_predict": -1}
	s.write(w, http.StatusOK, out)
}

// llamaSlot is a place where llama.cpp computes a sequence.
type llamaSlot struct {
	ID          int  `json:"id"`
	Context     int  `json:"n_ctx"` // tokens
	Speculative bool `json:"speculative"`
	Processing  bool `json:"is_processing"`
}

// llamaSlots answers with a slot for each sequence that is computed, and one that is free unless others wait: there are
// as many as fit in a step. With fail_on_no_slot it refuses if none is free, as balancers ask.
func (s *Server) llamaSlots(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "model", "fail_on_no_slot")
	var m *Served
	if err == nil {
		m, _, err = s.lookup(r.Context(), q["model"])
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	now, context := m.Engine.Report(), m.Model.Info().Context
	if q["fail_on_no_slot"] != "" && now.Waiting > 0 {
		s.fail(w, r, refuse(http.StatusServiceUnavailable, "", "no_slot", "no slot available"))
		return
	}
	slots := make([]llamaSlot, now.Running, now.Running+1)
	if now.Waiting == 0 {
		slots = append(slots, llamaSlot{})
	}
	for i := range slots {
		slots[i] = llamaSlot{ID: i, Context: context, Processing: i < now.Running}
	}
	s.write(w, http.StatusOK, slots)
}
