package cuda

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// mostTaps is the longest convolution that the kernel has registers for.
const mostTaps = 8

// deltaKeys are the sizes of keys that delta.cu is compiled for.
var deltaKeys = []int{32, 64, 128, 256}

func deltaName(keys int) string { return fmt.Sprintf("delta_%d", keys) }

// stateOf checks the state of a layer and returns its numbers of a sequence.
func (p *program) stateOf(layer int, d compute.Delta) (int64, error) {
	if layer < 0 || layer >= len(p.cache.spec.Layers) || p.cache.spec.Layers[layer].State < d.State() {
		return 0, fmt.Errorf("cuda: layer %d of the cache has no room for %d numbers of a sequence", layer, d.State())
	}
	p.recurrent = true
	return int64(p.cache.spec.Layers[layer].State), nil
}

// convolve compiles a causal convolution.
func (p *program) convolve(o compute.Convolve) (operation, error) {
	state, err := p.stateOf(o.Layer, o.Delta)
	if err != nil {
		return nil, err
	}
	if o.Delta.Window < 1 || o.Delta.Window > mostTaps {
		return nil, fmt.Errorf("cuda: layer %d: this device does not compute a convolution of %d rows; want at most %d: %w", o.Layer, o.Delta.Window, mostTaps, compute.ErrUnsupported)
	}
	args := convolveArgs{states: p.cache.states[o.Layer], taps: o.Delta.Taps.(*vector).at, state: state,
		channels: int32(o.Delta.Channels()), window: int32(o.Delta.Window)}
	return func(s *shape) error {
		a := args
		a.x, a.runs = p.view(o.X), s.runs
		return run(p, "convolve", grid{blocksOf(o.Delta.Channels(), 256), uint32(s.runCount), 1}, 256, &a)
	}, nil
}

// deltaRule compiles the gated delta rule.
func (p *program) deltaRule(o compute.DeltaRule) (operation, error) {
	d := o.Delta
	state, err := p.stateOf(o.Layer, d)
	if err != nil {
		return nil, err
	}
	kernel := ""
	for _, keys := range deltaKeys {
		if kernel == "" && d.KeyDim <= keys {
			kernel = deltaName(keys)
		}
	}
	if kernel == "" {
		return nil, fmt.Errorf("cuda: layer %d: this device does not compute keys of %d numbers; want at most %d: %w", o.Layer, d.KeyDim, deltaKeys[len(deltaKeys)-1], compute.ErrUnsupported)
	}
	args := deltaArgs{
		states: p.cache.states[o.Layer], decay: d.Decay.(*vector).at, bias: d.Bias.(*vector).at,
		state: state, matrices: int64((d.Window - 1) * d.Channels()),
		keyHeads: int32(d.KeyHeads), valueHeads: int32(d.ValueHeads), keyDim: int32(d.KeyDim), valueDim: int32(d.ValueDim),
	}
	return func(s *shape) error {
		a := args
		a.dst, a.qkv, a.a, a.b, a.runs = p.view(o.Dst), p.view(o.QKV), p.view(o.A), p.view(o.B), s.runs
		return run(p, kernel, grid{uint32(d.ValueHeads), blocksOf(d.ValueDim, 64), uint32(s.runCount)}, 256, &a)
	}, nil
}
