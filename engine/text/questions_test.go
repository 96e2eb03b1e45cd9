package text

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/chat"
)

// question is a line of testdata/questions.jsonl.
type question struct {
	Group, Question string
	Answer          []alternatives // parts that the answer has, in any order and case
	Missed          bool           // the model is known to answer wrongly
}

// alternatives is a string in JSON, or a list of which one will do.
type alternatives []string

// UnmarshalJSON reads either.
func (a *alternatives) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = alternatives{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// right reports whether an answer has all that it must have.
func (q question) right(answer string) bool {
	answer = strings.ToLower(answer)
	return !slices.ContainsFunc(q.Answer, func(a alternatives) bool {
		return !slices.ContainsFunc(a, func(s string) bool { return strings.Contains(answer, strings.ToLower(s)) })
	})
}

func readQuestions(t *testing.T) []question {
	t.Helper()
	f, err := os.Open("testdata/questions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []question
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		if q.Question == "" || len(q.Answer) == 0 {
			t.Fatalf("%s asks or wants nothing", lines.Bytes())
		}
		all = append(all, q)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMiniKnowsItsField asks the built-in model questions that were kept out of its last training: about kvasir's
// commands and documentation, its own field, small arithmetic, and things that it must decline. With -short, it asks
// every tenth.
func TestMiniKnowsItsField(t *testing.T) {
	all := readQuestions(t)
	if len(all) != 213 {
		t.Errorf("there are %d questions; want 213", len(all))
	}
	step := 1
	if testing.Short() {
		step = 10
	}
	m := openMini(t, Options{Context: 512})
	done := make(chan func(), len(all))
	asked := 0
	for i := 0; i < len(all); i += step {
		q := all[i]
		asked++
		go func() {
			r := request()
			r.MaxTokens = 160
			r.Chat = &chat.Input{AddGenerationPrompt: true, Messages: []chat.Message{{Role: "user", Content: q.Question}}}
			got, _, last := answer(t, m, r)
			done <- func() {
				switch ok := q.right(got) && last.Finish == "stop"; {
				case !ok && q.Missed:
					t.Logf("missed, as is known: %q is answered %q", q.Question, got)
				case !ok:
					t.Errorf("%s: %q is answered %q; want %q in it", q.Group, q.Question, got, q.Answer)
				case q.Missed:
					t.Errorf("%s: %q is answered %q, which is right; it is not missed", q.Group, q.Question, got)
				}
			}
		}()
	}
	for range asked {
		(<-done)()
	}
}
