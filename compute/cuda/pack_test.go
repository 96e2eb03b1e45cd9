package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// packTiles is what kernels/pack.cu does, made of package quant's own readings of blocks: it fills dst with the
// records of all outputs.
func packTiles(dst []byte, m *matrix, src *compute.Source) error {
	clear(dst)
	if m.format == formatBF16 {
		return packBF16(dst, m, src)
	}
	p, err := newRecordPacker(m.format, src)
	if err != nil {
		return err
	}
	for i := range m.tiles() {
		p.tile(dst[i*m.tileBytes():][:m.tileBytes()], i*recordOuts)
	}
	return nil
}

// packBF16 packs a weight that is stored as bfloat16.
func packBF16(dst []byte, m *matrix, src *compute.Source) error {
	v := make([]float32, src.Out*src.In)
	if err := quant.Decode(v, src.Data, src.Type); err != nil {
		return err
	}
	for i, x := range v {
		out, in := i/src.In, i%src.In
		if src.Scales != nil {
			x *= src.Scales[out*((src.In+src.Group-1)/src.Group)+in/src.Group]
		}
		if src.Order != nil {
			in = int(src.Order[in])
		}
		lane, part := out%8*4+in%8/2, out%16/8+in%16/8*2
		at := (out/16*m.tilesIn()+in/16)*256 + lane*8 + part*2 + in%2
		binary.LittleEndian.PutUint16(dst[2*at:], quant.F32ToBF16(x))
	}
	return nil
}

// recordPacker writes a weight's records, with memory of its own.
type recordPacker struct {
	f        format
	src      *compute.Source
	affine   quant.Affine
	rowBytes int
	rows     [2]packedRow // outputs g and g+8
}

// packedRow is a row, and 64 inputs of it.
type packedRow struct {
	stored          []byte // nil past the last output
	memory          []byte
	parts           quant.Parts
	codes           [recordIns]uint8
	scales, seconds [4]uint16
}

func newRecordPacker(f format, src *compute.Source) (*recordPacker, error) {
	p := &recordPacker{f: f, src: src}
	p.affine, _ = quant.AffineOf(src.Type)
	var err error
	if p.rowBytes, err = src.Type.RowBytes(src.In); err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", src.Name, err)
	}
	return p, nil
}

// tile writes the records of 16 outputs to dst, which is zero: those of output first and on, as far as there are.
func (p *recordPacker) tile(dst []byte, first int) {
	record := p.f.recordBytes()
	for g := range recordOuts / 2 {
		for half := range p.rows {
			p.take(&p.rows[half], first+half*8+g)
		}
		for in := 0; in < p.src.In; in += recordIns {
			to := dst[in/recordIns*record:][:record]
			for half := range p.rows {
				r, out := &p.rows[half], first+half*8+g
				if r.stored == nil {
					continue
				}
				if p.f == formatFP8 {
					p.float8(to[half*halfRecord:], g, r, out, in)
					continue
				}
				p.split(r, half, in)
				p.putScales(to[formats[p.f].bits*128:], r, g*2+half)
			}
			if p.f == formatFP8 {
				continue
			}
			putCodes(to, &p.rows[0].codes, &p.rows[1].codes, g, formats[p.f].bits)
		}
	}
}

// take reads a row as it is stored.
func (p *recordPacker) take(r *packedRow, n int) {
	switch {
	case n >= p.src.Out:
		r.stored, r.codes = nil, [recordIns]uint8{}
	case p.src.Row == nil:
		r.stored = p.src.Data[n*p.rowBytes:][:p.rowBytes]
	default:
		if r.memory == nil {
			r.memory = make([]byte, p.rowBytes)
		}
		r.stored = r.memory
		p.src.Row(r.stored, n)
	}
}

// A record of F8_E4M3 is two halves, of so many bytes, with eight outputs' scales from a place on.
const halfRecord, halfScales = 528, 512

// float8 writes 64 inputs of row n of F8_E4M3, or as many as there are, as those of output g of half a record.
func (p *recordPacker) float8(half []byte, g int, r *packedRow, n, in int) {
	for i, code := range r.stored[in:min(in+recordIns, len(r.stored))] {
		half[i/16*128+g*16+i%8/2*4+i%2*2+i%16/8] = code
	}
	scale := float32(1)
	if s := p.src.Scales; s != nil {
		groups := (p.src.In + p.src.Group - 1) / p.src.Group
		scale = s[n*groups+in/p.src.Group]
	}
	of, _ := formatFP8.stored(0)
	binary.LittleEndian.PutUint16(half[halfScales+g*2:], quant.F32ToBF16(scale*of))
}

