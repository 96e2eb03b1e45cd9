package cpu

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// routes are the experts that the rows of a batch go to. Tensors of routes are grouped by expert, so that each
// expert's rows follow each other; inside a group rows ascend.
type routes struct {
	rows, experts, chosen int

	ids     []int32   // [rows·chosen] the expert of each route, row by row, best first
	weights []float32 // [rows·chosen]
	at      []int32   // [rows·chosen] the row of each route in tensors of routes
	from    []int32   // [rows·chosen] the batch's row of each row in tensors of routes
	expert  []int32   // [rows·chosen] and its expert
	ends    []int32   // [experts] after grouping: where each expert's rows end
	chunks  []routesChunk
}

// routesChunk is a run of at most rowChunk rows of one expert in tensors of routes.
type routesChunk struct{ expert, first, rows int }

// newRoutes makes room for the routes of up to rows rows.
func newRoutes(rows, experts, chosen int) (*routes, error) {
	if rows < 1 || chosen < 1 || chosen > experts {
		return nil, fmt.Errorf("cpu: routes of %d rows to %d of %d experts", rows, chosen, experts)
	}
	n := rows * chosen
	t := &routes{rows: rows, experts: experts, chosen: chosen, ids: make([]int32, n), weights: make([]float32, n), at: make([]int32, n)}
	t.from, t.expert = make([]int32, n), make([]int32, n)
	t.ends, t.chunks = make([]int32, experts), make([]routesChunk, 0, n/rowChunk+min(n, experts))
	return t, nil
}

// route does compute.Route.
func (d *Device) route(t *routes, logits Tensor, r compute.Router) {
	for w := range d.scratch {
		s := &d.scratch[w]
		s.scores, s.out = kernel.Grown(s.scores, (t.experts+kernel.Lanes-1)&^(kernel.Lanes-1)), kernel.Grown(s.out, t.experts+r.Groups)
	}
	d.wait(rowOp{row: routeRow, src: logits, routes: t, router: r})
	d.flush()
	t.groupByExpert(d.rows * t.chosen)
}

// groupByExpert gives the first n routes their places.
func (t *routes) groupByExpert(n int) {
	clear(t.ends)
	for _, e := range t.ids[:n] {
		t.ends[e]++
	}
	start := int32(0)
	t.chunks = t.chunks[:0]
	for e, count := range t.ends {
		for first := int32(0); first < count; first += rowChunk {
			t.chunks = append(t.chunks, routesChunk{e, int(start + first), int(min(rowChunk, count-first))})
		}
		t.ends[e], start = start, start+count
	}
	for i, e := range t.ids[:n] {
		to := t.ends[e]
		t.at[i], t.from[to], t.expert[to] = to, int32(i/t.chosen), e
		t.ends[e]++
	}
}

// routeRow chooses the experts of one row. Ids stay in range whatever the logits are, NaN included.
func routeRow(d *Device, o *rowOp, worker, row int) {
	t, r, s := o.routes, &o.router, &d.scratch[worker]
	scores := s.scores[:(t.experts+kernel.Lanes-1)&^(kernel.Lanes-1)]
	copy(scores, rowOf(o.src, row)[:t.experts])
	d.score(s, scores, t.experts, r.Sigmoid)
	choice := s.out[:t.experts]
	copy(choice, scores)
	if r.Bias != nil {
		addBias(choice, r.Bias.(vector))
	}
	if r.Groups > 0 {
		keepGroups(choice, s.out[t.experts:][:r.Groups], r)
	}
	ids, weights := t.ids[row*t.chosen:][:t.chosen], t.weights[row*t.chosen:][:t.chosen]
	total := float32(0)
	for i := range ids {
		ids[i] = int32(takeBest(choice))
		weights[i] = scores[ids[i]]
		total += weights[i]
	}
	for i := range weights {
		if r.Normalise {
			weights[i] /= total + 1e-20
		}
		weights[i] *= r.Scale
	}
}

// score turns the first n logits into scores.
func (d *Device) score(s *scratch, x []float32, n int, sigmoids bool) {
	if sigmoids {
		for i, v := range x[:n] {
			x[i] = sigmoid(v)
		}
		return
	}
	d.k.Scale(x, x[:n], log2e)
	for i := range x[n:] {
		x[n+i] = negInf
	}
	d.k.Weigh(s.router[:1], s.router[1:], x, 0, len(x))
	for i := range x[:n] {
		x[i] /= s.router[1]
	}
}

func sigmoid(x float32) float32 { return 1 / (1 + kernel.Exp(-x)) }

// taken marks scores that cannot be chosen any more. Scores are finite or NaN.
var taken = negInf

// takeBest returns the index of the highest score and takes it out; of NaNs and of what was taken, the first NaN.
func takeBest(scores []float32) int {
	best := -1
	for i, v := range scores {
		if v != taken && (best < 0 || v > scores[best]) {
			best = i
		}
	}
	best = max(best, 0)
	scores[best] = taken
	return best
}

// keepGroups takes out the scores of all groups but the best. sums has room for a number of each group.
func keepGroups(scores, sums []float32, r *compute.Router) {
	size := len(scores) / r.Groups
	for g := range sums {
		sums[g] = sumOfBest(scores[g*size:][:size], r.GroupBest)
	}
	for range r.Kept {
		takeBest(sums)
	}
	for g, left := range sums {
		if left != taken {
			for i := range size {
				scores[g*size+i] = taken
			}
		}
	}
}

// sumOfBest adds up the n best scores, at most two, best first.
func sumOfBest(scores []float32, n int) float32 {
	first, second := negInf, negInf
	for _, v := range scores {
		if v > first {
			first, second = v, first
		} else if v > second {
			second = v
		}
	}
	if n == 1 || len(scores) == 1 {
		return first
	}
	return first + second
}

// combine does compute.Combine.
func (d *Device) combine(dst, src Tensor, t *routes, shared, gate Tensor) {
	d.wait(rowOp{row: combineRow, dst: dst, src: src, routes: t, aux: shared, gate: gate})
}

func combineRow(d *Device, o *rowOp, _, r int) {
	t := o.routes
	dst := rowOf(o.dst, r)
	if o.aux.Host == nil {
		clear(dst)
	} else {
		copy(dst, rowOf(o.aux, r))
	}
	if o.gate.Host != nil {
		factor := sigmoid(rowOf(o.gate, r)[0])
		for i := range dst {
			dst[i] *= factor
		}
	}
	for i := r * t.chosen; i < (r+1)*t.chosen; i++ {
		d.k.AddScaled(dst, rowOf(o.src, int(t.at[i])), t.weights[i])
	}
}
