package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/sampling"
)

// openaiBodies are the smallest chat and completion with members added.
func openaiBodies(members string) map[string]func([]byte) (*ask, error) {
	return map[string]func([]byte) (*ask, error){
		`{"messages":[{"role":"user","content":"hi"}],` + members + "}": decodeChat,
		`{"prompt":"x",` + members + "}":                                decodeCompletion,
	}
}

func TestOpenAIParameters(t *testing.T) {
	for members, set := range map[string]func(*text.Request){
		`"min_tokens":0`:                    func(r *text.Request) {},
		`"temperature":0`:                   func(r *text.Request) { r.Sampling.Temperature = 0 },
		`"temperature":1.5e0`:               func(r *text.Request) { r.Sampling.Temperature = 1.5 },
		`"top_p":0.9`:                       func(r *text.Request) { r.Sampling.TopP = 0.9 },
		`"top_p":0`:                         func(r *text.Request) { r.Sampling.TopP = math.SmallestNonzeroFloat32 },
		`"top_k":-1`:                        func(r *text.Request) { r.Sampling.TopK = -1 },
		`"min_p":0.05`:                      func(r *text.Request) { r.Sampling.MinP = 0.05 },
		`"repetition_penalty":1.1`:          func(r *text.Request) { r.Sampling.RepetitionPenalty = 1.1 },
		`"presence_penalty":-2`:             func(r *text.Request) { r.Sampling.PresencePenalty = -2 },
		`"frequency_penalty":2`:             func(r *text.Request) { r.Sampling.FrequencyPenalty = 2 },
		`"typical_p":0.9,"top_n_sigma":1.5`: func(r *text.Request) { r.Sampling.TypicalP, r.Sampling.TopNSigma = 0.9, 1.5 },
		`"top_n_sigma":-1`:                  func(r *text.Request) {},
		`"xtc_probability":0.5,"xtc_threshold":0.2`: func(r *text.Request) {
			r.Sampling.XTCProbability, r.Sampling.XTCThreshold = 0.5, 0.2
		},
		`"dynatemp_range":0.5,"dynatemp_exponent":2`: func(r *text.Request) {
			r.Sampling.DynamicRange, r.Sampling.DynamicExponent = 0.5, 2
		},
		`"mirostat":0`: func(r *text.Request) {},
		`"mirostat":2,"mirostat_tau":4,"mirostat_eta":0.2`: func(r *text.Request) {
			r.Sampling.Mirostat, r.Sampling.MirostatTau, r.Sampling.MirostatEta = true, 4, 0.2
		},
		`"dry_multiplier":0.8,"dry_base":2,"dry_allowed_length":3,"dry_penalty_last_n":64`: func(r *text.Request) {
			p := &r.Sampling
			p.DRYMultiplier, p.DRYBase, p.DRYAllowed, p.DRYLastN = 0.8, 2, 3, 64
		},
		`"dry_penalty_last_n":-1`:             func(r *text.Request) {},
		`"dry_sequence_breakers":["\n","ab"]`: func(r *text.Request) { r.DRYBreakers = []string{"\n", "ab"} },
		`"dry_sequence_breakers":[]`:          func(r *text.Request) { r.DRYBreakers = []string{} },
		`"bad_words":["x"]`:                   func(r *text.Request) { r.BadWords = []string{"x"} },
		`"samplers":["penalties","dry","typ_p","temperature"]`: func(r *text.Request) {
			r.Sampling.Samplers = []sampling.Stage{sampling.StageNames["typical_p"], sampling.StageNames["temperature"]}
		},
		`"samplers":[]`:                       func(r *text.Request) { r.Sampling.Samplers = []sampling.Stage{} },
		`"logit_bias":{"7":-100,"0":1.5}`:     func(r *text.Request) { r.Sampling.LogitBias = map[int32]float32{7: -100, 0: 1.5} },
		`"logit_bias":{}`:                     func(r *text.Request) {},
		`"seed":-9223372036854775808`:         func(r *text.Request) { r.Sampling.Seed = 1 << 63 },
		`"stop":"a"`:                          func(r *text.Request) { r.Stop = []string{"a"} },
		`"stop":["a","\u00e9\ud83d\ude00\n"]`: func(r *text.Request) { r.Stop = []string{"a", "é😀\n"} },
		`"stop":[]`:                           func(r *text.Request) {},
		`"stop_token_ids":[1,2]`:              func(r *text.Request) { r.StopTokens = []int32{1, 2} },
		`"include_stop_str_in_output":true`:   func(r *text.Request) { r.IncludeStop = true },
		`"ignore_eos":true`:                   func(r *text.Request) { r.IgnoreEOS = true },
		`"skip_special_tokens":false`:         func(r *text.Request) { r.KeepSpecial = true },
		`"skip_special_tokens":true`:          func(r *text.Request) {},
		`"user":"u"`:                          func(r *text.Request) { r.Tenant = "u" },
		`"priority":-3`:                       func(r *text.Request) { r.Priority = -3 },
		`"ttft_ms":500,"tpot_ms":50,"timeout_ms":86400000`: func(r *text.Request) {
			r.FirstToken, r.PerToken, r.Timeout = 500*time.Millisecond, 50*time.Millisecond, 24*time.Hour
		},
		`"cache_salt":"s"`:                                  func(r *text.Request) { r.Salt = "s" },
		`"kv_priority":-1000,"kv_ttl_ms":1`:                 func(r *text.Request) { r.Keep.Priority, r.Keep.TTL = -1000, 1 },
		`"temperature":null,"stop":null,"tools":null`:       func(r *text.Request) {},
		`"min_tokens":2,"max_tokens":5,"prompt_logprobs":3`: func(r *text.Request) { r.MinTokens, r.MaxTokens, r.PromptLogprobs = 2, 5, 3 },
	} {
		info := text.Info{Defaults: sampling.Params{Temperature: 0.5, TopP: 0.8, TopK: 7, RepetitionPenalty: 1.25}}
		for body, decode := range openaiBodies(members) {
			a, err := decode([]byte(body))
			if err != nil {
				t.Errorf("%s: %v", body, err)
				continue
			}
			got, err := a.prompts(info)
			if err != nil || len(got) != 1 {
				t.Fatalf("%s: %v, %v", body, got, err)
			}
			want := text.Request{Prompt: got[0].Prompt, Chat: got[0].Chat, Answer: got[0].Answer}
			want.Params = engine.Params{Sampling: info.Defaults, Logprobs: -1, PromptLogprobs: -1}
			if want.Sampling.Seed = got[0].Sampling.Seed; want.Chat == nil {
				want.MaxTokens = defaultMaxTokens
			}
			set(&want)
			if diff := cmp.Diff(want, got[0]); diff != "" {
				t.Errorf("%s:\n%s", body, diff)
			}
		}
	}
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	return "{" + b.String()[1:] + "}"
}