// stored is what scales, and minima or zero points, of outputs g (half 0) or g+8 of a record are multiplied with as
// they are stored: Stored of weights.cuh.
func (f format) stored(half int) (scale, second float32) {
	power := func(n int) float32 { return float32(math.Ldexp(1, n)) }
	bit := 0
	if formats[f].bits == 4 {
		bit = 4 * half
	}
	switch {
	case f == formatFP8:
		return power(88), 1
	case f == formatBF16 || f == formatIQ4:
		return 1, 1
	case f == formatFP4:
		return power(94), 1
	case formats[f].second == withZero:
		return power(6 - bit), power(bit - 6)
	}
	return power(101 - bit), power(-32)
}

// split takes 64 inputs of a row of blocks, or as many as there are, apart: of outputs of a half.
func (p *recordPacker) split(r *packedRow, half, in int) {
	a, is := &p.affine, &formats[p.f]
	values, size := p.src.Type.BlockValues(), p.src.Type.BlockBytes()
	r.codes, r.scales, r.seconds = [recordIns]uint8{}, [4]uint16{}, [4]uint16{}
	perGroup := recordIns / is.groups
	for i := 0; i < recordIns && in+i < p.src.In; {
		at := (in + i) % values
		if at == 0 { // else the block of the 64 inputs before goes on
			a.Split(&r.parts, r.stored[(in+i)/values*size:][:size])
		}
		n := min(values-at, recordIns-i)
		copy(r.codes[i:i+n], r.parts.Codes[at:])
		for g := i / perGroup; g*perGroup < i+n; g++ {
			of := (at + g*perGroup - i) / a.Group
			scale := r.parts.Scale * float32(r.parts.Scales[of])
			if a.Levels != nil && p.f == formatFP4 {
				scale *= 2 // its levels are doubled
			}
			ofScale, ofSecond := p.f.stored(half)
			r.scales[g] = quant.F32ToBF16(scale * ofScale)
			switch {
			case is.second == withMin:
				r.seconds[g] = quant.F32ToBF16(-(r.parts.Min * float32(r.parts.Mins[of])) * ofSecond)
			case is.second == withZero:
				r.seconds[g] = quant.F32ToBF16(float32(-int(r.parts.Zero)) * ofSecond)
			}
		}
		i += n
	}
}

// putScales writes an output's scales, and what is with them, as entry n of the records' scales.
func (p *recordPacker) putScales(to []byte, r *packedRow, n int) {
	is, size := &formats[p.f], p.f.scaleBytes()
	to = to[n*size:][:size]
	for g := range is.groups {
		if is.second == onlyScale {
			binary.LittleEndian.PutUint16(to[2*g:], r.scales[g])
		} else {
			binary.LittleEndian.PutUint32(to[4*g:], uint32(r.scales[g])|uint32(r.seconds[g])<<16)
		}
	}
}

// putCodes writes the codes of outputs g and g+8 to a record, whose codes of 1 and 2 bits are zero.
func putCodes(to []byte, low, high *[recordIns]uint8, g, bits int) {
	for n := range 16 {
		k, lane := n/4, g*4+n%4
		i := k*16 + n%4*2
		pair := func(codes *[recordIns]uint8, i int) uint32 { return uint32(codes[i]) | uint32(codes[i+1])<<16 }
		pairs := [4]uint32{pair(low, i), pair(high, i), pair(low, i+8), pair(high, i+8)}
		at := 0 // of the next plane
		switch bits {
		case 8:
			binary.LittleEndian.PutUint32(to[k/2*512+lane*16+k%2*8:], pairs[0]|pairs[1]<<8)
			binary.LittleEndian.PutUint32(to[k/2*512+lane*16+k%2*8+4:], pairs[2]|pairs[3]<<8)
			continue
		case 4, 5, 6:
			word := uint32(0)
			for p, c := range pairs {
				word |= c & 0x000f000f << (4 * p)
				pairs[p] = c >> 4 & 0x000f000f
			}
			binary.LittleEndian.PutUint32(to[lane*16+k*4:], word)
			at = 512
		}
		if bits%4 >= 2 {
			word := to[at+lane*8+k/2*4:]
			both := binary.LittleEndian.Uint32(word)
			for p, c := range pairs {
				both |= c & 0x00030003 << (k%2*8 + 2*p)
				pairs[p] = c >> 2 & 0x00030003
			}
			binary.LittleEndian.PutUint32(word, both)
			at += 256
		}
		if bits%2 == 1 {
			word := to[at+lane*4:]
			all := binary.LittleEndian.Uint32(word)
			for p, c := range pairs {
				all |= c & 0x00010001 << (4*k + p)
			}
			binary.LittleEndian.PutUint32(word, all)
		}
	}
}

