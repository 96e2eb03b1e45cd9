package server

import (
	"crypto/rand"
	"net/http"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// render answers with what requests for completions become before they are computed: one prompt, or the list of them.
func (s *Server) render(decode func([]byte) (*ask, error), kind string, list bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := read(w, r, decode)
		var j *job
		if err == nil {
			warn(w, a.ignored)
			j, err = s.newJob(r.Context(), a)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		var all []openai.Rendered
		for _, c := range j.choices {
			if c.index%j.made == 0 {
				all = append(all, rendered(j, c.prompt, kind+rand.Text()))
			}
		}
		if list {
			s.write(w, http.StatusOK, all)
			return
		}
		s.write(w, http.StatusOK, all[0])
	}
}

func rendered(j *job, p *text.Prompt, id string) openai.Rendered {
	r := &p.Request
	out := openai.Rendered{RequestID: id, Model: j.title(), TokenIDs: p.IDs, Prompt: j.served.Vocabulary.Decode(p.IDs, false),
		Stream: j.stream, Priority: r.Priority}
	out.SamplingParams = openai.Sampling{N: j.given, Temperature: r.Sampling.Temperature, TopP: r.Sampling.TopP,
		TopK: r.Sampling.TopK, MinP: r.Sampling.MinP, RepetitionPenalty: r.Sampling.RepetitionPenalty,
		PresencePenalty: r.Sampling.PresencePenalty, FrequencyPenalty: r.Sampling.FrequencyPenalty,
		MinTokens: r.MinTokens, Stop: append([]string{}, r.Stop...), StopTokenIDs: append([]int32{}, r.StopTokens...),
		IgnoreEOS: r.IgnoreEOS}
	if r.MaxTokens > 0 {
		out.SamplingParams.MaxTokens = &r.MaxTokens
	}
	return out
}
