package cpu

import (
	"cmp"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

const (
	peakBuffer = 512 << 20 // bytes: of less, a last cache of 32 MB keeps a part that shows
	peakPiece  = 1 << 20
	peakStream = 4096
	peakPasses = 1 << 14
	readTime   = 250 * time.Millisecond // for the passes over the buffer, at least readPasses
	readPasses = 8
	loopTime   = 100 * time.Millisecond // for the tries of another peak
)

// meter is a compute.Meter of the threads and the instructions that a Device of the same options uses. It keeps the
// memory that it reads, 512 MB in huge pages.
type meter struct {
	d      *Device
	loops  kernel.Loops
	buffer []byte
}

func newMeter(o Options) (*meter, error) {
	d, err := New(o)
	if err != nil {
		return nil, err
	}
	m := &meter{d: d, loops: kernel.PeakLoops(d.k.Name), buffer: d.arena.apart(peakBuffer)}
	err = d.pool.run(peakBuffer/peakPiece, func(_, i int) {
		for at := i * peakPiece; at < (i+1)*peakPiece; at += peakStream {
			m.buffer[at] = 1 // untouched pages would all be the same one
		}
	})
	return m, err
}

// Peaks implements compute.Meter. Of several tries the best counts: what disturbs a try does not raise the limit.
// Memory is read in two orders, in turn: eight streams through each piece, and page after page. Which one is faster
// differs between machines.
func (m *meter) Peaks() (compute.Peaks, error) {
	var p compute.Peaks
	read := func(stream int) (float64, error) {
		return m.rate(peakBuffer/peakPiece, peakPiece, func(_, i int) {
			piece := m.buffer[i*peakPiece:][:peakPiece]
			for at := 0; at < peakPiece; at += stream {
				m.loops.Read(piece[at:][:stream])
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
		loop kernel.Loop
		to   *float64
	}{{m.loops.Floats, &p.Floats}, {m.loops.Pairs, &p.Pairs}, {m.loops.Dots, &p.Bytes}} {
		for begin := time.Now(); l.loop.Run != nil && time.Since(begin) < loopTime; {
			rate, err := m.rate(8*len(m.d.scratch), l.loop.Ops*peakPasses, func(_, _ int) { l.loop.Run(peakPasses) })
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
func (m *meter) rate(items, amount int, job func(worker, item int)) (float64, error) {
	start := time.Now()
	err := m.d.pool.run(items, job)
	return float64(items) * float64(amount) / time.Since(start).Seconds(), err
}

// Close implements compute.Meter.
func (m *meter) Close() error {
	m.buffer = nil
	return m.d.Close()
}
