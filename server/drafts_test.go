package server

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

// TestSDKPrediction asks for the same answer with predictions, right and wrong, and without: it is the same, usage and
// metrics tell what became of the guesses, and tokens say which of them were guessed.
func TestSDKPrediction(t *testing.T) {
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	m, err := text.Open(ckpt, text.Options{Name: "kvasir-mini", Context: 512, KVBytes: 64 << 20, DraftAlways: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	s := build(t, Config{Models: []Served{FromText(m)}})
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	client := sdk(web, "")
	ask := func(prediction string, logprobs bool) *openai.ChatCompletion {
		t.Helper()
		params := question()
		if prediction != "" {
			params.Prediction.Content.OfString = openai.String(prediction)
		}
		if logprobs {
			params.Logprobs = openai.Bool(true)
			params.SetExtraFields(map[string]any{"return_token_origins": true})
		}
		r, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain := ask("", false)
	answer := plain.Choices[0].Message.Content
	words := strings.Fields(answer)
	words[len(words)/2] = "bananas"
	if d := plain.Usage.CompletionTokensDetails; d.AcceptedPredictionTokens+d.RejectedPredictionTokens > 0 {
		t.Errorf("without a prediction: %s", plain.Usage.RawJSON())
	}
	for _, c := range []struct {
		name, prediction string
		right, wrong     bool
	}{
		{"right", answer, true, false},
		{"with a change", strings.Join(words, " "), true, true},
		{"wrong", "Something else altogether, not in the least like it.", false, true},
	} {
		for _, logprobs := range []bool{false, true} {
			r := ask(c.prediction, logprobs)
			d, got := r.Usage.CompletionTokensDetails, r.Choices[0]
			if got.Message.Content != answer {
				t.Errorf("%s: answer %q; want %q", c.name, got.Message.Content, answer)
			}
			if (d.AcceptedPredictionTokens > 10) != c.right || (d.RejectedPredictionTokens > 0) != c.wrong {
				t.Errorf("%s: usage %s", c.name, r.Usage.RawJSON())
			}
			if guessed := strings.Count(got.Logprobs.RawJSON(), `"origin":"guessed"`); logprobs && int64(guessed) != d.AcceptedPredictionTokens {
				t.Errorf("%s: %d tokens were guessed; usage %s", c.name, guessed, r.Usage.RawJSON())
			}
		}
	}
	lines := scrape(t, s, `^vllm:spec_decode`)
	if n := len(regexp.MustCompile(`(?m) [1-9]\d*$`).FindAllString(lines, -1)); n < 8 || !strings.Contains(lines, `num_accepted_tokens_per_pos_total{engine="0",model_name="kvasir-mini",position="3"}`) {
		t.Errorf("%d counters counted:\n%s", n, lines)
	}
}
