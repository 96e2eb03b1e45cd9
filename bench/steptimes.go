package bench

import (
	"runtime"
	"slices"
	"sync"

	"github.com/kvasir-llm/kvasir/engine"
)

// Steps is an engine's Observer that records the time of each step.
type Steps struct {
	mu  sync.Mutex
	all []timedStep
}

type timedStep struct {
	rows, seqs int
	ms         float64
}

// RequestDone implements engine.Observer.
func (*Steps) RequestDone(engine.RequestDone) {}

// StepDone implements engine.Observer.
func (s *Steps) StepDone(d engine.StepDone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, timedStep{d.Rows, d.Seqs, ms(d.Duration)})
}

// StepReport describes the steps of a load. Equal steps decode one token of each of Seqs sequences, the most frequent
// number of sequences; they differ only in their contexts and in disturbances.
type StepReport struct {
	All   StepTimes `json:"all"`
	Equal StepTimes `json:"equal"`
	Seqs  int       `json:"equal_sequences"`
	// Garbage collections in this process during the load.
	Collections uint32 `json:"garbage_collections"`
}

// garbageCollections returns their number in this process so far.
func garbageCollections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

// StepTimes are milliseconds of computing and sampling.
type StepTimes struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

// report describes the steps so far and clears them.
func (s *Steps) report() StepReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	var r StepReport
	times := map[int][]float64{} // of decoding steps, by their number of sequences
	var all []float64
	for _, st := range s.all {
		all = append(all, st.ms)
		if st.rows == st.seqs {
			times[st.seqs] = append(times[st.seqs], st.ms)
		}
	}
	for seqs, t := range times {
		if n := len(times[r.Seqs]); len(t) > n || len(t) == n && seqs > r.Seqs {
			r.Seqs = seqs
		}
	}
	r.All, r.Equal = stepTimes(all), stepTimes(times[r.Seqs])
	s.all = s.all[:0]
	return r
}

func stepTimes(values []float64) StepTimes {
	if len(values) == 0 {
		return StepTimes{}
	}
	s := summarize(values)
	return StepTimes{len(values), s.P50, s.P99, slices.Max(values)}
}
