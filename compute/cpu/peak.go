package cpu

import (
	"cmp"
	"time"
)

// Peaks are the limits of a machine, per second: what loops reach that do one thing and nothing else. Kernels are measured
// against them.
type Peaks struct {
	Read   float64 // bytes read from memory
	Floats float64 // float32 operations; a multiply-add is two
	Pairs  float64 // operations on pairs of bfloat16: those of float32, unless there is an instruction for them that kernels use
	Bytes  float64 // operations on bytes, of the dot products that quantised weights need; a multiply-add is two
}

// Max returns the greater of each peak.
func (p Peaks) Max(o Peaks) Peaks {
	return Peaks{max(p.Read, o.Read), max(p.Floats, o.Floats), max(p.Pairs, o.Pairs), max(p.Bytes, o.Bytes)}
}

// peaks are the loops of an implementation.
type peaks struct {
	read                func([]byte)
	floats, pairs, dots arithmetic // no pairs are as many as floats
}

// arithmetic is a loop on registers alone.
type arithmetic struct {
	run func(passes int)
	ops int // of one pass
}

const (
	peakBuffer = 512 << 20 // bytes: of less, a last cache of 32 MB keeps a part that shows
	peakPiece  = 1 << 20
	peakStream = 4096
	peakPasses = 1 << 14
	readTime   = 250 * time.Millisecond // for the passes over the buffer, at least readPasses
	readPasses = 8
	loopTime   = 100 * time.Millisecond // for the tries of another peak
)

// Meter measures the peaks of the threads and of the instructions that a Device of the same options uses. It keeps the memory
// that it reads, 512 MB in huge pages.
type Meter struct {
	d      *Device
	loops  peaks
	buffer []byte
}

// NewMeter starts a meter.
func NewMeter(o Options) (*Meter, error) {
	d, err := New(o)
	if err != nil {
		return nil, err
	}
	m := &Meter{d: d, loops: peakLoops(d.k.name), buffer: d.arena.apart(peakBuffer)}
	err = d.pool.run(peakBuffer/peakPiece, func(_, i int) {
		for at := i * peakPiece; at < (i+1)*peakPiece; at += peakStream {
			m.buffer[at] = 1 // untouched pages would all be the same one
		}
	})
	return m, err
}

// Peaks measures for about half a second. Of several tries the best counts: what disturbs a try does not raise the limit.
// Memory is read in two orders, in turn: eight streams through each piece, and page after page. Which one is faster differs
// between machines.
func (m *Meter) Peaks() (Peaks, error) {
	var p Peaks
	read := func(stream int) (float64, error) {
		return m.rate(peakBuffer/peakPiece, peakPiece, func(_, i int) {
			piece := m.buffer[i*peakPiece:][:peakPiece]
			for at := 0; at < peakPiece; at += stream {
				m.loops.read(piece[at:][:stream])
			}
		})
	}
	for begin, n := time.Now(), 0; n < readPasses || time.Since(begin) < readTime; n++ {
		rate, err := read([2]int{peakPiece, peakStream}[n%2])
		if err != nil {
			return p, err
		}
		p.Read = max(p.Read, rate)
	}
	for _, l := range []struct {
		loop arithmetic
		to   *float64
	}{{m.loops.floats, &p.Floats}, {m.loops.pairs, &p.Pairs}, {m.loops.dots, &p.Bytes}} {
		for begin := time.Now(); l.loop.run != nil && time.Since(begin) < loopTime; {
			rate, err := m.rate(8*len(m.d.scratch), l.loop.ops*peakPasses, func(_, _ int) { l.loop.run(peakPasses) })
			if err != nil {
				return p, err
			}
			*l.to = max(*l.to, rate)
		}
	}
	p.Pairs = cmp.Or(p.Pairs, p.Floats)
	return p, nil
}

// rate returns at what rate the threads do a job of amount a piece, per second.
func (m *Meter) rate(items, amount int, job func(worker, item int)) (float64, error) {
	start := time.Now()
	err := m.d.pool.run(items, job)
	return float64(items) * float64(amount) / time.Since(start).Seconds(), err
}

// Close ends the meter.
func (m *Meter) Close() error {
	m.buffer = nil
	return m.d.Close()
}

// plainPeaks are loops in Go alone.
var plainPeaks = peaks{read: plainRead, floats: arithmetic{plainFloats, 4 * 2}, dots: arithmetic{plainDots, 4 * 2}}

func plainRead(b []byte) {
	words := view[uint64](b)
	var s [4]uint64
	for len(words) >= 4 {
		s[0], s[1], s[2], s[3] = s[0]^words[0], s[1]^words[1], s[2]^words[2], s[3]^words[3]
		words = words[4:]
	}
	keep(s[0] ^ s[1] ^ s[2] ^ s[3])
}

func plainFloats(passes int) {
	var a, b, c, d float32
	x, y := float32(0.5), float32(passes)
	for range passes {
		a, b, c, d = a*x+y, b*x+y, c*x+y, d*x+y
	}
	keep(uint64(a + b + c + d))
}

func plainDots(passes int) {
	var a, b, c, d int32
	x, y := int32(int8(passes)), int32(uint8(passes>>8))
	for range passes {
		a, b, c, d = a+x*y, b+(x+1)*y, c+x*(y+1), d+(x+1)*(y+1)
		x++
	}
	keep(uint64(a + b + c + d))
}

// keep makes a result one that the compiler must compute.
//
//go:noinline
func keep(uint64) {}
