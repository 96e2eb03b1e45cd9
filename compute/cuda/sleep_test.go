package cuda

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestSleep checks that weights leave the device and come back under new addresses, and that one that has no memory for
// them sleeps on.
func TestSleep(t *testing.T) {
	f := newFake(t)
	d, err := newDevice(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	empty := f.Free
	r := rand.New(rand.NewPCG(1, 1))
	m := weight(t, d, bell(r, 128*128, 1), 128, 128).(*matrix)
	v := vectorOf(t, d, []float32{1, 2, 3}).(*vector)
	if _, err := d.Matrix(compute.Source{Name: "a", Type: m.kind, Out: 16, In: 128, Data: make([]byte, 2*16*128), Adapter: true}); err != nil {
		t.Fatal(err)
	}
	c := oneLayer(t, d, 100, compute.CacheLayer{KVHeads: 2, KDim: 64, VDim: 64})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	awake, was := f.Free, []pointer{m.at, v.at}
	f.refuse[cuMemcpyDtoHAsync] = 1
	if err := d.Sleep(); err == nil || f.Free != awake || m.at != was[0] {
		t.Errorf("a copy that is refused: %v, %d bytes are free; want %d", err, f.Free, awake)
	}
	clear(f.refuse)
	for range 2 {
		if err := d.Sleep(); err != nil {
			t.Fatal(err)
		}
		if f.Free < empty+2*stagingBytes || m.at != 0 || v.at != 0 {
			t.Errorf("asleep: %d bytes are free; want %d", f.Free, empty+2*stagingBytes)
		}
	}
	asleep := f.Free
	f.Free = 32 << 10
	if err := d.Wake(); err == nil || !strings.Contains(err.Error(), "waking: cuda: allocating") || f.Free != 32<<10 {
		t.Errorf("without memory: %v; %d bytes are free", err, f.Free)
	}
	f.Free = asleep
	for range 2 {
		if err := d.Wake(); err != nil {
			t.Fatal(err)
		}
	}
	if m.at == 0 || v.at == 0 || f.Free <= awake {
		t.Errorf("awake: weights at %#x and %#x, %d bytes are free; want more than the %d with an adapter", m.at, v.at, f.Free, awake)
	}
	if err := errors.Join(d.Sleep(), d.Close()); err != nil {
		t.Error(err)
	}
	f.leaks()
}

// TestSpoils tells faults of one call from those that spoil the context.
func TestSpoils(t *testing.T) {
	var all []code
	for c := range code(1000) {
		if c.spoils() {
			all = append(all, c)
		}
	}
	for _, c := range []code{4, 214, 220, 700, 702, 710, 716, 719, 999} {
		if !slices.Contains(all, c) {
			t.Errorf("%d does not", c)
		}
	}
	for _, c := range []code{success, 1, outOfMemory, 701, 720, 800, notReady} {
		if slices.Contains(all, c) {
			t.Errorf("%d does", c)
		}
	}
}

// TestKernelsLoadedMeanwhile loads weights and caches of other types while steps of a program run: the kernels of these
// are news to the device alone.
func TestKernelsLoadedMeanwhile(t *testing.T) {
	_, c := small(t)
	p := c.(*program)
	done := make(chan error, 1)
	go func() {
		for at := range 40 {
			s, err := p.Start(token(at, plainChoice))
			if err == nil {
				err = s.Wait()
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	r := rand.New(rand.NewPCG(2, 2))
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0, quant.MXFP4, quant.Q6_K, quant.F8_E4M3} {
		load(t, p.d, packedSource(t, r, typ, 64, 256))
	}
	for _, typ := range p.d.KVTypes() {
		c, err := p.d.Cache(compute.CacheSpec{Blocks: 4, BlockTokens: 16, Type: typ, Layers: []compute.CacheLayer{{KVHeads: 1, KDim: 256, VDim: 256}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestCaptureAhead checks which graphs are there before the first step, and that a decode step captures none.
func TestCaptureAhead(t *testing.T) {
	f, c := small(t) // of 64 rows and 4 slots
	p := c.(*program)
	if a := p.ahead; a.graphs != 6 || a.rows != 4 || len(p.graphs) != 6 {
		t.Errorf("%+v, %d graphs; want those of 1, 2 and 4 rows, whether or not attention turns them", a, len(p.graphs))
	}
	if !strings.HasPrefix(p.Prepared(), "6 graphs of up to 4 rows, 0 bytes, captured in ") {
		t.Error(p.Prepared())
	}
	f.Mu.Lock()
	f.refuse[cuStreamBeginCapture] = 1
	f.Mu.Unlock()
	s, err := p.Start(token(0, plainChoice))
	if err == nil {
		err = s.Wait()
	}
	if err != nil {
		t.Error(err)
	}
}

// TestFree checks what is said of a device's memory without loading anything.
func TestFree(t *testing.T) {
	for _, c := range []struct {
		change func(*fake)
		want   string
	}{
		{func(f *fake) { f.Free = 5 << 30 }, ""},
		{func(f *fake) { f.Free = 100 << 20 }, "cuda: out of memory: 0.1 GB of 1099.5 GB are free; want 0.3 GB, and a model's besides"},
		{func(f *fake) { f.refuse[cuCtxCreate] = outOfMemory }, "cuda: opening device 0: FAKE_2 (FAKE_2)"},
		{func(f *fake) { f.Devices[0].Major = 7 }, "cuda: Fake 9000 has compute capability 7.0; want 8.0 or later"},
	} {
		f := newFake(t)
		c.change(f)
		free, err := freeOf(f, 0)
		if c.want == "" && (err != nil || free != 5<<30) || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%d bytes, %v; want %q", free, err, c.want)
		}
		f.leaks()
	}
}
