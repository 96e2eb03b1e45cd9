package cuda

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
)

// tableRows computes the product of a table's rows with a weight on a device.
func tableRows(t *testing.T, d *device) (table *matrix, p compute.Program) {
	t.Helper()
	const vocab, width = 300, 256
	r := rand.New(rand.NewPCG(5, 6))
	table = weight(t, d, bell(r, vocab*width, 1), vocab, width).(*matrix)
	m := weight(t, d, bell(r, width*width, 0.1), width, width)
	g := &compute.Graph{Vocab: vocab}
	h, y, hid := g.Buffer(width, compute.AllRows), g.Buffer(width, compute.AllRows), g.Buffer(width, compute.HiddenRows)
	g.Add(compute.Embed{Dst: h, Table: table, Scale: 1},
		compute.MatMul{X: h, Products: []compute.Product{{Dst: y, W: m, Bias: vectorOf(t, d, make([]float32, width))}}},
		compute.Gather{Dst: hid, Src: y}, compute.Choose{Hidden: hid})
	p, err := d.Compile(g, oneLayer(t, d, 8, compute.CacheLayer{KVHeads: 1, KDim: 16, VDim: 16}), compute.Limits{Rows: vocab, Slots: 4})
	if err != nil {
		t.Fatal(err)
	}
	return table, p
}

func equalRows(a, b [][]float32) bool { return slices.EqualFunc(a, b, slices.Equal[[]float32]) }

// TestRealFault lets a kernel read an address that is not there. The device is lost and can be closed. A driver may
// refuse the process every context from then on, so a process of its own does that.
func TestRealFault(t *testing.T) {
	const child = "KVASIR_FAULT"
	if os.Getenv(child) == "" {
		_, beside := tableRows(t, gpuDevice(t))
		want := runHidden(t, beside, ids(0, 20))
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestRealFault$")
		c.Env = append(os.Environ(), child+"=1")
		said, err := c.CombinedOutput()
		t.Logf("%s", said)
		if err != nil {
			t.Error(err)
		}
		if got := runHidden(t, beside, ids(0, 20)); !equalRows(got, want) {
			t.Error("another process computes something else now")
		}
		if err := beside.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	made, err := open("", compute.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := made.(*device)
	table, p := tableRows(t, d)
	want := runHidden(t, p, ids(0, 20))
	table.at = 1 << 20
	b := ids(0, 20)
	b.Hidden = []int32{0}
	s, err := p.Start(b)
	if err != nil {
		t.Fatal(err)
	}
	var fault *compute.Fault
	if err := s.Wait(); !errors.As(err, &fault) || !fault.Lost {
		t.Fatalf("a kernel that reads where nothing is: %v; want a device that is lost", err)
	}
	t.Log("the fault:", fault)
	if s, err := p.Start(ids(0, 20)); err == nil && s.Wait() == nil {
		t.Error("a lost device computes")
	}
	if err := errors.Join(p.Close(), d.Close()); err != nil {
		t.Errorf("closing: %v", err)
	}
	if made, err = open("", compute.Options{}); err != nil {
		t.Log("the driver opens no device for the process again:", err)
		return
	}
	d = made.(*device)
	_, p = tableRows(t, d)
	if got := runHidden(t, p, ids(0, 20)); !equalRows(got, want) {
		t.Error("a device that is opened again computes something else")
	}
	if err := errors.Join(p.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// TestRealSleep moves weights to the host and back: their memory is free meanwhile, and they are the same.
func TestRealSleep(t *testing.T) {
	d := gpuDevice(t)
	_, p := tableRows(t, d)
	want := runHidden(t, p, ids(0, 20))
	width := less(16384, 1024) // 537 MB
	weight(t, d, make([]float32, width*width), width, width)
	memory := func() int64 {
		free, _, err := d.Memory()
		if err != nil {
			t.Fatal(err)
		}
		return free
	}
	program := p.(*program)
	graph, cache := program.graph, program.cache
	if err := errors.Join(p.Close(), cache.Close()); err != nil {
		t.Fatal(err)
	}
	awake := memory()
	if err := d.Sleep(); err != nil {
		t.Fatal(err)
	}
	if asleep := memory(); asleep < awake+int64(2*width*width) {
		t.Errorf("asleep %d bytes are free, awake %d: want %d more", asleep, awake, 2*width*width)
	}
	if err := d.Wake(); err != nil {
		t.Fatal(err)
	}
	if again := memory(); again > awake+64<<20 || again < awake-64<<20 {
		t.Errorf("awake %d bytes are free, and %d before", again, awake)
	}
	p, err := d.Compile(graph, oneLayer(t, d, 8, compute.CacheLayer{KVHeads: 1, KDim: 16, VDim: 16}), compute.Limits{Rows: 300, Slots: 4})
	if err != nil {
		t.Fatal(err)
	}
	if got := runHidden(t, p, ids(0, 20)); !equalRows(got, want) {
		t.Error("after sleep it computes something else")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
