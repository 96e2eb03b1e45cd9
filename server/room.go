package server

import (
	"net/http"
	"sync"

	"github.com/kvasir-llm/kvasir/engine/text"
)

// candidateBytes is what a log probability of a token takes, in memory and as JSON; TestRoomOfAnswers measures it.
const candidateBytes = 256

// weight returns about how many bytes a piece of an answer takes until that is written.
func weight(d *text.Delta) int64 {
	n := 4*(len(d.Text)+len(d.Reasoning)) + 8*len(d.IDs)
	for i := range d.Calls {
		n += 4 * len(d.Calls[i].Text)
	}
	for i := range d.Tokens {
		n += candidateBytes * (1 + len(d.Tokens[i].Top))
	}
	return int64(n)
}

// scored returns about how many bytes the log probabilities of a job's prompts take. They are there at once.
func (j *job) scored() (n int64) {
	for _, c := range j.choices {
		if r := &c.prompt.Request; r.PromptLogprobs >= 0 {
			n += candidateBytes * int64(len(c.prompt.IDs)) * int64(1+r.PromptLogprobs)
		}
	}
	return n
}

// room is what is kept of a request's answers until they are written: the answers that are not streamed, or whose
// streams end with all of them, the events of responses in the background, and log probabilities of prompts. It is
// admitted as it comes.
type room struct {
	body *body

	mu           sync.Mutex
	small, large int64 // bytes held
}

// errAnswers refuses an answer for which there is no memory now.
var errAnswers = refuse(http.StatusServiceUnavailable, "", "too_many_bytes",
	"The answers of other requests take all the memory there is for them (--request-memory). Please try again shortly, or ask for a stream.")

// take holds bytes until leave.
func (r *room) take(n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	of, t := r.body.of, r.body.tenant
	most := of.answersMost / 4 * 3 // the rest is for small answers
	if t.Name != "" {
		most = min(most, of.tenantMost)
	}
	if held := r.small + r.large + n; held > most {
		return refuse(http.StatusBadRequest, "", "answer_too_large", "The answer with its log probabilities takes more than the %s that one may (--request-memory). "+
			"Please ask for a stream, for fewer answers, or for fewer log probabilities.", mebibytes(most))
	}
	small := r.small+n <= smallBody
	if t.answers.Add(n) > of.tenantMost && t.Name != "" || !of.answers.Try(small, n) {
		t.answers.Add(-n)
		return errAnswers
	}
	if small {
		r.small += n
	} else {
		r.large += n
	}
	return nil
}

// leave gives back what is held.
func (r *room) leave() {
	of := r.body.of
	of.answers.Give(true, r.small)
	of.answers.Give(false, r.large)
	r.body.tenant.answers.Add(-r.small - r.large)
	r.small, r.large = 0, 0
}
