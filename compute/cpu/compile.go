package cpu

import (
	"errors"
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// tensor returns the memory of a symbolic tensor, the zero Tensor for none.
func (p *program) tensor(t compute.Tensor) Tensor {
	if t.Buffer < 1 || t.Buffer > len(p.buffers) || t.Cols < 1 {
		return Tensor{}
	}
	host := p.buffers[t.Buffer-1].host
	return Tensor{Rows: len(host) / t.Cols, Cols: t.Cols, Host: host}
}

// domain returns the rows that an operation on a tensor runs over.
func (p *program) domain(t compute.Tensor) compute.Domain { return p.buffers[t.Buffer-1].Domain }

// check reports the first of some tensors that is wider than its buffer, or is none.
func (p *program) check(all ...compute.Tensor) error {
	for _, t := range all {
		if t.Buffer < 1 || t.Buffer > len(p.buffers) || t.Cols < 1 || t.Cols > p.buffers[t.Buffer-1].Width {
			return fmt.Errorf("a tensor of %d columns in buffer %d of %d", t.Cols, t.Buffer, len(p.buffers))
		}
	}
	return nil
}

// products binds products to memory. Their outputs have every row, so their memory stays where it is.
func (p *program) products(all []compute.Product) ([]Product, error) {
	var out []Product
	for _, q := range all {
		if err := p.check(q.Dst); err != nil {
			return nil, err
		}
		bound := Product{Dst: p.tensor(q.Dst), W: q.W, Bias: q.Bias}
		if q.Target > 0 {
			bound.Adapters = p.lora[q.Target-1]
		}
		out = append(out, bound)
	}
	return out, nil
}

// compile binds an operation to the device and its memory. Buffers of wanted rows can grow, so that their tensors are
// looked up in each step.
func (p *program) compile(op compute.Op) (instruction, error) {
	d := p.d
	on := func(t compute.Tensor, run func(dst Tensor), others ...compute.Tensor) (instruction, error) {
		if err := p.check(append(others, t)...); err != nil {
			return instruction{}, err
		}
		return instruction{p.domain(t), func() { run(p.tensor(t)) }}, nil
	}
	switch o := op.(type) {
	case compute.Embed:
		return on(o.Dst, func(t Tensor) { d.embed(t, o.Table, o.Scale) })
	case compute.AddPositions:
		return on(o.Dst, func(t Tensor) { d.addPositions(t, o.Table) })
	case compute.AddTypes:
		return on(o.Dst, func(t Tensor) { d.addTypes(t, o.Table) })
	case compute.Normalize:
		return on(o.Dst, func(t Tensor) { d.norm(t, p.tensor(o.Src), o.Norm) }, o.Src)
	case compute.MatMul:
		products, err := p.products(o.Products)
		if err != nil {
			return instruction{}, err
		}
		return on(o.X, func(t Tensor) { d.matMul(t, products) })
	case compute.MatMulHeads:
		return on(o.Dst, func(t Tensor) { d.matMulHeads(t, p.tensor(o.X), o.W) }, o.X)
	case compute.Clamp:
		return on(o.X, func(t Tensor) { d.clamp(t, o.Limit) })
	case compute.Activate:
		return on(o.Dst, func(t Tensor) { d.activate(t, p.tensor(o.Gate), p.tensor(o.Up), o.Act) }, o.Gate)
	case compute.Add:
		return on(o.Dst, func(t Tensor) { d.add(t, p.tensor(o.Src), o.Scale) }, o.Src)
	case compute.Keep:
		return instruction{compute.AllRows, func() { p.keep(o.X) }}, p.check(o.X...)
	case compute.Gather:
		return on(o.Dst, func(t Tensor) { d.gather(t, p.tensor(o.Src), p.wanted(o.Dst)) }, o.Src)
	case compute.Head:
		return on(o.Product.Dst, func(t Tensor) {
			d.headOp(t, p.tensor(o.X), Product{W: o.Product.W, Bias: o.Product.Bias}, o.Scale, o.Softcap)
		}, o.X)
	case compute.Choose:
		p.out = o
		return instruction{compute.AllRows, func() {}}, nil
	case compute.Tap:
		return on(o.X, func(t Tensor) {
			d.flush()
			o.F(d.rows*max(1, o.PerRow), func(i int) []float32 { return rowOf(t, i) })
		})
	}
	if in, err := p.compileLayer(op); in.run != nil || err != nil {
		return in, err
	}
	if in, err := p.compileExperts(op); in.run != nil || err != nil {
		return in, err
	}
	return instruction{}, errors.New("it is unknown to this device")
}

// keep does compute.Keep.
func (p *program) keep(all []compute.Tensor) {
	d := p.d
	p.keptRows = d.batch.Keep(&p.kept, p.keptRows[:0])
	if len(p.keptRows) == d.rows {
		return
	}
	for _, t := range all {
		x := p.tensor(t)
		d.gather(x, x, p.keptRows)
	}
	d.batch, p.rows[compute.AllRows] = &p.kept, len(p.keptRows)
	d.lora.group(&p.kept)
}

// wanted returns the rows of the batch that a domain has.
func (p *program) wanted(t compute.Tensor) []int32 {
	if p.domain(t) == compute.HiddenRows {
		return p.d.batch.Hidden
	}
	return p.d.batch.Logits
}

// compileLayer does so for operations on the cache and on positions. They have every row.
func (p *program) compileLayer(op compute.Op) (instruction, error) {
	d, c := p.d, p.cache
	all := func(run func(), tensors ...compute.Tensor) (instruction, error) {
		return instruction{compute.AllRows, run}, p.check(tensors...)
	}
	switch o := op.(type) {
	case compute.Angles:
		dst := p.tensor(o.Dst)
		return all(func() { d.angles(dst, o.Freqs, o.Long, o.Scale) }, o.Dst)
	case compute.Rotate:
		x, angles := p.tensor(o.X), p.tensor(o.Angles)
		return all(func() { d.rotate(x, angles, o.Rotary) }, o.X, o.Angles)
	case compute.Store:
		k, v := p.tensor(o.K), p.tensor(o.V)
		return all(func() { d.store(c, o.Layer, k, v) }, o.K)
	case compute.Attend:
		dst, q := p.tensor(o.Dst), p.tensor(o.Q)
		return all(func() { d.attend(dst, q, c, o.Layer, o.Attention) }, o.Dst, o.Q)
	case compute.Convolve:
		x := p.tensor(o.X)
		return all(func() { d.convolve(x, c, o.Layer, o.Delta) }, o.X)
	case compute.DeltaRule:
		dst, qkv, a, b := p.tensor(o.Dst), p.tensor(o.QKV), p.tensor(o.A), p.tensor(o.B)
		return all(func() { d.deltaRule(dst, qkv, a, b, c, o.Layer, o.Delta) }, o.Dst, o.QKV, o.A, o.B)
	}
	return instruction{}, nil
}

// compileExperts does so for operations of mixtures. They have every row.
func (p *program) compileExperts(op compute.Op) (instruction, error) {
	d := p.d
	all := func(run func(t *routes), routing int, tensors ...compute.Tensor) (instruction, error) {
		if routing < 0 || routing >= len(p.routes) {
			return instruction{}, fmt.Errorf("routing %d of %d", routing, len(p.routes))
		}
		t := p.routes[routing]
		return instruction{compute.AllRows, func() { run(t) }}, p.check(tensors...)
	}
	switch o := op.(type) {
	case compute.Route:
		logits := p.tensor(o.Logits)
		return all(func(t *routes) { d.route(t, logits, o.Router) }, o.Routing, o.Logits)
	case compute.MatMulExperts:
		x := p.tensor(o.X)
		var products []expertProduct
		for _, q := range o.Products {
			products = append(products, expertProduct{Dst: p.tensor(q.Dst), W: q.W, Bias: q.Bias})
		}
		return all(func(t *routes) { d.matMulExperts(x, o.Routed, t, products) }, o.Routing, o.X)
	case compute.Combine:
		dst, src, shared, factor := p.tensor(o.Dst), p.tensor(o.Src), p.tensor(o.Shared), p.tensor(o.Factor)
		return all(func(t *routes) { d.combine(dst, src, t, shared, factor) }, o.Routing, o.Dst, o.Src)
	}
	return instruction{}, nil
}
