package cpu

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// hugeBytes returns how much of the mapping that holds b is in huge pages.
func hugeBytes(t *testing.T, b []byte) (n int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, inside := uintptr(unsafe.Pointer(&b[0])), false
	for s := bufio.NewScanner(f); s.Scan(); {
		var from, to uintptr
		if _, err := fmt.Sscanf(s.Text(), "%x-%x ", &from, &to); err == nil {
			inside = from <= at && at < to
		}
		var kib int
		if _, err := fmt.Sscanf(s.Text(), "AnonHugePages: %d kB", &kib); err == nil && inside {
			return kib << 10
		}
	}
	t.Fatal("no mapping holds the weight")
	return 0
}

// TestSoon requires that weights of a device that shall be ready soon are moved into huge pages, as far as the system
// has any, and stay as they are.
func TestSoon(t *testing.T) {
	d, err := New(Options{Threads: 1, Soon: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.arena.small == nil {
		t.Skip("the system does not move memory into huge pages on advice, or the machine has several nodes")
	}
	const side = 2304 // more than what arenas are for
	data := make([]byte, side*side*4)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
		if i%4 == 3 {
			data[i] = 63 // no infinities
		}
	}
	got, err := d.Matrix(compute.Source{Name: "w", Type: quant.F32, Out: side, In: side, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	m, s := got.(*matrix), d.arena.small
	pages := len(m.data) / hugePage
	if len(s.parts) != 1 || len(s.parts[0]) != pages*hugePage {
		t.Fatalf("%d parts in small pages; want one with %d pages", len(s.parts), pages)
	}
	before := hugeBytes(t, m.data)
	var rests []time.Duration
	s.collapse(d.done, func(rest time.Duration) { rests = append(rests, rest) })
	if len(rests) != 1+pages || rests[0] != time.Second {
		t.Errorf("%d rests, the first of %v; want one second, and one after each of %d pages", len(rests), rests[0], pages)
	}
	row := make([]float32, side)
	for n := range side {
		m.row(row, n)
		for k, v := range row {
			if want := *(*float32)(unsafe.Pointer(&data[(n*side+k)*4])); v != want {
				t.Fatalf("weight %d, %d is %v after it was moved; want %v", n, k, v, want)
			}
		}
	}
	after := hugeBytes(t, m.data)
	if err := collapse(m.data[:hugePage]); err != nil {
		t.Skipf("the system has no huge page to give: %v", err)
	}
	if after < hugePage || after < before {
		t.Errorf("%d bytes in huge pages before, %d after; want at least %d", before, after, hugePage)
	}
}
