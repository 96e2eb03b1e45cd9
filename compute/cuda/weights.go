package cuda

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/quant"
)

// matrix is a weight in records of a format (kernels/weights.cuh). Outputs are filled up with zeros to a multiple of
// 16, inputs to a multiple of 64.
type matrix struct {
	at      pointer
	out, in int
	kind    quant.Type
	format  format
	float8  scaling // of formatFP8
}

const tileOuts, tileIns, inputsMultiple = 16, 16, 64

func (m *matrix) Dims() (out, in int) { return m.out, m.in }
func (m *matrix) Type() quant.Type    { return m.kind }
func (m *matrix) Bytes() int64        { return int64(m.tiles()) * int64(m.tileBytes()) }
func (m *matrix) tileBytes() int      { return m.tilesIn() / 4 * m.format.recordBytes() } // of the same outputs
func (m *matrix) tiles() int          { return (m.out + tileOuts - 1) / tileOuts }
func (m *matrix) tilesIn() int        { return roundUp(m.in, inputsMultiple) / tileIns }

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// vector is float32 on the device.
type vector struct {
	at pointer
	n  int
}

func (v *vector) Len() int { return v.n }

// Vector copies a vector to the device.
func (d *device) Vector(v []float32) (compute.Vector, error) {
	if err := d.g.enter(); err != nil {
		return nil, err
	}
	defer d.g.leave()
	to := &vector{n: len(v)}
	if err := d.takeWeight(&to.at, int64(4*len(v)), fmt.Sprintf("a vector of %d", len(v))); err != nil {
		return nil, err
	}
	for at := 0; at < len(v); at += stagingBytes / 4 {
		part := v[at:min(len(v), at+stagingBytes/4)]
		if err := d.stage(func(to pinned) { copy(view[float32](to, 0, len(part)), part) }); err != nil {
			return nil, err
		}
		if err := d.loading.toDevice(to.at.at(int64(4*at)), d.staging[d.half], 0, 4*len(part)); err != nil {
			return nil, err
		}
		if err := d.staged(); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// stage fills the next half of the staging memory, once what it held has been copied.
func (d *device) stage(fill func(to pinned)) error {
	d.half ^= 1
	if err := d.emptied[d.half].wait(); err != nil {
		return err
	}
	fill(d.staging[d.half])
	return nil
}

// staged says that all that reads this half is queued.
func (d *device) staged() error { return d.emptied[d.half].record(d.loading) }

// Matrix copies a weight to the device, in records of the format that its type has, or of BF16.
func (d *device) Matrix(src compute.Source) (compute.Matrix, error) {
	rows, err := rowsOf(&src)
	if err != nil {
		return nil, err
	}
	if err := d.g.enter(); err != nil {
		return nil, err
	}
	defer d.g.leave()
	m := &matrix{out: src.Out, in: src.In, kind: src.Type, format: formatOf(&src), float8: scalingOf(&src)}
	if err := d.g.loadProducts(d.kernels, m.format); err != nil {
		return nil, err
	}
	take := d.takeWeight
	if src.Adapter { // which belongs to a program
		take = d.take
	}
	if err := take(&m.at, m.Bytes(), "the weight "+src.Name); err != nil {
		return nil, err
	}
	if err := d.load(m, rows); err != nil {
		return nil, err
	}
	return m, nil
}

// load copies a weight's rows to the device and packs them there, as many tiles of outputs at a time as staging memory
// holds.
func (d *device) load(m *matrix, r *storedRows) error {
	tile := tileOuts * (r.bytes + 4*r.groups)
	if tile > stagingBytes {
		return fmt.Errorf("cuda: %s has rows of %d values, %s for %d of them; want at most %s", r.src.Name, r.src.In, gigabytes(int64(tile)), tileOuts, gigabytes(stagingBytes))
	}
	kernel := d.kernels.byName[r.kernel()]
	most := stagingBytes / tile * tileOuts
	for first := 0; first < m.out; first += most {
		n := min(m.out-first, most)
		scales := roundUp(n*r.bytes, 4) // where they begin
		var failed error
		err := d.stage(func(to pinned) {
			failed = r.read(to.bytes(), first, n)
			copy(view[float32](to, scales, n*r.groups), r.scales[first*r.groups:])
		})
		if err = cmp.Or(err, failed); err != nil {
			return err
		}
		if err := d.loading.toDevice(d.raw[d.half], d.staging[d.half], 0, scales+4*n*r.groups); err != nil {
			return err
		}
		a := packArgs{
			to: m.at.at(int64(first/tileOuts) * int64(m.tileBytes())), from: d.raw[d.half], rowBytes: int64(r.bytes),
			rows: int32(n), in: int32(m.in), group: int32(r.src.Group),
			records: int32(roundUp(n, tileOuts) / tileOuts * m.tilesIn() / 4),
		}
		if r.groups > 0 {
			a.scales = a.from.at(int64(scales))
		}
		const records = 8 // of a block
		if err := launch(d.loading, kernel, grid{uint32(roundUp(int(a.records), records) / records), 1, 1}, 32*records, &a); err != nil {
			return err
		}
		if err := d.staged(); err != nil {
			return err
		}
	}
	return nil
}

// storedRows are a weight's rows in the form in which they are copied to the device: as they are stored, if there is a
// kernel that packs that type, or in float32.
type storedRows struct {
	src    *compute.Source
	kind   quant.Type
	bytes  int       // of a row
	stored int       // bytes of a row of src
	scales []float32 // [Out, groups], if the device multiplies by them
	groups int
}

// rowsOf checks a weight.
func rowsOf(src *compute.Source) (*storedRows, error) {
	n, err := src.Type.RowBytes(src.In)
	if err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", src.Name, err)
	}
	if src.Out < 1 || src.In < 1 || src.Row == nil && len(src.Data) != src.Out*n {
		return nil, fmt.Errorf("cuda: %s is [%d, %d] of %v in %d bytes; want %d", src.Name, src.Out, src.In, src.Type, len(src.Data), src.Out*n)
	}
	if err := src.Heads.Check(src.Out); err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", src.Name, err)
	}
	r := &storedRows{src: src, kind: src.Type, bytes: n, stored: n}
	switch {
	case formatOf(src) != formatBF16 && src.Scales != nil:
		r.scales, r.groups = src.Scales, len(src.Scales)/src.Out
		if src.Heads.Size > 0 {
			r.scales = make([]float32, 0, len(src.Scales))
			for n := range src.Out {
				r.scales = append(r.scales, src.Scales[src.Heads.Stored(n)*r.groups:][:r.groups]...)
			}
		}
	case formatOf(src) != formatBF16:
	case src.Order == nil && (src.Type == quant.F32 || src.Type == quant.BF16 || src.Type == quant.F16):
	default:
		r.kind, r.bytes = quant.F32, 4*src.In
	}
	return r, nil
}

