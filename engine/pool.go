package engine

import (
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/sched"
)

// Pooling says what a prompt's vector is.
type Pooling string

const (
	PoolMean    Pooling = "mean"    // the mean of the final hidden states of all tokens
	PoolCLS     Pooling = "cls"     // that of the first token
	PoolLast    Pooling = "last"    // that of the last token
	PoolClasses Pooling = "classes" // the logits of the first token, of encoders that classify
)

var poolings = []Pooling{PoolMean, PoolCLS, PoolLast, PoolClasses}

// all reports whether rows are wanted that the prefix cache may have instead of the hidden states.
func (p Pooling) all() bool { return p != "" && p != PoolLast }

// pooled is what the rows of a prompt so far add up to. Rows are added in order of position, in float64, so that how
// the prompt was cut into steps makes no difference.
type pooled struct {
	sum  []float64
	rows int
}

// packTypes gives the last n rows of a batch their types, if any row has one.
func packTypes(b *compute.Batch, q *sequence, start, n int) {
	if !q.typed && len(b.Types) == 0 {
		return
	}
	b.Types = append(b.Types, make([]int32, b.Rows()-len(b.Types))...)
	if q.typed {
		copy(b.Types[b.Rows()-n:], q.req.Types[start:])
	}
}

// pack asks for the rows that a sequence's vector is made of and that are not in it yet. The work's first row is row.
func (x *entry) pack(s *step, w *sched.Work, row int) {
	b, r := &s.batch, s.rareOf(x)
	r.hidden = int32(len(b.Hidden))
	from, to := w.Start, w.Start // positions
	switch x.seq.req.Pool {
	case PoolMean:
		from, to = max(w.Start, x.seq.pooled.rows), w.Start+w.N
	case PoolLast:
		if from, to = w.Start+w.N-1, w.Start+w.N; !w.Sample {
			return
		}
	case PoolCLS:
		to = min(1, w.Start+w.N)
	case PoolClasses:
		if w.Start == 0 {
			r.read = int32(len(b.Read))
			b.Read, b.Logits = append(b.Read, int32(len(b.Logits))), append(b.Logits, int32(row))
		}
	}
	for p := from; p < to; p++ {
		b.Hidden = append(b.Hidden, int32(row+p-w.Start))
		r.pooled++
	}
}

// pool adds an entry's rows to its sequence's vector, and ends the sequence with the last.
func (x *entry) pool(s *step) {
	q, done := x.seq, s.handle
	p, r := &q.pooled, s.rareOf(x)
	for i := range r.pooled {
		row := done.Hidden(int(r.hidden + i))
		if p.sum == nil {
			p.sum = make([]float64, len(row))
		}
		for i, v := range row {
			p.sum[i] += float64(v)
		}
		p.rows++
	}
	if q.req.Pool == PoolClasses {
		q.vector = slices.Clone(done.Logits(int(r.read)))
	}
	if !x.sample {
		return
	}
	if q.vector == nil {
		q.vector = make([]float32, len(p.sum))
		for i, v := range p.sum {
			q.vector[i] = float32(v / float64(p.rows))
		}
	}
	x.yield(s, briefOf(Token{ID: -1, Finish: FinishStop}))
}

// Vector returns what Request.Pool asks for. It is there with the last token, which is no token.
func (s *Stream) Vector() []float32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vector
}
