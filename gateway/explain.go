package gateway

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"time"
)

// explained is a decision on the debug page: which endpoint a request would get, and why.
type explained struct {
	Model     string              `json:"model"`  // that would answer
	Tokens    int                 `json:"tokens"` // of the prompt, as counted or estimated
	How       string              `json:"how,omitempty"`
	Endpoints []explainedEndpoint `json:"endpoints"`
}

type explainedEndpoint struct {
	URL          string             `json:"url"`
	Chosen       bool               `json:"chosen"`
	Near         bool               `json:"near"`              // the best, or near enough to be drawn
	Refused      string             `json:"refused,omitempty"` // the filter that left it out
	Score        float64            `json:"score"`
	Scores       map[string]float64 `json:"scores,omitempty"` // by scorer
	InFlight     int                `json:"in_flight"`
	HeldBlocks   int                `json:"held_blocks"`
	PromptBlocks int                `json:"prompt_blocks"`
}

// explain shows the decision that a request would get now, for an admin's key if there are keys. The request, which is
// the body, goes nowhere. Its path is the query's, a chat's if there is none.
func (g *Gateway) explain(w http.ResponseWriter, r *http.Request) {
	x := &exchange{g: g, w: w, began: time.Now(), cfg: g.setup.Load().cfg}
	asked := *r.URL
	if asked.Path = "/v1/chat/completions"; r.URL.Query().Has("path") {
		asked.Path = r.URL.Query().Get("path")
	}
	x.r = r.Clone(r.Context())
	x.r.URL = &asked
	defer x.release()
	if refused := x.explain(r.Context()); refused != nil {
		refused.write(w)
	}
}

// explain writes the decision, unless it returns why there is none.
func (x *exchange) explain(ctx context.Context) (refused *refusal) {
	if x.account, refused = x.g.admit(x.r); refused != nil {
		return refused
	}
	if x.account != nil && !x.account.key.Admin {
		return notAdmin()
	}
	raw, refused := x.read()
	if refused != nil {
		return refused
	}
	var err error
	if x.body, err = scan(raw); err != nil {
		return invalid("", err.Error())
	}
	x.separate()
	choices := x.resolve()
	if len(choices) == 0 {
		return noModel(x.body.model)
	}
	m := choices[0]
	j := x.job(m)
	x.setExact(ctx, j)
	x.g.mu.Lock()
	d := x.g.fleet.Choose(m.policy, &j.route, m.ids)
	out := explained{Model: m.name, Tokens: j.route.Tokens, Endpoints: []explainedEndpoint{}}
	if d.Chosen >= 0 {
		out.How = d.How()
	}
	for i, r := range d.Rated {
		e := explainedEndpoint{URL: r.Name, Chosen: i == d.Chosen, Near: r.Near, Refused: r.Refused, InFlight: r.Requests,
			HeldBlocks: r.HeldBlocks, PromptBlocks: r.PromptBlocks}
		if r.Refused == "" {
			e.Score, e.Scores = thousandths(r.Score), map[string]float64{}
			for k, name := range d.Scorers() {
				e.Scores[name] = thousandths(r.Scores[k])
			}
		}
		out.Endpoints = append(out.Endpoints, e)
	}
	x.g.mu.Unlock()
	x.w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(x.w).Encode(out)
	return nil
}

func thousandths(v float64) float64 { return math.Round(v*1000) / 1000 }