// kernel is the name of the kernel that packs the rows.
func (r *storedRows) kernel() string { return "pack_" + r.kind.String() }

// read writes n rows to dst, from row first on.
func (r *storedRows) read(dst []byte, first, n int) error {
	const most = 128 << 10 // bytes that one worker writes in less time than several take to start
	workers := min(runtime.GOMAXPROCS(0), n, 1+n*r.bytes/most)
	var all guard.Group
	inOrder := r.kind == r.src.Type && r.src.Heads.Size == 0
	if inOrder && r.src.Row == nil {
		r.copy(&all, workers, dst[:n*r.bytes], r.src.Data[first*r.bytes:])
		return all.Wait()
	}
	for w := range workers {
		all.Start(func() error {
			from, to := n*w/workers, n*(w+1)/workers
			if inOrder && r.src.Run != nil {
				r.src.Run(dst[from*r.bytes:to*r.bytes], first+from, to-from)
				return nil
			}
			var memory rowMemory
			for i := from; i < to; i++ {
				if err := r.row(dst[i*r.bytes:][:r.bytes], first+i, &memory); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return fmt.Errorf("cuda: %s: %w", r.src.Name, err)
	}
	return nil
}

// copy lets some workers copy bytes as they are stored. Each takes a part again and again, since some are slower.
func (r *storedRows) copy(all *guard.Group, workers int, dst, data []byte) {
	var taken atomic.Int64
	for range workers {
		all.Start(func() error {
			const part = 256 << 10
			for {
				to := int(taken.Add(part))
				from := to - part
				if from >= len(dst) {
					return nil
				}
				to = min(to, len(dst))
				r.fetch(dst[from:to], data[from:to])
			}
		})
	}
}

// fetch copies stored data.
func (r *storedRows) fetch(dst, data []byte) {
	if r.src.Read != nil {
		r.src.Read(dst, data)
	} else {
		copy(dst, data)
	}
}

// rowMemory is what decoding a row takes.
type rowMemory struct {
	stored []byte
	values []float32
}

// row writes a row that is not copied with those beside it.
func (r *storedRows) row(dst []byte, n int, m *rowMemory) error {
	src := r.src
	n = src.Heads.Stored(n)
	switch {
	case r.kind != src.Type:
	case src.Row == nil:
		r.fetch(dst, src.Data[n*r.stored:][:r.stored])
		return nil
	default:
		src.Row(dst, n)
		return nil
	}
	if m.values == nil {
		m.stored, m.values = make([]byte, r.stored), make([]float32, src.In)
	}
	stored := m.stored
	if src.Row == nil {
		stored = src.Data[n*len(stored):][:len(stored)]
	} else {
		src.Row(stored, n)
	}
	if err := quant.Decode(m.values, stored, src.Type); err != nil {
		return err
	}
	if src.Group > 0 && src.Scales != nil {
		groups := (src.In + src.Group - 1) / src.Group
		for k := range m.values {
			m.values[k] *= src.Scales[n*groups+k/src.Group]
		}
	}
	for k, v := range m.values {
		if src.Order != nil {
			k = int(src.Order[k])
		}
		binary.LittleEndian.PutUint32(dst[4*k:], math.Float32bits(v))
	}
	return nil
}
