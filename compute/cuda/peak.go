package cuda

import (
	"errors"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
)

// meter is a compute.Meter of a GPU. It has a context of its own, and memory that it reads, more than caches hold.
type meter struct {
	g       *gpu
	s       *stream
	kernels kernels
	buffer  pointer
	bytes   int64
}

const (
	peakBytes   = 1 << 30 // that are read; at most a quarter of what is free
	peakThreads = 256
	peakTime    = 100 * time.Millisecond // for the tries of one peak
)

// peakBuild is what a meter runs.
var peakBuild = Build{Source: "peak.cu", Arch: "sm_80"}

// openMeter opens a meter of a device, as open does a device.
func openMeter(which string, _ compute.Options) (compute.Meter, error) {
	lib, n, err := driverOf(which)
	if err != nil {
		return nil, err
	}
	return newMeter(lib, n)
}

func newMeter(lib library, ordinal int) (*meter, error) {
	g, err := openGPU(lib, ordinal)
	if err != nil {
		return nil, err
	}
	m := &meter{g: g, kernels: kernels{byName: map[string]*function{}}}
	if err := g.enter(); err != nil {
		return nil, err
	}
	defer g.leave()
	if err := m.make(); err != nil {
		return nil, errors.Join(err, m.free())
	}
	return m, nil
}

func (m *meter) make() (err error) {
	if m.s, err = m.g.newStream(); err != nil {
		return err
	}
	if err = m.g.loadKernels(&m.kernels, []Build{peakBuild}); err != nil {
		return err
	}
	free, _, err := m.g.memory()
	if err != nil {
		return err
	}
	m.bytes = max(64<<20, min(peakBytes, free/4)>>20<<20)
	if m.buffer, err = m.g.alloc(m.bytes, "memory to read"); err != nil {
		return err
	}
	return errors.Join(m.s.fill(m.buffer, 0x5a, m.bytes), m.s.wait())
}

// Peaks implements compute.Meter. Products on the device are products of bfloat16 in tensor cores, whatever is stored
// and however attention is counted: so that is the peak of all operations. Of several tries the best counts.
func (m *meter) Peaks() (p compute.Peaks, err error) {
	if err := m.g.enter(); err != nil {
		return p, err
	}
	defer m.g.leave()
	// Blocks of a read: a whole number of rounds over the memory, for each of which a thread reads 4 times 16 bytes.
	readers := grid{uint32(m.bytes >> 20 * 16), 1, 1}
	if p.Read, err = m.best("peak_read", readers, 32, float64(m.bytes), peakArgs{at: m.buffer, n: m.bytes / 16}); err != nil {
		return p, err
	}
	const rounds = 1 << 14
	product := float64(8 * 16 * 8 * 16 * 2 * peakThreads / 32)
	if m.g.info.major == hopper {
		product = 4 * 64 * 128 * 16 * 2 * peakThreads / 128
	}
	multipliers := grid{uint32(2 * m.g.info.sms), 1, 1}
	p.Pairs, err = m.best("peak_multiply", multipliers, 1, float64(multipliers.x)*rounds*product, peakArgs{rounds: rounds})
	p.Floats, p.Bytes = p.Pairs, p.Pairs
	if m.g.info.major == hopper { // whose tensor cores do twice as much of F8_E4M3, and whose kernels use that
		p.Float8 = 2 * p.Pairs
	}
	return p, err
}

// best returns how much of something a second n launches of a kernel reach, of which each does so much.
func (m *meter) best(kernel string, blocks grid, n int, each float64, a peakArgs) (rate float64, err error) {
	a.to = m.buffer
	for start := time.Now(); err == nil && time.Since(start) < peakTime; {
		begin := time.Now()
		for range n {
			err = errors.Join(err, launch(m.s, m.kernels.byName[kernel], blocks, peakThreads, &a))
		}
		err = errors.Join(err, m.s.wait())
		rate = max(rate, float64(n)*each/time.Since(begin).Seconds())
	}
	return rate, err
}

func (m *meter) free() error {
	err := errors.Join(m.g.free(m.buffer), m.kernels.close(m.g))
	if m.s != nil {
		err = errors.Join(err, m.s.close())
	}
	return errors.Join(err, m.g.close())
}

// Close implements compute.Meter.
func (m *meter) Close() error {
	if err := m.g.enter(); err != nil {
		return err
	}
	defer m.g.leave()
	return m.free()
}
