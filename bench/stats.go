package bench

import (
	"slices"
	"time"
)

// Result is the outcome of one request. Times count from the start of the load.
type Result struct {
	Due       time.Duration // when the request was due; latencies count from here
	Sent      time.Duration
	First     time.Duration   // when the first piece of the answer came
	Last      time.Duration   // when the last piece came
	End       time.Duration   // when the answer ended
	Gaps      []time.Duration // between pieces
	Prompt    int             // tokens of the prompt
	Cached    int             // tokens found in a prefix cache
	Generated int             // tokens of the answer
	Err       error
}

func (r *Result) ttft() float64 { return ms(r.First - r.Due) }
func (r *Result) e2e() float64  { return ms(r.End - r.Due) }

// tpot returns the milliseconds of a token after the first; false if there was only one.
func (r *Result) tpot() (float64, bool) {
	if r.Generated < 2 {
		return 0, false
	}
	return ms(r.Last-r.First) / float64(r.Generated-1), true
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Summary describes a set of values.
type Summary struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
}

// summarize sorts values and describes them. Without values all is 0.
func summarize(values []float64) Summary {
	slices.Sort(values)
	s := Summary{P50: percentile(values, 50), P90: percentile(values, 90), P95: percentile(values, 95), P99: percentile(values, 99)}
	for _, v := range values {
		s.Mean += v / float64(len(values))
	}
	return s
}

// SLO are the latencies that a good answer must keep. 0 is no limit.
type SLO struct {
	TTFT, TPOT, E2E time.Duration
}

func (s SLO) met(r *Result) bool {
	tpot, _ := r.tpot()
	return (s.TTFT == 0 || r.ttft() <= ms(s.TTFT)) && (s.TPOT == 0 || tpot <= ms(s.TPOT)) && (s.E2E == 0 || r.e2e() <= ms(s.E2E))
}

// Report is the result of a load. Latencies are those of successful requests: TTFT from the time a request was due to
// the first piece of its answer, TPOT the time of each token after the first, ITL the gaps between pieces, and E2E
// until the answer ended. Rates are over the time from the start to the last answer.
type Report struct {
	Requests int     `json:"requests"` // that ended, failed ones included
	Failed   int     `json:"failed"`
	TTFT     Summary `json:"ttft_ms"`
	TPOT     Summary `json:"tpot_ms"`
	ITL      Summary `json:"itl_ms"`
	E2E      Summary `json:"e2e_ms"`
	Output   float64 `json:"output_tokens_per_second"`
	Total    float64 `json:"total_tokens_per_second"` // prompts included, cached or not
	Goodput  float64 `json:"goodput_rps"`             // requests a second that met the SLO
	HitRate  float64 `json:"cache_hit_rate"`          // share of the prompts' tokens that came from a prefix cache

	Steps  *StepReport    `json:"steps,omitempty"`  // of an engine in this process
	Errors map[string]int `json:"errors,omitempty"` // counts by error, for the first few kinds

	Normalized Summary       `json:"-"` // E2E by token of the answer, in milliseconds
	Late       Summary       `json:"-"` // milliseconds from due to sent: the client's own delay
	Elapsed    time.Duration `json:"-"`
	Prompt     int           `json:"-"` // tokens
	Generated  int           `json:"-"`
	Good       int           `json:"-"` // requests that met the SLO
	CPU        time.Duration `json:"-"` // processor time of this process, on all cores; 0 if unknown
	Unfilled   float64       `json:"-"` // share of the KV memory held by running sequences that was not filled; -1 if unknown
	CutOff     int           `json:"-"` // requests still running when the time was over; they count nowhere else
	Results    []Result      `json:"-"`
}

// Own returns this process's processor time for each request; 0 if unknown.
func (rep *Report) Own() time.Duration { return rep.CPU / time.Duration(max(rep.Requests, 1)) }

// maxErrors bounds the kinds of errors that a Report distinguishes.
const maxErrors = 8

// Summarize describes results under an SLO.
func Summarize(results []Result, slo SLO) Report {
	rep := Report{Requests: len(results), Errors: map[string]int{}, Results: results}
	var ttft, tpot, itl, e2e, normalized, late []float64
	cached := 0
	for i := range results {
		r := &results[i]
		rep.Elapsed = max(rep.Elapsed, r.End)
		late = append(late, ms(r.Sent-r.Due))
		if r.Err != nil {
			rep.Failed++
			if kind := r.Err.Error(); rep.Errors[kind] > 0 || len(rep.Errors) < maxErrors {
				rep.Errors[kind]++
			}
			continue
		}
		ttft, e2e = append(ttft, r.ttft()), append(e2e, r.e2e())
		if v, ok := r.tpot(); ok {
			tpot = append(tpot, v)
		}
		for _, g := range r.Gaps {
			itl = append(itl, ms(g))
		}
		if r.Generated > 0 {
			normalized = append(normalized, r.e2e()/float64(r.Generated))
		}
		rep.Prompt, rep.Generated, cached = rep.Prompt+r.Prompt, rep.Generated+r.Generated, cached+r.Cached
		if slo.met(r) {
			rep.Good++
		}
	}
	rep.TTFT, rep.TPOT, rep.ITL, rep.E2E = summarize(ttft), summarize(tpot), summarize(itl), summarize(e2e)
	rep.Normalized, rep.Late = summarize(normalized), summarize(late)
	if s := rep.Elapsed.Seconds(); s > 0 {
		rep.Output, rep.Total = float64(rep.Generated)/s, float64(rep.Prompt+rep.Generated)/s
		rep.Goodput = float64(rep.Good) / s
	}
	if rep.Prompt > 0 {
		rep.HitRate = float64(cached) / float64(rep.Prompt)
	}
	return rep
}
