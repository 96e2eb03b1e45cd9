package devices_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/internal/devicetest"
)

// TestOperations holds every device to what compute says of each operation: against float64, and to the same bits
// however a sequence is cut and whatever is beside it.
func TestOperations(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, dev compute.Device) {
		for name, test := range operations {
			t.Run(name, func(t *testing.T) { test(newBench(t, dev)) })
		}
	})
}

var operations = map[string]func(*bench){
	"Embed, AddPositions, AddTypes": testEmbed,
	"Normalize":                     func(b *bench) { testNormalize(b, compute.Norm{Eps: 1e-5}, 64) },
	"Normalize, centred":            func(b *bench) { testNormalize(b, compute.Norm{Eps: 1e-5, Center: true}, 64) },
	"Normalize, groups":             func(b *bench) { testNormalize(b, compute.Norm{Eps: 1e-5, Group: 16}, 16) },
	"Normalize, gains of groups":    func(b *bench) { testNormalize(b, compute.Norm{Eps: 1e-5, Group: 16}, 64) },
	"MatMul":                        testMatMul,
	"MatMul, stored by heads":       func(b *bench) { b.heads = compute.Heads{Size: 16, Turned: 12}; testMatMul(b) },
	"MatMulHeads":                   testMatMulHeads,
	"Rotate":                        func(b *bench) { testRotate(b, compute.Rotary{Heads: 3, HeadDim: 32}) },
	"Rotate, interleaved":           func(b *bench) { testRotate(b, compute.Rotary{Heads: 3, HeadDim: 32, Interleaved: true}) },
	"Rotate, skipping":              func(b *bench) { testRotate(b, compute.Rotary{Heads: 3, HeadDim: 48, Skip: 16}) },
	"Clamp":                         testClamp,
	"Activate, SiLU":                func(b *bench) { testActivate(b, compute.SiLU, true) },
	"Activate, SiLU, no gate":       func(b *bench) { testActivate(b, compute.SiLU, false) },
	"Activate, GELUTanh":            func(b *bench) { testActivate(b, compute.GELUTanh, true) },
	"Activate, GELU":                func(b *bench) { testActivate(b, compute.GELU, false) },
	"Activate, ReLU":                func(b *bench) { testActivate(b, compute.ReLU, false) },
	"Activate, SwiGLUClamped":       func(b *bench) { testActivate(b, compute.SwiGLUClamped, true) },
	"Add":                           testAdd,
	"Route, MatMulExperts, Combine": testExperts,
	"Convolve, DeltaRule":           testDelta,
	"Head":                          testHead,
	"Keep":                          testKeep,
}

func testEmbed(b *bench) {
	const width = 32
	table, positions := b.numbers(tokens*width, 1), b.numbers(tokens*width, 1)
	types := b.numbers(2*width, 1)
	x := b.buffer(width)
	b.g.Add(compute.Embed{Dst: x, Table: b.matrix(table, width), Scale: 2},
		compute.AddPositions{Dst: x, Table: b.matrix(positions, width)}, compute.AddTypes{Dst: x, Table: b.matrix(types, width)})
	b.check(x, func(token int) []float64 {
		out := make([]float64, width)
		for i := range out {
			out[i] = 2*float64(table[token*width+i]) + float64(positions[token*width+i]) + float64(types[i])
		}
		return out
	})
}

func testNormalize(b *bench, n compute.Norm, gains int) {
	const width = 64
	x, in := b.input(width)
	gain, bias := b.numbers(gains, 1), b.numbers(gains, 1)
	n.Gain = b.vector(gain)
	if n.Center {
		n.Bias = b.vector(bias)
	}
	dst := b.buffer(width)
	b.g.Add(compute.Normalize{Dst: dst, Src: x, Norm: n})
	size := n.Group
	if size == 0 {
		size = gains
	}
	b.check(dst, func(token int) []float64 {
		out := row(in, token, width)
		for at := 0; at < width; at += size {
			part, mean, square := out[at:][:size], 0.0, 0.0
			for _, v := range part {
				if n.Center {
					mean += v / float64(size)
				}
			}
			for _, v := range part {
				square += (v - mean) * (v - mean) / float64(size)
			}
			for i, v := range part {
				part[i] = (v - mean) / math.Sqrt(square+float64(n.Eps)) * float64(gain[(at+i)%gains])
				if n.Bias != nil {
					part[i] += float64(bias[(at+i)%gains])
				}
			}
		}
		return out
	})
}

