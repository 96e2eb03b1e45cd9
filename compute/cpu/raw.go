package cpu

import (
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/guard"
)

// raw is a weight that is not packed yet: its blocks stay where its checkpoint is mapped. A server starts sooner for
// it, since most of the time of packing goes to the memory that packed weights take. The first product packs the panels
// that it reads to scratch memory, so that its bits are those of any other; the second has the weight packed first,
// since packing costs about as much as that. Whatever is not read twice soon is packed while no step runs.
type raw struct {
	src     compute.Source
	release func()
	read    bool   // by a product
	into    []byte // the panels; nil before the first
	panels  int    // that are packed
}

const (
	idleTime  = 250 * time.Millisecond // after the last weight is loaded until weights are packed between steps
	idleBytes = 16 << 20               // of weights packed while a step may wait
	touchPart = 1 << 20                // bytes that a thread reads from a disk at once
	leastPage = 4096                   // bytes of a page of memory
)

// unpacked is how many bytes the weights of all devices that are not packed will take.
var unpacked atomic.Int64

// keep has m packed later. It reads its blocks from the disk.
func (d *Device) keep(m *matrix, src compute.Source, release func()) error {
	m.raw = &raw{src: src, release: release}
	unpacked.Add(m.Bytes())
	d.raw = append(d.raw, m)
	if d.idle == nil {
		d.idle = guard.After(d.idleTime, d.packRest, d.pool.fail)
	} else {
		d.idle.Reset(d.idleTime)
	}
	return d.pool.run((len(src.Data)+touchPart-1)/touchPart, func(worker, i int) {
		part, sum := src.Data[i*touchPart:min((i+1)*touchPart, len(src.Data))], byte(0)
		for at := 0; at < len(part); at += leastPage {
			sum += part[at]
		}
		d.scratch[worker].touched = sum
	})
}

// read notes that a product reads m, and packs it if one did before. It reports whether m stays raw.
func (d *Device) read(m *matrix) bool {
	if m.raw != nil && m.raw.read {
		if err := d.packMore(m, m.panels); err != nil && d.err == nil {
			d.err = err
		}
	}
	if m.raw != nil {
		m.raw.read = true
	}
	return m.raw != nil
}

// packMore packs some more panels of a raw weight, up to n. With the last one it is raw no more.
func (d *Device) packMore(m *matrix, n int) error {
	r := m.raw
	if r.into == nil {
		r.into = d.arena.take(m.panels * m.stride)
	}
	n = min(n, m.panels-r.panels)
	err := d.pool.run(n, func(worker, i int) {
		p := r.panels + i
		d.pack(worker, r.into[p*m.stride:][:m.stride], m, &r.src, p)
	})
	if err != nil {
		return err
	}
	unpacked.Add(-int64(n * m.stride))
	if r.panels += n; r.panels == m.panels {
		m.data, m.raw = r.into, nil
		r.release()
	}
	return nil
}

// packed returns n panels of m: those of a raw one in scratch memory of a worker.
func (d *Device) packed(worker int, m *matrix, from, n int) []byte {
	if m.raw == nil {
		return m.data[from*m.stride:][:n*m.stride]
	}
	s := &d.scratch[worker]
	if cap(s.panels) < n*m.stride {
		s.panels = aligned(max(n, fewPanels) * m.stride)
	}
	to := s.panels[:n*m.stride]
	clear(to)
	for p := range n {
		d.pack(worker, to[p*m.stride:][:m.stride], m, &m.raw.src, from+p)
	}
	return to
}

// packRest packs what is raw, between steps.
func (d *Device) packRest() error {
	for {
		if more, err := d.packNext(); err != nil || !more {
			return err
		}
	}
}

// packNext packs a part of a raw weight, and reports whether there was one.
func (d *Device) packNext() (more bool, err error) {
	d.busy.Lock()
	defer d.busy.Unlock()
	for len(d.raw) > 0 && d.raw[0].raw == nil {
		d.raw = d.raw[1:]
	}
	if len(d.raw) == 0 {
		d.raw = nil
		return false, nil
	}
	m := d.raw[0]
	return true, d.packMore(m, max(1, idleBytes/m.stride))
}

// letGo releases what is still raw.
func (d *Device) letGo() {
	d.busy.Lock()
	defer d.busy.Unlock()
	if d.idle != nil {
		d.idle.Stop()
	}
	for _, m := range d.raw {
		if r := m.raw; r != nil {
			unpacked.Add(-int64((m.panels - r.panels) * m.stride))
			r.release()
		}
	}
	d.raw = nil
}
