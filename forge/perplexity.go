package forge

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/model"
)

// PerplexityOptions say which tokens of a text are predicted from which others.
type PerplexityOptions struct {
	// Context is the length of a window in tokens. A window's tokens are predicted from those before them in the
	// window.
	Context int
	// Stride is how many tokens after the last window the next one begins; 0 is Context. Where windows overlap, a token
	// counts in the first window that predicts it. The first token of a text is never predicted.
	Stride int
	// SecondHalf counts as llama.cpp's perplexity does: whole windows without overlap, of which the tokens from
	// position Context/2+1 on count.
	SecondHalf bool
	// BOS is the token that every window begins with, taking the place of one of the text's; -1 is none.
	BOS int32
	// Progress, if not nil, hears after each step how many tokens are computed of how many, and of the result so far.
	Progress func(done, total int, soFar Perplexity)
}

// Perplexity is how well a model predicts a text: exp of the mean of -log p(token | tokens before it).
type Perplexity struct {
	Value     float64 // exp(NLL)
	Error     float64 // standard error of Value, as of independent tokens
	NLL       float64 // mean negative log likelihood, in nats a token
	Predicted int     // tokens that count
	Computed  int     // tokens that went through the model
	Windows   int
}

// window is one stretch of a text: its tokens from position from on count.
type window struct {
	ids  []int32
	from int
}