func testMatMul(b *bench) {
	const width, first, second = 96, 64, 32
	x, in := b.input(width)
	w, m := b.weight(first, width)
	v, n := b.weight(second, width)
	u, l := b.weight(second, first)
	bias := b.numbers(first, 1)
	y, z, last := b.buffer(first), b.buffer(second), b.buffer(second)
	b.g.Add(compute.MatMul{X: x, Products: []compute.Product{{Dst: y, W: m, Bias: b.vector(bias)}, {Dst: z, W: n}}},
		compute.MatMul{X: y, Products: []compute.Product{{Dst: last, W: l}}},
		compute.Add{Dst: last, Src: z, Scale: 1})
	b.check(last, func(token int) []float64 {
		x := row(in, token, width)
		out := product(u, product(w, x, bias), nil)
		for i, more := range product(v, x, nil) {
			out[i] += more
		}
		return out
	})
}

func testMatMulHeads(b *bench) {
	const heads, from, to, rest = 3, 32, 48, 16
	x, in := b.input(heads * (from + rest))
	var w [][]float32
	var m []compute.Matrix
	for range heads {
		v, n := b.weight(to, from)
		w, m = append(w, v), append(m, n)
	}
	dst := b.buffer(heads * (to + rest))
	b.g.Add(compute.MatMulHeads{Dst: dst, X: x, W: m})
	b.check(dst, func(token int) (out []float64) {
		for h := range heads {
			part := row(in, token*heads+h, from+rest)
			out = append(append(out, product(w[h], part[:from], nil)...), part[from:]...)
		}
		return out
	})
}

func testRotate(b *bench, r compute.Rotary) {
	n := (r.HeadDim - r.Skip) / 2
	width := r.Heads * r.HeadDim
	x, in := b.input(width)
	freqs := make([]float32, n)
	for i := range freqs {
		freqs[i] = float32(math.Pow(100, -float64(i)/float64(n)))
	}
	angles := b.buffer(2 * n)
	b.g.Add(compute.Angles{Dst: angles, Freqs: b.vector(freqs), Scale: 1.5}, compute.Rotate{X: x, Angles: angles, Rotary: r})
	b.check(x, func(token int) []float64 {
		out := row(in, token, width)
		for h := range r.Heads {
			part := out[h*r.HeadDim+r.Skip:][:2*n]
			for i := range n {
				one, two := i, i+n
				if r.Interleaved {
					one, two = 2*i, 2*i+1
				}
				sin, cos := math.Sincos(float64(token) * float64(freqs[i]))
				p, q := part[one], part[two]
				part[one], part[two] = 1.5*(p*cos-q*sin), 1.5*(q*cos+p*sin)
			}
		}
		return out
	})
}

func testClamp(b *bench) {
	x, in := b.input(48)
	b.g.Add(compute.Clamp{X: x, Limit: 0.5})
	b.check(x, func(token int) []float64 {
		out := row(in, token, 48)
		for i, v := range out {
			out[i] = min(max(v, -0.5), 0.5)
		}
		return out
	})
}

func testActivate(b *bench, act compute.Activation, gated bool) {
	const width = 48
	gate, g := b.input(width)
	var up compute.Tensor
	var u []float32
	if gated {
		up, u = b.input(width)
	}
	b.g.Add(compute.Activate{Dst: gate, Gate: gate, Up: up, Act: act})
	b.check(gate, func(token int) []float64 {
		out := row(g, token, width)
		for i, x := range out {
			with := 1.0
			if gated {
				with = float64(u[token*width+i])
			}
			switch act {
			case compute.SiLU:
				out[i] = x / (1 + math.Exp(-x)) * with
			case compute.GELUTanh:
				out[i] = 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) * with
			case compute.GELU:
				out[i] = 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) * with
			case compute.ReLU:
				out[i] = max(x, 0) * with
			case compute.SwiGLUClamped:
				c := min(x, 7)
				out[i] = (min(max(with, -7), 7) + 1) * c / (1 + math.Exp(-1.702*c))
			}
		}
		return out
	})
}