func TestOpenAIParametersRefused(t *testing.T) {
	for _, c := range []struct{ members, path, code, message string }{
		{`"use_beam_search":true,"temperature":0.5`, "temperature", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"top_p":0.5`, "top_p", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"top_k":5`, "top_k", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"min_p":0.1`, "min_p", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"repetition_penalty":1.1`, "repetition_penalty", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"presence_penalty":1`, "presence_penalty", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"frequency_penalty":1`, "frequency_penalty", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"logit_bias":{"1":1}`, "logit_bias", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"min_tokens":1`, "min_tokens", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"stop":"x"`, "stop", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"mirostat":2`, "mirostat", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"bad_words":["x"]`, "bad_words", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"typical_p":0`, "typical_p", wire.CodeInvalidValue, "above 0"},
		{`"mirostat":1`, "mirostat", wire.CodeInvalidValue, "version 1 is not supported"},
		{`"dry_penalty_last_n":0`, "dry_penalty_last_n", wire.CodeInvalidValue, "-1 for all"},
		{`"dry_sequence_breakers":["` + strings.Repeat("x", 41) + `"]`, "dry_sequence_breakers", wire.CodeInvalidValue, "at most 40"},
		{`"samplers":["top_p","nucleus"]`, "samplers[1]", wire.CodeInvalidValue, `found "nucleus"`},
		{`"samplers":["top_p","top_p"]`, "samplers[1]", wire.CodeInvalidValue, "twice"},
		{`"samplers":["top_p","dry"]`, "samplers[1]", wire.CodeInvalidValue, "always comes before"},
		{`"min_tokens":-1`, "min_tokens", wire.CodeInvalidValue, ""},
		{`"temperature":"hot"`, "temperature", wire.CodeInvalidType, "temperature: expected a number, found a string"},
		{`"temperature":-0.1`, "temperature", wire.CodeInvalidValue, "from 0 to 2, found -0.1"},
		{`"temperature":1e999`, "temperature", wire.CodeInvalidValue, "too large"},
		{`"top_p":1.1`, "top_p", wire.CodeInvalidValue, "from 0 to 1"},
		{`"top_k":-2`, "top_k", wire.CodeInvalidValue, ""},
		{`"top_k":true`, "top_k", wire.CodeInvalidType, "found a boolean"},
		{`"min_p":2`, "min_p", wire.CodeInvalidValue, ""},
		{`"repetition_penalty":0`, "repetition_penalty", wire.CodeInvalidValue, "above 0"},
		{`"presence_penalty":2.1`, "presence_penalty", wire.CodeInvalidValue, ""},
		{`"frequency_penalty":[]`, "frequency_penalty", wire.CodeInvalidType, "found an array"},
		{`"logit_bias":{"x":1}`, "logit_bias.x", wire.CodeInvalidValue, "id of a token"},
		{`"logit_bias":{"01":1}`, "logit_bias.01", wire.CodeInvalidValue, "id of a token"},
		{`"logit_bias":{"1":101}`, "logit_bias.1", wire.CodeInvalidValue, "from -100 to 100"},
		{`"logit_bias":[]`, "logit_bias", wire.CodeInvalidType, "expected an object, found an array"},
		{`"stop":""`, "stop", wire.CodeInvalidValue, "not empty"},
		{`"stop":["a",""]`, "stop[1]", wire.CodeInvalidValue, "not empty"},
		{`"stop":["a",null]`, "stop[1]", wire.CodeInvalidType, "expected a string, found null"},
		{`"stop":[` + strings.Repeat(`"x",`, 64) + `"x"]`, "stop[64]", wire.CodeInvalidValue, "at most 64"},
		{`"stop_token_ids":[-1]`, "stop_token_ids[0]", wire.CodeInvalidValue, ""},
		{`"user":5`, "user", wire.CodeInvalidType, ""},
		{`"priority":0.5`, "priority", wire.CodeInvalidType, ""},
		{`"ttft_ms":0`, "ttft_ms", wire.CodeInvalidValue, "1 to 86400000"},
		{`"kv_priority":1001`, "kv_priority", wire.CodeInvalidValue, "-1000 to 1000"},
		{`"kv_ttl_ms":0`, "kv_ttl_ms", wire.CodeInvalidValue, "1 to 86400000"},
		{`"tpot_ms":-1`, "tpot_ms", wire.CodeInvalidValue, "1 to 86400000"},
		{`"timeout_ms":86400001`, "timeout_ms", wire.CodeInvalidValue, "1 to 86400000"},
		{`"logit_bias":` + members(5000), "logit_bias.1024", wire.CodeInvalidValue, "at most 1024 entries"},
		{`"seed":1e3`, "seed", wire.CodeInvalidType, "found 1e3"},
		{`"seed":1,"seed":1`, "seed", wire.CodeInvalidValue, "given twice"},
	} {
		for body, decode := range openaiBodies(c.members) {
			_, err := decode([]byte(body))
			var e *wire.Error
			if !errors.As(err, &e) || e.Path != c.path || e.Code != c.code || !strings.Contains(e.Message, c.message) {
				t.Errorf("%.80s: %v; want %s %s %q", body, err, c.path, c.code, c.message)
			}
		}
	}
}

