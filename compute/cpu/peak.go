package cpu

import "time"

// Peaks are the limits of a machine, per second: what loops reach that do one thing and nothing else. Kernels are measured
// against them.
type Peaks struct {
	Read   float64 // bytes read from memory
	Floats float64 // float32 operations; a multiply-add is two
	Bytes  float64 // operations on bytes, of the dot products that quantised weights need; a multiply-add is two
}

// arithmetic is a loop on registers alone.
type arithmetic struct {
	run func(passes int)
	ops int // of one pass
}

const (
	peakBuffer = 256 << 20 // bytes, more than caches hold
	peakPiece  = 4 << 20
	peakPasses = 1 << 16
	peakTime   = 300 * time.Millisecond // for the tries of one peak
)

// MeasurePeaks measures the peaks of the threads and of the instructions that a Device of the same options would use. It
// takes about a second. Of several tries the best counts: what disturbs a try does not raise the limit.
func MeasurePeaks(o Options) (Peaks, error) {
	d, err := New(o)
	if err != nil {
		return Peaks{}, err
	}
	defer d.Close()
	buffer := aligned(peakBuffer)
	for i := 0; i < len(buffer); i += 4096 {
		buffer[i] = 1 // untouched pages would all be the same one
	}
	read, floats, dots := peakLoops(d.k.name)
	var p Peaks
	if p.Read, err = d.peak(peakBuffer/peakPiece, peakPiece, func(_, i int) { read(buffer[i*peakPiece:][:peakPiece]) }); err != nil {
		return p, err
	}
	items := 8 * len(d.scratch)
	if p.Floats, err = d.peak(items, floats.ops*peakPasses, func(_, _ int) { floats.run(peakPasses) }); err != nil {
		return p, err
	}
	p.Bytes, err = d.peak(items, dots.ops*peakPasses, func(_, _ int) { dots.run(peakPasses) })
	return p, err
}

// peak returns the greatest rate at which the threads did a job of amount a piece, per second.
func (d *Device) peak(items, amount int, job func(worker, item int)) (float64, error) {
	best := 0.0
	for begin := time.Now(); time.Since(begin) < peakTime; {
		start := time.Now()
		if err := d.pool.run(items, job); err != nil {
			return 0, err
		}
		best = max(best, float64(items)*float64(amount)/time.Since(start).Seconds())
	}
	return best, nil
}

// plainRead, plainFloats and plainDots are the loops in Go alone.
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