// storedSources are weights of every type that a kernel packs, and of some that the host decodes, in shapes that fill
// records and in shapes that do not.
func storedSources(t testing.TB) []compute.Source {
	var all []compute.Source
	r := rand.New(rand.NewPCG(7, 8))
	plain := []quant.Type{quant.F32, quant.F16, quant.BF16}
	for _, typ := range append(plain, packedTypes...) {
		for _, shape := range [][2]int{{16, 256}, {1, 512}, {37, 768}, {53, 1280}, {19, 32}, {40, 96}, {33, 128}, {21, 71}, {8, 3}} {
			if shape[1]%typ.BlockValues() == 0 {
				all = append(all, packedSource(t, r, typ, shape[0], shape[1]))
			}
		}
	}
	for _, group := range []int{0, 64, 100, 1280} { // of F8_E4M3
		src := packedSource(t, r, quant.F8_E4M3, 37, 1280)
		src.Scales, src.Group = nil, group
		if group > 0 {
			for i := range 37 * ((1280 + group - 1) / group) {
				src.Scales = append(src.Scales, float32(i%11+1)/300)
			}
		}
		src.Name = fmt.Sprintf("%s by %d", src.Name, group)
		all = append(all, src)
	}
	mixed := packedSource(t, r, quant.U4_32, 20, 96)
	mixed.Name = "U4_32 in another order"
	for i := range 96 {
		mixed.Order = append(mixed.Order, int32(i*35%96))
	}
	all = append(all, mixed, packedSource(t, r, quant.IQ4_NL, 5, 64))
	ordered := len(all)
	for i := range ordered { // with heads, too
		for size := 14; size > 2; size-- {
			if src := all[i]; src.Out%size == 0 {
				src.Name, src.Heads = src.Name+" by heads", compute.Heads{Size: size, Turned: size / 2 &^ 1}
				all = append(all, src)
				break
			}
		}
	}
	return all
}

// ownOrder returns a weight with its rows stored in its own order.
func ownOrder(src compute.Source) compute.Source {
	stored := src
	stored.Heads, stored.Data, stored.Scales = compute.Heads{}, nil, nil
	for n := range src.Out {
		at := src.Heads.Stored(n)
		stored.Data = append(stored.Data, src.Rows(at, 1).Data...)
		stored.Scales = append(stored.Scales, src.Rows(at, 1).Scales...)
	}
	return stored
}

// packed returns the records of a weight by packTiles.
func packed(t *testing.T, src *compute.Source) []byte {
	t.Helper()
	m := &matrix{out: src.Out, in: src.In, kind: src.Type, format: formatOf(src)}
	to, stored := make([]byte, m.Bytes()), ownOrder(*src)
	if err := packTiles(to, m, &stored); err != nil {
		t.Fatal(err)
	}
	return to
}

// sameRecords compares records of a weight.
func sameRecords(t *testing.T, src *compute.Source, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s [%d, %d]: %d bytes; want %d", src.Name, src.Out, src.In, len(got), len(want))
	}
	if bytes.Equal(got, want) {
		return
	}
	record := formatOf(src).recordBytes()
	for i, b := range want {
		if got[i] != b {
			t.Fatalf("%s [%d, %d]: byte %d of record %d is %#x; want %#x", src.Name, src.Out, src.In, i%record, i/record, got[i], b)
		}
	}
}

// forms returns a weight as it is, with its rows written one by one, and with runs of them.
func forms(src compute.Source) []compute.Source {
	rows, size := src, len(src.Data)/src.Out
	rows.Data, rows.Row = nil, func(dst []byte, n int) { copy(dst, src.Data[n*size:][:size]) }
	runs := rows
	runs.Run = func(dst []byte, from, n int) { copy(dst, src.Data[from*size:][:n*size]) }
	return []compute.Source{src, rows, runs}
}

// TestStoredRows checks that all forms of a weight are copied to the device as the same bytes, from any row on.
func TestStoredRows(t *testing.T) {
	for _, src := range storedSources(t) {
		for first := range min(src.Out, 3) {
			var want []byte
			for i, s := range append([]compute.Source{ownOrder(src)}, forms(src)...) {
				r, err := rowsOf(&s)
				if err != nil {
					t.Fatal(err)
				}
				got := make([]byte, (src.Out-first)*r.bytes)
				if err := r.read(got, first, src.Out-first); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					want = got
				} else if !bytes.Equal(got, want) {
					t.Errorf("%s: form %d differs from row %d on", src.Name, i, first)
				}
			}
		}
	}
}