// FuzzOpenAI holds that whatever is accepted can be sampled with, and that all else is refused by its path.
func FuzzOpenAI(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"hi"}],"temperature":1e-7,"logit_bias":{"1":2},"seed":5,"stop":["a"]}`))
	f.Add([]byte(`{"prompt":[[1,2],[3]],"n":3,"top_p":0,"top_k":-1,"stop_token_ids":[1],"kv_ttl_ms":7}`))
	f.Add([]byte(`{"prompt":"x","use_beam_search":true,"best_of":4,"length_penalty":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, decode := range []func([]byte) (*ask, error){decodeChat, decodeCompletion} {
			a, err := decode(body)
			var bad *wire.Error
			if err != nil {
				if !errors.As(err, &bad) {
					t.Errorf("%q: %v is no *wire.Error", body, err)
				}
				continue
			}
			prompts, err := a.prompts(text.Info{Defaults: sampling.Defaults()})
			if err != nil && !errors.As(err, &bad) {
				t.Errorf("%q: %v", body, err)
			}
			for _, p := range prompts {
				if err := p.Sampling.Check(math.MaxInt32); err != nil {
					t.Errorf("%q was accepted: %v", body, err)
				}
			}
		}
	})
}

// TestTokenizeConversations holds what the parameters of a conversation do to its tokens.
func TestTokenizeConversations(t *testing.T) {
	m, err := mini()
	if err != nil {
		t.Fatal(err)
	}
	s := build(t, Config{Models: []Served{*m}})
	tokens := func(body string) string {
		t.Helper()
		code, answer := post(s, "", "/tokenize", body)
		var out struct{ Tokens []int32 }
		if err := json.Unmarshal([]byte(answer), &out); err != nil || code != 200 {
			t.Fatalf("%s: %d %s", body, code, answer)
		}
		return m.Vocabulary.Decode(out.Tokens, false)
	}
	const user, answer = `{"role":"user","content":"hi"}`, `{"role":"assistant","content":"Hel"}`
	plain := tokens(`{"messages":[` + user + `]}`)
	for name, c := range map[string]struct {
		body string
		ok   func(string) bool
	}{
		"continued": {`{"messages":[` + user + `,` + answer + `],"continue_final_message":true}`,
			func(s string) bool { return strings.HasPrefix(s, plain) && strings.HasSuffix(s, "Hel") }},
		"tools": {`{"messages":[` + user + `],"tools":[{"type":"function","function":{"name":"get_weather"}}]}`,
			func(s string) bool {
				return strings.Contains(s, "get_weather") && !strings.Contains(plain, "get_weather")
			}},
		"template": {`{"messages":[` + user + `],"chat_template":"<{{ messages[0].content }}>"}`,
			func(s string) bool { return s == "<hi>" }},
	} {
		if got := tokens(c.body); !c.ok(got) {
			t.Errorf("%s: %q; without it %q", name, got, plain)
		}
	}
	for template, want := range map[string]string{
		"{% if": `"param":"chat_template"`,
		"{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}": `"param":"messages"`, // too much work
	} {
		code, answer := post(s, "", "/tokenize", `{"messages":[`+user+`],"chat_template":"`+template+`"}`)
		if code != 400 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", template, code, answer)
		}
	}
}
