package bench

import (
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kvasir-llm/kvasir/internal/reference"
)

type parser func(io.Reader, TraceOptions) ([]Conversation, error)

var parsers = map[string]parser{"mooncake": ParseMooncake, "azure": ParseAzure, "conversations": ParseConversations}

func TestTraces(t *testing.T) {
	one := func(at time.Duration, output int, parts ...Part) Conversation { return single(at, parts, output) }
	said := func(text string) []Message { return []Message{{"user", []Part{{Text: text}}}} }
	for _, tt := range []struct {
		kind, in string
		o        TraceOptions
		want     []Conversation
	}{
		{"mooncake", `{"timestamp": 3000, "input_length": 700, "output_length": 5, "hash_ids": [0, 8]}` + "\n\n" +
			`{"timestamp": 5000, "input_length": 1030, "output_length": 1, "hash_ids": [0, 9]}`, TraceOptions{0, 2, 1},
			[]Conversation{
				one(0, 5, Part{Seed: 0, Tokens: 512}, Part{Seed: 8, Tokens: 188}),
				one(time.Second, 1, Part{Seed: 0, Tokens: 512}, Part{Seed: 9, Tokens: 512}, Part{Seed: math.MaxUint64 - 1, Tokens: 6}),
			}},
		{"mooncake", `{"timestamp": 0, "input_length": 700, "output_length": 50, "hash_ids": [1, 2]}`, TraceOptions{1, 1, 0.1},
			[]Conversation{one(0, 5, Part{Seed: 1, Tokens: 51}, Part{Seed: 2, Tokens: 19})}},
		{"azure", "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 23:59:59.9799600,374,44\r\n2023-11-17 00:00:00.4799600,396,109\r\n", TraceOptions{0, 1, 1},
			[]Conversation{one(0, 44, Part{Seed: 0, Tokens: 374}), one(500*time.Millisecond, 109, Part{Seed: 1, Tokens: 396})}},
		{"azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,10,1\n", TraceOptions{0, 1, 1},
			[]Conversation{one(0, 1, Part{Seed: 0, Tokens: 10})}},
		{"conversations", `[{"id": "x", "conversations": [{"from": "gpt", "value": "before"}, {"from": "human", "value": "Hi"},
			{"from": "gpt", "value": "12345"}, {"from": "user", "value": "More"}, {"from": "assistant", "value": "1234567890"},
			{"from": "human", "value": "unanswered"}]}, {"conversations": []}]`, TraceOptions{0, 1, 1},
			[]Conversation{{Turns: []Turn{{said("Hi"), 2}, {said("More"), 3}}}}},
	} {
		got, err := parsers[tt.kind](strings.NewReader(tt.in), tt.o)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", tt.in, err, diff)
		}
	}
}

func TestTracesRefuse(t *testing.T) {
	const header = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	for _, tt := range []struct{ kind, in, says string }{
		{"mooncake", "", "nothing to replay"},
		{"mooncake", "{}\nx", "line 1"},
		{"mooncake", `{"timestamp": 1, "input_length": 1, "output_length": 1}` + "\n" + `{"timestamp": 0, "input_length": 1, "output_length": 1}`, "line 2"},
		{"mooncake", `{"timestamp": 0, "input_length": 1000000000, "output_length": 1}`, "1000000000 tokens"},
		{"mooncake", `{"timestamp": 0, "input_length": 1.5}`, "line 1"},
		{"azure", "a,b,c\n1,2,3", "line 1"},
		{"azure", header, "nothing to replay"},
		{"azure", header + "2023-11-16 18:17:03.9,1", "three fields"},
		{"azure", header + "yesterday,1,1", "line 2"},
		{"azure", header + "2023-11-16 18:17:03.9,0,1", "context tokens"},
		{"azure", header + "2023-11-16 18:17:03.9,1,x", "generated tokens"},
		{"azure", header + "2023-11-16 18:17:03.9,1,1\n2023-11-16 18:17:03.8,1,1", "line 3"},
		{"conversations", "{}", "conversations"},
		{"conversations", "[]", "nothing to replay"},
	} {
		if got, err := parsers[tt.kind](strings.NewReader(tt.in), TraceOptions{0, 1, 1}); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s %q: %v, %v; want an error with %q", tt.kind, tt.in, got, err, tt.says)
		}
	}
	for kind, parse := range parsers {
		for _, o := range []TraceOptions{{-1, 1, 1}, {0, 0, 1}, {0, 1, 0}, {0, math.NaN(), 1}, {0, 1, math.NaN()}, {0, math.Inf(1), 1}, {0, 1, 1e9}} {
			if _, err := parse(strings.NewReader(""), o); err == nil || !strings.Contains(err.Error(), "speed") {
				t.Errorf("%s: %+v: %v", kind, o, err)
			}
		}
	}
}

// TestRecordedTraces reads the published traces whole. Mooncake's share of tokens that an infinite cache would have is
// known.
func TestRecordedTraces(t *testing.T) {
	for _, tt := range []struct {
		kind          string
		path          []string
		conversations int
	}{
		{"mooncake", []string{"traces", "mooncake_conversation.jsonl"}, 12031},
		{"azure", []string{"traces", "azure_2023_conv.csv"}, 19366},
		{"azure", []string{"traces", "azure_2023_code.csv"}, 8819},
		{"conversations", []string{"prompts", "conversations_500.json"}, 500},
	} {
		f, err := os.Open(reference.Path(t, tt.path...))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cs, err := parsers[tt.kind](f, TraceOptions{0, 1, 1})
		if err != nil || len(cs) != tt.conversations {
			t.Errorf("%v: %d conversations, %v; want %d", tt.path, len(cs), err, tt.conversations)
		}
		if tt.kind != "mooncake" {
			continue
		}
		seen, hits, all := map[uint64]bool{}, 0, 0
		for _, c := range cs {
			prefix := true
			for _, p := range c.Turns[0].Messages[0].Parts {
				prefix = prefix && seen[p.Seed]
				if seen[p.Seed] = true; prefix {
					hits++
				}
				all++
			}
		}
		if rate := float64(hits) / float64(all); math.Abs(rate-0.366) > 0.02 {
			t.Errorf("an infinite cache would hit %.3f of the blocks; published is 0.366", rate)
		}
	}
}

func fuzz(f *testing.F, kind string, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		cs, err := parsers[kind](strings.NewReader(in), TraceOptions{10, 3, 0.5})
		if (err == nil) != (len(cs) > 0) || len(cs) > 10 {
			t.Fatalf("%d conversations, %v", len(cs), err)
		}
		for _, c := range cs {
			if c.At < 0 || len(c.Turns) == 0 {
				t.Fatalf("%+v", c)
			}
			for _, turn := range c.Turns {
				if turn.Output < 1 || turn.Output > maxTokens || len(turn.Messages) != 1 || turn.Messages[0].Parts[0].size() < 1 {
					t.Fatalf("%+v", turn)
				}
			}
		}
	})
}

func FuzzParseMooncake(f *testing.F) {
	fuzz(f, "mooncake", `{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 8]}`, "{}", "\n")
}

func FuzzParseAzure(f *testing.F) {
	fuzz(f, "azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n", "x")
}

func FuzzParseConversations(f *testing.F) {
	fuzz(f, "conversations", `[{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}]`, "[]")
}