// TestPackOnHost runs the kernels of pack.cu, compiled for the host, and compares bits.
func TestPackOnHost(t *testing.T) {
	compiler, err := exec.LookPath("c++")
	if err != nil {
		t.Skip("no C++ compiler here: ", err)
	}
	if _, err := os.Stat("kernels/pack.cu"); err != nil {
		t.Skip("the sources are not beside this test")
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, data []byte) {
		if err := os.WriteFile(file(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{
		"kernels/pack.cu": "pack.cu", "kernels/weights.cuh": "weights.cuh", "testdata/mma_host.h": "mma.cuh", "testdata/pack_host.cc": "main.cc",
	} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(to, data)
	}
	var names []byte
	for name := range paramSizes {
		if typ, ok := strings.CutPrefix(name, "pack_"); ok {
			names = fmt.Appendf(names, "NAMED(%s)\n", typ)
		}
	}
	write("names.h", names)
	if said, err := exec.Command(compiler, "-std=c++20", "-O1", "-w", "-ffp-contract=off", "-o", file("pack"), file("main.cc")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, src := range storedSources(t) {
		m := &matrix{out: src.Out, in: src.In, kind: src.Type, format: formatOf(&src)}
		r, err := rowsOf(&src)
		if err != nil {
			t.Fatal(err)
		}
		raw, scales := make([]byte, src.Out*r.bytes), []byte{}
		if err := r.read(raw, 0, src.Out); err != nil {
			t.Fatal(err)
		}
		for _, s := range r.scales {
			scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(s))
		}
		write("in", raw)
		write("scales", scales)
		records := m.tiles() * m.tilesIn() / 4
		args := []string{r.kernel()}
		for _, n := range []int{src.Out, src.In, r.bytes, src.Group, records, int(m.Bytes())} {
			args = append(args, strconv.Itoa(n))
		}
		args = append(args, file("in"), file("scales"), file("out"))
		if err := exec.Command(file("pack"), args...).Run(); err != nil {
			t.Fatalf("%s: %v", src.Name, err)
		}
		got, err := os.ReadFile(file("out"))
		if err != nil {
			t.Fatal(err)
		}
		sameRecords(t, &src, got, packed(t, &src))
	}
}

// TestPackOnDevice compares the records that the device makes of weights, in one piece and in several.
func TestPackOnDevice(t *testing.T) {
	d := gpuDevice(t)
	all := storedSources(t)
	r := rand.New(rand.NewPCG(9, 9))
	for typ, out := range map[quant.Type]int{quant.F32: 601, quant.BF16: 1201, quant.Q4_K: 4001, quant.F8_E4M3: 2401, quant.U8_128: 2401} {
		if !emulated {
			all = append(all, repeated(t, r, typ, out, 17920)) // 40 MB and more
		}
	}
	for _, src := range all {
		want := packed(t, &src)
		for _, s := range forms(src) {
			m := load(t, d, s).(*matrix)
			sameRecords(t, &src, readBack(t, d, m.at, int(m.Bytes())), want)
			if err := errors.Join(d.g.enter(), d.loading.wait(), d.drop(d.g, m.at)); err != nil {
				t.Fatal(err)
			}
			d.g.leave()
		}
	}
}

// readBack copies memory of the device.
func readBack(t *testing.T, d *device, at pointer, n int) []byte {
	t.Helper()
	if err := d.g.enter(); err != nil {
		t.Fatal(err)
	}
	defer d.g.leave()
	to, err := d.g.allocPinned(n, "a copy")
	if err == nil {
		err = errors.Join(d.loading.toHost(to, 0, at, n), d.loading.wait())
	}
	if err != nil {
		t.Fatal(err)
	}
	got := bytes.Clone(to.bytes()[:n])
	if err := d.g.freePinned(to); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestRefusedWeights checks what is said of weights that cannot be loaded.
func TestRefusedWeights(t *testing.T) {
	f := newFake(t)
	d, err := newDevice(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	for want, src := range map[string]compute.Source{
		"cuda: short is [2, 32] of Q4_0 in 35 bytes; want 36": {Name: "short", Type: quant.Q4_0, Out: 2, In: 32, Data: make([]byte, 35)},
		"cuda: none is [0, 32] of BF16 in 0 bytes; want 0":    {Name: "none", Type: quant.BF16, In: 32},
		"cuda: heads: 3 rows in heads of 2, of which the halves of 2 alternate; want whole heads and halves": {
			Name: "heads", Type: quant.BF16, Out: 3, In: 1, Data: make([]byte, 6), Heads: compute.Heads{Size: 2, Turned: 2}},
		"cuda: wide has rows of 1000000 values, 64.0 MB for 16 of them; want at most 33.6 MB": {
			Name: "wide", Type: quant.F32, Out: 1, In: 1e6, Row: func([]byte, int) {}},
	} {
		if _, err := d.Matrix(src); err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	f.leaks()
}