func testAdd(b *bench) {
	x, in := b.input(48)
	y, more := b.input(48)
	b.g.Add(compute.Add{Dst: x, Src: y, Scale: 0.25})
	b.check(x, func(token int) []float64 {
		out := row(in, token, 48)
		for i := range out {
			out[i] += 0.25 * float64(more[token*48+i])
		}
		return out
	})
}

func testExperts(b *bench) {
	x, in := b.input(expertsWidth)
	dst, want := mixture(b, x, in, nil)
	b.check(dst, want)
}

const expertsWidth = 32

// mixture adds a mixture of experts of x, whose numbers are given, after some other operation on x and the scores. It
// returns what that yields, and what it is to yield for a token.
func mixture(b *bench, x compute.Tensor, in []float32, before func(scores compute.Tensor) compute.Op) (dst compute.Tensor, want func(token int) []float64) {
	const width, inner, experts, chosen = expertsWidth, 48, 6, 2
	logits, scores := b.input(experts)
	if before != nil {
		b.g.Add(before(logits))
	}
	var up, down [][]float32
	var ups, downs []compute.Matrix
	for range experts {
		u, m := b.weight(inner, width)
		d, n := b.weight(width, inner)
		up, down, ups, downs = append(up, u), append(down, d), append(ups, m), append(downs, n)
	}
	b.g.Routings = []compute.Routing{{Experts: experts, Chosen: chosen}}
	mid, out := b.buffer(chosen*inner), b.buffer(chosen*width)
	dst = b.buffer(width)
	b.g.Add(compute.Route{Logits: logits, Router: compute.Router{Normalise: true, Scale: 1.5}},
		compute.MatMulExperts{X: x, Products: []compute.ExpertProduct{{Dst: mid.Narrow(inner), W: ups}}},
		compute.MatMulExperts{X: mid.Narrow(inner), Routed: true, Products: []compute.ExpertProduct{{Dst: out.Narrow(width), W: downs}}},
		compute.Combine{Dst: dst, Src: out.Narrow(width)})
	return dst, func(token int) []float64 {
		s := row(scores, token, experts)
		order := []int{0, 1, 2, 3, 4, 5}
		slices.SortStableFunc(order, func(i, j int) int { return -cmpFloat(s[i], s[j]) })
		total, sum := 0.0, make([]float64, width)
		for _, e := range order[:chosen] {
			total += math.Exp(s[e])
		}
		for _, e := range order[:chosen] {
			y := product(down[e], product(up[e], row(in, token, width), nil), nil)
			for i, v := range y {
				sum[i] += 1.5 * math.Exp(s[e]) / total * v
			}
		}
		return sum
	}
}

// testDelta runs a layer with recurrent state.
func testDelta(b *bench) {
	d := compute.Delta{KeyHeads: 2, ValueHeads: 4, KeyDim: 16, ValueDim: 16, Window: 3}
	n := d.Channels()
	taps, decay, bias := b.numbers(d.Window*n, 0.5), b.numbers(d.ValueHeads, 0.3), b.numbers(d.ValueHeads, 0.3)
	for i, x := range decay {
		decay[i] = -float32(math.Abs(float64(x)))
	}
	d.Taps, d.Decay, d.Bias = b.vector(taps), b.vector(decay), b.vector(bias)
	x, in := b.input(n)
	a, as := b.input(d.ValueHeads)
	gate, bs := b.input(d.ValueHeads)
	b.states, b.layers = 8, []compute.CacheLayer{{KVHeads: 1, KDim: 16, VDim: 16}, {State: d.State()}}
	dst := b.buffer(d.ValueHeads * d.ValueDim)
	b.g.Add(compute.Convolve{Layer: 1, X: x, Delta: d}, compute.DeltaRule{Layer: 1, Dst: dst, QKV: x, A: a, B: gate, Delta: d})
	want := deltaReference(d, in, as, bs, taps, decay, bias)
	b.check(dst, func(token int) []float64 { return want[token] })
}

