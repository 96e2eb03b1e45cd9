package text

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

// greedy is a device with 1 GiB of memory of its own, of which its largest step takes more than it reckons: by rows.
type greedy struct {
	*cpu.Device
	taken *atomic.Int64
}

const greedyRow = 1 << 20 // bytes

var greedyRows atomic.Int64 // of the largest step

type greedyProgram struct {
	compute.Program
	d *greedy
}

func (d *greedy) Memory() (free, total int64, err error) {
	return 1<<30 - d.taken.Load(), 1 << 30, nil
}

func (d *greedy) Compile(g *compute.Graph, c compute.Cache, l compute.Limits) (compute.Program, error) {
	p, err := d.Device.Compile(g, c, l)
	d.taken.Add(c.Bytes())
	return greedyProgram{p, d}, err
}

func (p greedyProgram) Start(b *compute.Batch) (compute.Step, error) {
	if n := int64(b.Rows()); n > greedyRows.Load() {
		p.d.taken.Add(greedyRow * (n - greedyRows.Load()))
		greedyRows.Store(n)
	}
	return p.Program.Start(b)
}

func (p greedyProgram) Close() error {
	p.d.taken.Store(0)
	return p.Program.Close()
}

func init() {
	compute.Register(compute.Kind{
		Name: "greedy", Rank: 2, Find: func() []compute.Found { return nil },
		Open: func(string, compute.Options) (compute.Device, error) {
			d, err := cpu.New(cpu.Options{Threads: 1})
			return &greedy{d, new(atomic.Int64)}, err
		},
	})
}

// TestMeasure holds that the cache has what the largest step leaves, as it was measured.
func TestMeasure(t *testing.T) {
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	room := func(budget int) int64 {
		greedyRows.Store(0)
		m, err := Open(ckpt, Options{Name: "mini", Device: "greedy", TokenBudget: budget, MaxSeqs: 7})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if got := greedyRows.Load(); got != int64(budget) {
			t.Errorf("the largest step had %d rows; want %d", got, budget)
		}
		return m.working
	}
	if a, b := room(100), room(300); b-a < 150<<20 || a < 100<<20 {
		t.Errorf("steps of 100 and 300 rows are to take %d and %d bytes; want %d a row", a, b, greedyRow)
	}
	greedyRows.Store(0)
	_, err = Open(ckpt, Options{Name: "mini", Device: "greedy", TokenBudget: 1000})
	if err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("a step of 1000 rows: %v", err)
	}
}
