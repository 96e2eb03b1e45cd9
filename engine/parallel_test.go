package engine

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/sampling"
)

const wideVocab = 1 << 16

// wide is a Runner with a large vocabulary, whose logits depend on the last token and its position alone.
type wide struct{ rows [][]float32 }

func (w *wide) Forward(b *compute.Batch) error {
	w.rows = w.rows[:0]
	for _, r := range b.Logits {
		w.rows = append(w.rows, wideLogits(b.IDs[r], b.Pos[r]))
	}
	return nil
}

func (w *wide) Hidden(int) []float32   { return nil }
func (w *wide) Logits(i int) []float32 { return w.rows[i] }

func wideLogits(id, pos int32) []float32 {
	out := make([]float32, wideVocab)
	for i := range out {
		out[i] = float32((i*7919+int(id)*104729+int(pos)*31)%10007) / 1000
	}
	return out
}

// TestParallelSampling has so many logits to sample from that several goroutines share them.
func TestParallelSampling(t *testing.T) {
	const seqs, most = 8, 6
	if seqs*wideVocab < 2*logitsEach {
		t.Fatal("too few logits to be shared")
	}
	cfg := smallConfig()
	e := start(t, Config{Runner: &wide{}, Vocab: wideVocab, Sched: cfg})
	var streams []*Stream
	for n := range seqs {
		r := request(n, 3, most)
		r.Logprobs = 1
		r.Params.PresencePenalty = 1
		streams = append(streams, submit(t, e, t.Context(), r))
	}
	for n, s := range streams {
		r := request(n, 3, most)
		r.Params.PresencePenalty = 1
		var reference sampling.Sampler
		seq := sampling.NewSequence(r.Params, r.Prompt)
		last := r.Prompt[2]
		for i := range most {
			want, err := reference.Sample(seq, wideLogits(last, int32(2+i)), 1)
			if err != nil {
				t.Fatal(err)
			}
			seq.Accept(want.Token)
			last = want.Token
			got, err := s.Next(t.Context())
			if err != nil || got.ID != want.Token || got.Logprob != want.Logprob || !slices.Equal(got.Top, want.Top) {
				t.Errorf("request %d, token %d: %+v, %v; want %+v", n, i, got, err, want)
			}
		}
	}
}

// BenchmarkSampling samples for 32 sequences, on the goroutines that a step has.
func BenchmarkSampling(b *testing.B) {
	const seqs = 32
	for _, temperature := range []float32{0, 1} {
		b.Run(fmt.Sprint("temperature=", temperature), func(b *testing.B) {
			w := &wide{}
			e := &Engine{cfg: Config{Runner: w, Vocab: wideVocab}, samplers: make([]sampling.Sampler, min(runtime.GOMAXPROCS(0), 16))}
			for i := range int32(seqs) {
				w.rows = append(w.rows, wideLogits(i, 0))
				r := request(0, 1, 1)
				r.Params.Temperature = temperature
				e.batch.Logits = append(e.batch.Logits, i)
				e.entries = append(e.entries, entry{seq: newSequence(r, 4), sample: true, logits: int(i)})
			}
			for b.Loop() {
				e.sample()
				for i := range e.entries {
					e.entries[i].seq.ids = e.entries[i].seq.ids[:1]
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/seqs, "µs/token")
		})
	}
}