// deltaReference computes the outputs of all tokens of a sequence, as compute.Convolve and compute.DeltaRule say.
func deltaReference(d compute.Delta, in, as, bs, taps, decay, bias []float32) (out [][]float64) {
	n := d.Channels()
	states := make([][]float64, d.ValueHeads) // [KeyDim, ValueDim] each
	for h := range states {
		states[h] = make([]float64, d.KeyDim*d.ValueDim)
	}
	unit := func(v []float64) []float64 {
		sum := 1e-6 // of all gated delta nets
		for _, x := range v {
			sum += x * x
		}
		for i := range v {
			v[i] /= math.Sqrt(sum)
		}
		return v
	}
	for token := range tokens {
		mixed := make([]float64, n)
		for t := range d.Window {
			if from := token - (d.Window - 1 - t); from >= 0 {
				for c := range mixed {
					mixed[c] += float64(taps[t*n+c]) * float64(in[from*n+c])
				}
			}
		}
		var row []float64
		for h, state := range states {
			kh := h / (d.ValueHeads / d.KeyHeads)
			q := unit(slices.Clone(mixed[kh*d.KeyDim:][:d.KeyDim]))
			k := unit(slices.Clone(mixed[(d.KeyHeads+kh)*d.KeyDim:][:d.KeyDim]))
			v := mixed[2*d.KeyHeads*d.KeyDim+h*d.ValueDim:][:d.ValueDim]
			g := math.Exp(float64(decay[h]) * math.Log1p(math.Exp(float64(as[token*d.ValueHeads+h]+bias[h]))))
			rate := 1 / (1 + math.Exp(-float64(bs[token*d.ValueHeads+h])))
			for j := range d.ValueDim {
				have := 0.0
				for i := range k {
					have += g * state[i*d.ValueDim+j] * k[i]
				}
				sum := 0.0
				for i := range k {
					state[i*d.ValueDim+j] = g*state[i*d.ValueDim+j] + k[i]*rate*(v[j]-have)
					sum += state[i*d.ValueDim+j] * q[i]
				}
				row = append(row, sum/math.Sqrt(float64(d.KeyDim)))
			}
		}
		out = append(out, row)
	}
	return out
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// testHead compares the logits of some rows.
func testHead(b *bench) {
	const width = 64
	x, in := b.input(width)
	w, m := b.weight(tokens, width)
	last, logits := b.g.Buffer(width, compute.LogitRows), b.g.Buffer(tokens, compute.LogitRows)
	b.g.Add(compute.Gather{Dst: last, Src: x},
		compute.Head{X: last, Product: compute.Product{Dst: logits, W: m}, Scale: 0.5, Softcap: 2})
	p := b.compile(compute.Tensor{}, logits)
	var batch compute.Batch
	add(&batch, 0, 0, tokens)
	batch.Logits = []int32{0, 7, 50, tokens - 1}
	batch.ReadAll()
	s := start(b.t, p, &batch)
	for i, token := range batch.Logits {
		want := product(w, row(in, int(token), width), nil)
		for j, v := range want {
			want[j] = 2 * math.Tanh(v*0.5/2)
		}
		if e := distance(s.Logits(i), want); !(e <= b.near()) {
			b.t.Errorf("the logits of row %d are off by %g", token, e)
		}
	}
}

// testKeep compares hidden states and logits of rows of two sequences that are kept before a mixture of experts.
func testKeep(b *bench) {
	const width = expertsWidth
	x, in := b.input(width)
	y, more := b.input(width)
	v, head := b.weight(tokens, width)
	b.g.Add(compute.Add{Dst: y, Src: x, Scale: 1})
	added, mixed := mixture(b, x, in, func(scores compute.Tensor) compute.Op { return compute.Keep{X: []compute.Tensor{x, y, scores}} })
	last, logits := b.g.Buffer(width, compute.LogitRows), b.g.Buffer(tokens, compute.LogitRows)
	b.g.Add(compute.Add{Dst: y, Src: added, Scale: 1},
		compute.Gather{Dst: last, Src: y}, compute.Head{X: last, Product: compute.Product{Dst: logits, W: head}, Scale: 1})
	p := b.compile(y, logits)
	want := func(token int) []float64 {
		out := mixed(token)
		for i := range out {
			out[i] += float64(in[token*width+i]) + float64(more[token*width+i])
		}
		return out
	}
	var all []int32
	for r := range int32(tokens) {
		all = append(all, r)
	}
	for _, c := range []struct{ logits, hidden []int32 }{
		{nil, nil}, {[]int32{tokens - 1}, nil}, {[]int32{49}, []int32{0}}, {[]int32{0, 7, 50, tokens - 1}, []int32{7, 8, 60}},
		{all[:20], all[10:30]}, {all[1:], nil}, {nil, all}, {all[:40], all[40:]},
	} {
		batch := compute.Batch{Logits: c.logits, Hidden: c.hidden}
		add(&batch, 1, 0, 50)
		add(&batch, 2, 0, tokens-50)
		token := func(r int32) int { return int(batch.IDs[r]) }
		batch.ReadAll()
		s := start(b.t, p, &batch)
		for i, r := range c.hidden {
			if e := distance(s.Hidden(i), want(token(r))); !(e <= b.near()) {
				b.t.Errorf("rows %v and %v: row %d is off by %g", c.logits, c.hidden, r, e)
			}
		}
		for i, r := range c.logits {
			if e := distance(s.Logits(i), product(v, want(token(r)), nil)); !(e <= b.near()) {
				b.t.Errorf("rows %v and %v: the logits of row %d are off by %g", c.logits, c.hidden, r, e)
			}
		}
	}
}

// attendCase is a shape of attention.
type attendCase struct {
	heads, kv, k, v, window      int
	softcap                      float32
	sinks, latent, bidirectional bool
}

// TestAttention is TestOperations for Store and Attend.
func TestAttention(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, dev compute.Device) {
		for _, c := range []attendCase{
			{heads: 4, kv: 2, k: 64, v: 64}, {heads: 4, kv: 4, k: 16, v: 16}, {heads: 6, kv: 1, k: 128, v: 128, window: 20},
			{heads: 4, kv: 2, k: 40, v: 40, softcap: 5}, {heads: 4, kv: 1, k: 64, v: 64, sinks: true, window: 33}, {heads: 4, kv: 2, k: 48, v: 32},
			{heads: 4, kv: 1, k: 96, v: 64, latent: true}, {heads: 4, kv: 2, k: 64, v: 64, bidirectional: true},
		} {
			t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { testAttend(newBench(t, dev), c) })
		}
	})
}