// windows cuts a text.
func (o PerplexityOptions) windows(ids []int32) ([]window, error) {
	stride := o.Stride
	if stride == 0 {
		stride = o.Context
	}
	size, bos := o.Context, 0
	if o.BOS >= 0 {
		bos = 1
	}
	switch {
	case o.Context < 2+bos:
		return nil, fmt.Errorf("forge: windows of %d tokens; want at least %d", o.Context, 2+bos)
	case stride < 1 || stride > o.Context:
		return nil, fmt.Errorf("forge: a stride of %d; want 1 to %d, the length of a window", stride, o.Context)
	case o.SecondHalf && stride != o.Context:
		return nil, fmt.Errorf("forge: a stride of %d; the windows of llama.cpp's definition do not overlap", stride)
	case o.SecondHalf && len(ids)+bos < o.Context:
		return nil, fmt.Errorf("forge: a text of %d tokens; want at least one window of %d", len(ids), o.Context)
	}
	var out []window
	if o.SecondHalf {
		if bos > 0 {
			ids = append([]int32{o.BOS}, ids...)
		}
		for ; len(ids) >= size; ids = ids[size:] {
			w := append([]int32(nil), ids[:size]...)
			if bos > 0 {
				w[0] = o.BOS
			}
			out = append(out, window{w, size/2 + 1})
		}
		return out, nil
	}
	size, stride = size-bos, min(stride, size-bos)
	counted := 0
	for at := 0; counted < len(ids); at += stride {
		end := min(at+size, len(ids))
		w := window{ids: ids[at:end], from: max(counted-at, 1-bos)}
		if bos > 0 {
			w.ids, w.from = append([]int32{o.BOS}, w.ids...), w.from+1
		}
		if counted = end; len(w.ids) > w.from {
			out = append(out, w)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("forge: a text of %d tokens; want at least 2", len(ids))
	}
	return out, nil
}

// MeasurePerplexity computes the perplexity of a model on a text. It returns what ctx ends with.
func MeasurePerplexity(ctx context.Context, m *model.Model, ids []int32, o PerplexityOptions) (Perplexity, error) {
	windows, err := o.windows(ids)
	if err != nil {
		return Perplexity{}, err
	}
	total := 0
	for _, w := range windows {
		total += len(w.ids)
	}
	s, err := newSequence(m, stepRows(m, total), o.Context)
	if err != nil {
		return Perplexity{}, err
	}
	var out Perplexity
	var losses tally
	for _, w := range windows {
		err := s.run(ctx, w.ids, max(w.from-1, 0), func(at int, logits [][]float32) {
			for _, nll := range lossesOf(logits, w.ids[at+1:]) {
				losses.add(nll)
			}
		}, func(n int) {
			out.Computed += n
			out.finish(losses)
			if o.Progress != nil {
				o.Progress(out.Computed, total, out)
			}
		})
		if err != nil {
			return out, err
		}
		out.Windows++
	}
	out.finish(losses)
	return out, nil
}

// stepRows returns how many of total tokens go through a model at once: at most 512, and no more than have logits of
// 64 MB.
func stepRows(m *model.Model, total int) int {
	return min(512, max(1, (64<<20)/m.Spec.Vocab/4), total)
}

// finish computes the perplexity from the losses of the predicted tokens.
func (p *Perplexity) finish(losses tally) {
	p.Predicted, p.NLL = losses.n, losses.mean()
	p.Value = math.Exp(p.NLL)
	p.Error = p.Value * losses.error()
}

// tally is what the mean of some numbers, and its standard error, are computed from.
type tally struct {
	n            int
	sum, squares float64
}

func (t *tally) add(v float64) { t.n, t.sum, t.squares = t.n+1, t.sum+v, t.squares+v*v }

func (t *tally) mean() float64 { return t.sum / float64(max(t.n, 1)) }

func (t *tally) error() float64 {
	if variance := t.squares/float64(max(t.n, 1)) - t.mean()*t.mean(); t.n > 1 && variance > 0 {
		return math.Sqrt(variance / float64(t.n-1))
	}
	return 0
}

// lossesOf returns -log p of each of the first len(logits) tokens, computed by several goroutines.
func lossesOf(logits [][]float32, tokens []int32) []float64 {
	out := make([]float64, min(len(logits), len(tokens)))
	parallel(len(out), func(i int) { out[i] = loss(logits[i], tokens[i]) })
	return out
}

// loss returns the negative logarithm of softmax(logits)[token].
func loss(logits []float32, token int32) float64 {
	return rowOf(logits).logSum - float64(logits[token])
}

// parallel calls f(0) to f(n-1) from as many goroutines as there are processors. It panics if one of these does.
func parallel(n int, f func(i int)) {
	var all guard.Group
	var next atomic.Int64
	for range min(n, runtime.GOMAXPROCS(0)) {
		all.Start(func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		panic(err)
	}
}

// sequence runs one sequence after the other through a model.
type sequence struct {
	runner *model.Runner
	rows   int // tokens of a step
	tables [][]int32
	batch  compute.Batch
	long   func(tokens int) bool
}

// newSequence makes room for sequences of up to tokens tokens, computed rows at a time.
func newSequence(m *model.Model, rows, tokens int) (*sequence, error) {
	const blockTokens = 16
	blocks := tokens/blockTokens + 1
	groups := compute.CacheSpec{Layers: m.Spec.KVLayers()}.Groups()
	s := &sequence{rows: rows, long: m.Spec.Long}
	for g := range groups {
		table := make([]int32, blocks)
		for i := range table {
			table[i] = int32(g*blocks + i)
		}
		s.tables = append(s.tables, table)
	}
	var err error
	s.runner, err = m.NewRunner(rows, max(groups, 1)*blocks, blockTokens, 1)
	return s, err
}

// run computes a sequence from its beginning. rows hears of the logits of positions from first on, valid during the
// call, with the position of the first of them; step, if not nil, of how many tokens each step computed.
func (s *sequence) run(ctx context.Context, ids []int32, first int, rows func(at int, logits [][]float32), step func(n int)) error {
	for at := 0; at < len(ids); at += s.rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, logits, err := s.step(ids, at, first)
		if err != nil {
			return err
		}
		if len(logits) > 0 {
			rows(from, logits)
		}
		if step != nil {
			step(min(s.rows, len(ids)-at))
		}
	}
	return nil
}

// step computes the tokens of a sequence from position at on, as many as go at once. It returns the logits of those
// from position first on, valid until the next step, and the position of the first of them.
func (s *sequence) step(ids []int32, at, first int) (from int, logits [][]float32, err error) {
	part := ids[at:min(at+s.rows, len(ids))]
	s.batch.Reset()
	s.batch.Append(part, at, false, s.tables...)
	s.batch.Seqs[0].Long = s.long(len(ids))
	for i := max(first-at, 0); i < len(part); i++ {
		s.batch.Logits = append(s.batch.Logits, int32(i))
	}
	if err := s.runner.Forward(&s.batch); err != nil {
		return 0, nil, err
	}
	for i := range s.batch.Logits {
		logits = append(logits, s.runner.Logits(i))
	}
	return at + len(part) - len(logits), logits, nil
}
