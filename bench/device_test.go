package bench

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// remote is a device with none of what a kind may leave out: no meter, no choice of kernels, no memory that the host
// reads, no threads of the host, not every type, and another default of the cache.
type remote struct{ compute.Device }

func init() {
	compute.Register(compute.Kind{
		Name: "remote", Rank: 1000, Find: func() []compute.Found { return nil },
		Open: func(which string, o compute.Options) (compute.Device, error) {
			if which != "1" || o.Kernels != "" {
				return nil, errors.New("the remote device is number 1, with one implementation of its kernels")
			}
			d, err := compute.Open("cpu", compute.Options{Threads: 1})
			return remote{d}, err
		},
	})
}

func (d remote) StepRows() int         { return 512 }
func (d remote) KVTypes() []quant.Type { return []quant.Type{quant.BF16} }

func (d remote) Matrix(src compute.Source) (compute.Matrix, error) {
	if src.Type == quant.Q8_0 {
		return nil, errors.New("remote: no weights of Q8_0")
	}
	return d.Device.Matrix(src)
}

func (d remote) Cache(spec compute.CacheSpec) (compute.Cache, error) {
	if spec.Type != quant.BF16 {
		return nil, errors.New("remote: a cache of another type than BF16")
	}
	return d.Device.Cache(spec)
}

func (d remote) Compile(g *compute.Graph, c compute.Cache, l compute.Limits) (compute.Program, error) {
	for _, op := range g.Ops {
		if _, ok := op.(compute.Tap); ok {
			return nil, errors.New("remote: no Tap")
		}
	}
	return d.Device.Compile(g, c, l)
}

func TestModelOnAnyDevice(t *testing.T) {
	ckpt, err := Random(tiny, "bf16")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := ParseTests("pp20@7,b2")
	if err != nil {
		t.Fatal(err)
	}
	o := ModelOptions{Name: "tiny", Device: "remote:1", Chunk: 8, Repetitions: 1, BlockTokens: 16}
	rows, err := Model(t.Context(), ckpt, o, tests, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.TokensPerSecond <= 0 || r.Floor != 0 || r.Share != 0 || r.Read != 0 || r.Threads != 0 || r.Device == "" {
			t.Errorf("row %+v", r)
		}
	}
	for device, want := range map[string]string{"remote": "number 1", "none such": `no device "none such"`} {
		o.Device = device
		if _, err := Model(t.Context(), ckpt, o, tests, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("device %q: error %v; want %s", device, err, want)
		}
	}
}

func TestKernelsOnAnyDevice(t *testing.T) {
	o := KernelOptions{
		Device: "remote:1", Filter: regexp.MustCompile(`^remote/(matmul/(Q8_0|BF16)/8|decode/(F32|BF16)|norm|add|activate|rotate)`), Size: 256,
	}
	refused := map[string]bool{}
	rows := 0
	err := Kernels(t.Context(), o, func(name string, p compute.Peaks, row *KernelRow) {
		if name != "remote" || p != (compute.Peaks{}) {
			t.Errorf("found %s with peaks %+v", name, p)
		}
		if row == nil {
			return
		}
		rows++
		if row.Refused != "" {
			refused[row.Kernel+" "+row.Type+": "+row.Refused] = true
			return
		}
		if row.Kernels != "remote" || row.Bandwidth <= 0 || row.Share != 0 || row.Threads != 0 {
			t.Errorf("row %+v", row)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if rows != 8 || len(refused) != 2 || !refused["matmul Q8_0: remote: no weights of Q8_0"] ||
		!refused["decode F32: remote: a cache of another type than BF16"] {
		t.Errorf("%d rows, refused are %v", rows, refused)
	}
}

func TestFillCache(t *testing.T) {
	dev, err := compute.Open("cpu", compute.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	spec := compute.CacheSpec{Blocks: 8, BlockTokens: 16, States: 2, Layers: []compute.CacheLayer{
		{KVHeads: 2, KDim: 16, VDim: 32}, {State: 8}, {Group: 1, KVHeads: 1, KDim: 48, VDim: 32, Latent: true},
	}}
	cache, err := dev.Cache(spec)
	if err != nil {
		t.Fatal(err)
	}
	const seqs, tokens = 2, 20
	tables := tablesOf(spec, seqs, tokens, spec.BlockTokens)
	if err := fillCache(dev, cache, tables, tokens, 7); err != nil {
		t.Fatal(err)
	}
	p, err := dev.Compile(&compute.Graph{}, cache, compute.Limits{Rows: 1, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for block := range int32(8) {
		data := make([]byte, p.BlockBytes())
		if err := runStep(p, &compute.Batch{Out: []compute.Transfer{{Block: block, Data: data}}}); err != nil {
			t.Fatal(err)
		}
		seen[string(data)] = true
	}
	if len(seen) != 8 || seen[string(make([]byte, p.BlockBytes()))] {
		t.Errorf("%d of 8 blocks have contents of their own, or one is empty", len(seen))
	}
}
