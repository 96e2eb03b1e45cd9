package cuda

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestSpeedOfLoading measures, if KVASIR_GPU_LOADING is set: copies of pinned memory to the device; and for each type
// weights from memory to the device, as a share of that, and its kernel alone. GB are those of the checkpoint.
func TestSpeedOfLoading(t *testing.T) {
	if os.Getenv("KVASIR_GPU_LOADING") == "" {
		t.Skip("KVASIR_GPU_LOADING is not set")
	}
	d := gpuDevice(t)
	if err := d.g.enter(); err != nil {
		t.Fatal(err)
	}
	defer d.g.leave()
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	const copies = 64
	begin := time.Now()
	for i := range copies {
		must(d.loading.toDevice(d.raw[i%2], d.staging[i%2], 0, stagingBytes))
	}
	must(d.loading.wait())
	link := copies * stagingBytes / time.Since(begin).Seconds() / 1e9
	fmt.Printf("link: %.1f GB/s\n", link)
	const in, bytes = 4096, 512 << 20
	r := rand.New(rand.NewPCG(2, 3))
	for _, typ := range append([]quant.Type{quant.F32, quant.F16, quant.BF16}, packedTypes...) {
		size, err := typ.RowBytes(in)
		must(err)
		src := repeated(t, r, typ, bytes/size/tileOuts*tileOuts, in)
		took := time.Duration(1 << 62)
		for range 3 {
			begin := time.Now()
			m := load(t, d, src).(*matrix)
			must(d.loading.wait())
			took = min(took, time.Since(begin))
			must(d.drop(d.g, m.at))
		}
		stored := float64(len(src.Data) + 4*len(src.Scales))

		rows := src.Rows(0, stagingBytes/2/size/tileOuts*tileOuts)
		m := load(t, d, rows).(*matrix)
		from, err := d.g.newEvent(true)
		must(err)
		to, err := d.g.newEvent(true)
		must(err)
		f := d.kernels.byName["pack_"+typ.String()]
		a := packArgs{to: m.at, from: d.raw[0], rowBytes: int64(size), rows: int32(rows.Out), in: in, group: int32(rows.Group), records: int32(m.tiles() * m.tilesIn() / 4)}
		const launches = 20
		must(from.record(d.loading))
		for range launches {
			must(launch(d.loading, f, grid{uint32(roundUp(int(a.records), 8) / 8), 1, 1}, 256, &a))
		}
		must(to.record(d.loading), d.loading.wait())
		ms, err := to.since(from)
		must(err, from.close(), to.close(), d.drop(d.g, m.at))
		fmt.Printf("%-8v %5.1f GB/s, %3.0f%% of the link; the kernel alone %6.1f GB/s\n", typ, stored/took.Seconds()/1e9,
			100*stored/took.Seconds()/1e9/link, launches*float64(rows.Out*size)/float64(ms)/1e6)
	}
}

// TestReadRows reads the rows of a weight in parts by way of what its source reads them with.
func TestReadRows(t *testing.T) {
	data := make([]byte, 700*2*1024)
	for i := range data {
		data[i] = byte(i * 7 / 5)
	}
	var parts atomic.Int32
	src := compute.Source{Name: "a", Type: quant.BF16, Out: 700, In: 1024, Data: data, Read: func(dst, part []byte) {
		parts.Add(1)
		copy(dst, part)
	}}
	for _, heads := range []compute.Heads{{}, {Size: 100, Turned: 100}} {
		src.Heads = heads
		rows, err := rowsOf(&src)
		if err != nil {
			t.Fatal(err)
		}
		got, want := make([]byte, 600*2048), []byte{}
		for n := range 600 {
			want = append(want, data[heads.Stored(50+n)*2048:][:2048]...)
		}
		parts.Store(0)
		if err := rows.read(got, 50, 600); err != nil || !bytes.Equal(got, want) || parts.Load() == 0 {
			t.Errorf("%v, in %d parts: rows are not what is stored", err, parts.Load())
		}
	}
}
