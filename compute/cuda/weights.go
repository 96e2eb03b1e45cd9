package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/quant"
)

// matrix is a weight in records of a format (kernels/weights.cuh): outputs filled up with zeros to a multiple of 16,
// inputs to one of 64.
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
	return to, d.loading.wait()
}

// stage fills the half of the staging memory that comes next, once what it held has left.
func (d *device) stage(fill func(to pinned)) error {
	d.half ^= 1
	if err := d.moved[d.half].wait(); err != nil {
		return err
	}
	fill(d.staging[d.half])
	return nil
}

// staged says that what is queued is all that reads the half.
func (d *device) staged() error { return d.moved[d.half].record(d.loading) }

// The forms in which rows are copied to the device, as kernels/pack.cu numbers them.
const (
	rawF32 = iota
	rawBF16
	rawF16
)

// Matrix copies a weight to the device, in records of the format that its type has, or of BF16.
func (d *device) Matrix(src compute.Source) (compute.Matrix, error) {
	if src.Out < 1 || src.In < 1 {
		return nil, fmt.Errorf("cuda: %s is [%d, %d]", src.Name, src.Out, src.In)
	}
	if err := d.g.enter(); err != nil {
		return nil, err
	}
	defer d.g.leave()
	m := &matrix{out: src.Out, in: src.In, kind: src.Type, format: formatOf(&src), float8: scalingOf(&src)}
	take := d.takeWeight
	if src.Adapter { // which belongs to a program
		take = d.take
	}
	if err := take(&m.at, m.Bytes(), "the weight "+src.Name); err != nil {
		return nil, err
	}
	load := d.loadRecords
	if m.format == formatBF16 {
		load = d.loadTiles
	}
	if err := load(m, &src); err != nil {
		return nil, err
	}
	return m, nil
}

// loadRecords packs a weight on the host, as many outputs at a time as staging memory holds.
func (d *device) loadRecords(m *matrix, src *compute.Source) error {
	if err := d.g.loadProducts(d.kernels, m.format); err != nil {
		return err
	}
	size := m.tileBytes()
	if size > stagingBytes {
		return fmt.Errorf("cuda: %s has rows of %d values, %s for 16 of them; want at most %s", src.Name, src.In, gigabytes(int64(size)), gigabytes(stagingBytes))
	}
	for first := 0; first < m.tiles(); first += stagingBytes / size {
		n := min(m.tiles()-first, stagingBytes/size)
		var failed error
		err := d.stage(func(to pinned) { failed = packTiles(to.bytes()[:n*size], m, src, first) })
		if err == nil {
			err = failed
		}
		if err == nil {
			err = d.loading.toDevice(m.at.at(int64(first)*int64(size)), d.staging[d.half], 0, n*size)
		}
		if err == nil {
			err = d.staged()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// packTiles fills dst with the records of tiles of outputs, from the first on.
func packTiles(dst []byte, m *matrix, src *compute.Source, first int) error {
	clear(dst)
	size := m.tileBytes()
	n := len(dst) / size
	workers := min(runtime.GOMAXPROCS(0), n)
	var all guard.Group
	for w := range workers {
		all.Start(func() error {
			p, err := newRecordPacker(m.format, src)
			if err != nil {
				return err
			}
			for i := n * w / workers; i < n*(w+1)/workers; i++ {
				p.tile(dst[i*size:][:size], (first+i)*recordOuts)
			}
			return nil
		})
	}
	return all.Wait()
}

// loadTiles copies rows to the device and packs them there. Types other than BF16 and F16 are decoded on the way.
func (d *device) loadTiles(m *matrix, src *compute.Source) error {
	raw, size := rawF32, 4
	if src.Order == nil && src.Type == quant.BF16 {
		raw, size = rawBF16, 2
	} else if src.Order == nil && src.Type == quant.F16 {
		raw, size = rawF16, 2
	}
	rowBytes := size * src.In
	if rowBytes > stagingBytes {
		return fmt.Errorf("cuda: %s has rows of %d values; want at most %d", src.Name, src.In, stagingBytes/4)
	}
	for first := 0; first < src.Out; first += stagingBytes / rowBytes {
		n := min(src.Out-first, stagingBytes/rowBytes)
		var failed error
		err := d.stage(func(to pinned) { failed = readRows(to.bytes(), src, first, n, raw) })
		if err == nil {
			err = failed
		}
		if err == nil {
			err = d.loading.toDevice(d.raw[d.half], d.staging[d.half], 0, n*rowBytes)
		}
		if err == nil {
			a := packArgs{to: m.at, from: d.raw[d.half], first: int32(first), in: int32(m.in), tilesIn: int32(m.tilesIn()), kind: int32(raw)}
			err = launch(d.loading, d.kernels.byName["pack"], grid{uint32(n), 1, 1}, 256, &a)
		}
		if err == nil {
			err = d.staged()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readRows writes n rows of a weight to dst, from row first on, in the form raw.
func readRows(dst []byte, src *compute.Source, first, n, raw int) error {
	workers := min(runtime.GOMAXPROCS(0), n)
	var all guard.Group
	for w := range workers {
		all.Start(func() error {
			r := rowReader{src: src}
			for i := n * w / workers; i < n*(w+1)/workers; i++ {
				size := 4 * src.In // of a row
				if raw != rawF32 {
					size = 2 * src.In
				}
				if err := r.read(dst[i*size:][:size], first+i, raw); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return fmt.Errorf("cuda: %s: %w", src.Name, err)
	}
	return nil
}

// rowReader reads rows of a weight with memory of its own.
type rowReader struct {
	src    *compute.Source
	stored []byte
	values []float32
}

func (r *rowReader) read(dst []byte, row, raw int) error {
	src := r.src
	stored, err := src.Type.RowBytes(src.In)
	if err != nil {
		return err
	}
	if raw != rawF32 {
		if src.Row != nil {
			src.Row(dst, row)
		} else {
			copy(dst, src.Data[row*stored:][:stored])
		}
		return nil
	}
	from := r.stored
	if src.Row == nil {
		from = src.Data[row*stored:][:stored]
	} else {
		if len(from) < stored {
			from = make([]byte, stored)
			r.stored = from
		}
		src.Row(from, row)
	}
	if len(r.values) < src.In {
		r.values = make([]float32, src.In)
	}
	if err := quant.Decode(r.values, from, src.Type); err != nil {
		return err
	}
	if src.Group > 0 && src.Scales != nil {
		groups := (src.In + src.Group - 1) / src.Group
		for k := range r.values {
			r.values[k] *= src.Scales[row*groups+k/src.Group]
		}
	}
	for k, v := range r.values {
		if src.Order != nil {
			k = int(src.Order[k])
		}
		binary.LittleEndian.PutUint32(dst[4*k:], math.Float32bits(v))
	}
	return nil
}
