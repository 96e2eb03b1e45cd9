package cuda

import (
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestArenas checks that weights take little more than their bytes from a driver that gives out pages of 2 MiB, that
// what does not fit is named, and that memory is given back with the last weight in it, also after sleep.
func TestArenas(t *testing.T) {
	f := newFake(t)
	d, err := newDevice(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	empty, pages := f.Free, 0
	src := compute.Source{Name: "experts", Type: quant.BF16, Out: 768, In: 2048, Data: make([]byte, 2*768*2048)}
	var all []*matrix
	for range 400 {
		all = append(all, load(t, d, src).(*matrix))
	}
	big := src
	big.Out, big.Data = 150*768, make([]byte, 150*len(src.Data))
	all = append(all, load(t, d, big).(*matrix))
	for at, n := range f.Sizes() {
		if n > stagingBytes || at == uintptr(d.arenas[0].at) {
			pages += roundUp(int(n), arenaPage)
		}
	}
	if most := 550*len(src.Data) + mostArena; pages > most || int(empty-f.Free) > most {
		t.Errorf("weights of %d bytes take %d, in pages of the driver %d", 550*len(src.Data), empty-f.Free, pages)
	}
	seen := map[pointer]bool{}
	for _, m := range all {
		if seen[m.at] || m.at%256 != 0 {
			t.Fatalf("a weight is at %#x, as another, or not at a multiple of 256", m.at)
		}
		seen[m.at] = true
	}
	left := f.Free
	for f.Free = 4 << 20; err == nil; _, err = d.Matrix(src) { // what fits an arena still does, and less than a page
	}
	if want := "cuda: allocating 3.1 MB for the weight experts: "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
	f.Free += left - 4<<20
	if err := d.Sleep(); err != nil || f.Free < empty {
		t.Errorf("asleep: %v, %d bytes are free; want %d", err, f.Free, empty)
	}
	if err := d.Wake(); err != nil {
		t.Fatal(err)
	}
	if err := d.g.enter(); err != nil {
		t.Fatal(err)
	}
	defer d.g.leave()
	for at := range d.taken {
		if err := d.drop(d.g, at); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.arenas) > 0 || f.Free != empty {
		t.Errorf("%d arenas are left, %d bytes are free; want %d", len(d.arenas), f.Free, empty)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	f.leaks()
}