func testAttend(b *bench, c attendCase) {
	x, q := b.input(c.heads * c.k)
	key, k := b.input(c.kv * c.k)
	store := compute.Store{K: key}
	v, from := k, c.k // a latent's values are the first numbers of its keys
	if !c.latent {
		store.V, v = b.input(c.kv * c.v)
		from = c.v
	}
	a := compute.Attention{Heads: c.heads, Scale: 0.2, Softcap: c.softcap, Window: c.window, Bidirectional: c.bidirectional}
	var sinks []float32
	if c.sinks {
		sinks = b.numbers(c.heads, 1)
		a.Sinks = b.vector(sinks)
	}
	b.layers = []compute.CacheLayer{{KVHeads: c.kv, KDim: c.k, VDim: c.v, Latent: c.latent}}
	dst := b.buffer(c.heads * c.v)
	b.g.Add(store, compute.Attend{Dst: dst, Q: x, Attention: a})
	want := func(token int) (out []float64) {
		first, end := 0, token+1
		if c.window > 0 {
			first = max(0, end-c.window)
		}
		if c.bidirectional {
			end = tokens
		}
		for h := range c.heads {
			kv, total, mixed := h/(c.heads/c.kv), 0.0, make([]float64, c.v)
			if sinks != nil {
				total = math.Exp(float64(sinks[h]))
			}
			for p := first; p < end; p++ {
				s := product(k[(p*c.kv+kv)*c.k:][:c.k], row(q, token*c.heads+h, c.k), nil)[0] * 0.2
				if c.softcap > 0 {
					s = float64(c.softcap) * math.Tanh(s/float64(c.softcap))
				}
				weight := math.Exp(s)
				total += weight
				for i := range mixed {
					mixed[i] += weight * float64(v[(p*c.kv+kv)*from+i])
				}
			}
			for _, m := range mixed {
				out = append(out, m/total)
			}
		}
		return out
	}
	if !c.bidirectional {
		b.check(dst, want)
		return
	}
	p := b.compile(dst, compute.Tensor{})
	var batch compute.Batch
	add(&batch, 0, 0, tokens)
	for token, got := range run(b.t, p, &batch) {
		if e := distance(got, want(token)); !(e <= b.near()) {
			b.t.Fatalf("row %d is off by %g", token, e)
		}
	}
}
