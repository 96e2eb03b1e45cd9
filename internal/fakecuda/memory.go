package fakecuda

// memory is a device's real memory. An allocation begins 256 bytes into a page, as aligned as a driver promises, and
// has pages of its own, with a free one behind it. Addresses are never given out again.
type memory struct {
	pages []*allocation // of pageBytes each, from firstPage on
}

type allocation struct {
	at   uint64
	data []byte
}

const pageBytes, firstPage, aligned = 1 << 16, 1 << 40, 256

// alloc takes n bytes, which are set to what no kernel may rely on: as numbers, they are NaN.
func (m *memory) alloc(n int64) (uint64, []byte) {
	a := &allocation{at: firstPage + pageBytes*uint64(len(m.pages)) + aligned, data: make([]byte, n)}
	fill(a.data, 0xff)
	for range (n + aligned + pageBytes - 1) / pageBytes {
		m.pages = append(m.pages, a)
	}
	m.pages = append(m.pages, nil)
	return a.at, a.data
}

func (m *memory) free(at uint64) {
	first := (at - firstPage) / pageBytes
	a := m.pages[first]
	for i := first; m.pages[i] == a; i++ {
		m.pages[i] = nil
	}
}

// Find implements ptx.Memory. Kernels call it, while nothing is allocated or freed.
func (m *memory) Find(address uint64) (base uint64, data []byte) {
	page := (address - firstPage) / pageBytes
	if page >= uint64(len(m.pages)) {
		return 0, nil
	}
	a := m.pages[page]
	if a == nil || address-a.at >= uint64(len(a.data)) {
		return 0, nil
	}
	return a.at, a.data
}

// fill sets bytes to a value.
func fill(data []byte, value byte) {
	if value == 0 {
		clear(data)
		return
	}
	for n := copy(data, []byte{value}); n > 0 && n < len(data); n *= 2 {
		copy(data[n:], data[:n])
	}
}

// alloc gives out memory of the device.
func (d *Driver) alloc(to *uintptr, n int64) int32 {
	if n > d.Free {
		return outOfMemory
	}
	d.Free -= n
	if !d.computes {
		*to = d.add(object{kind: "memory"}, n)
		return success
	}
	address, data := d.memory.alloc(n)
	d.put(uintptr(address), object{kind: "memory", data: data}, n)
	*to = uintptr(address)
	return success
}

// onDevice checks n bytes of one allocation of the device's memory.
func (d *Driver) onDevice(address uintptr, n int64) int32 {
	if d.holds(address, n, "memory") == nil {
		return d.wrong("%d bytes at %#x are not of one allocation on the device", n, address)
	}
	return success
}

// onHost checks n bytes of pinned memory.
func (d *Driver) onHost(address uintptr, n int64) int32 {
	if d.holds(address, n, "pinned") == nil && d.holds(address, n, "registered") == nil {
		return d.wrong("%d bytes at %#x are no pinned memory", n, address)
	}
	return success
}

// holds returns the object of a kind that has n bytes at an address.
func (d *Driver) holds(address uintptr, n int64, kind string) *object {
	for base, o := range d.live {
		if o.kind == kind && address >= base && int64(address-base)+n <= o.size {
			return o
		}
	}
	return nil
}

// bytesAt returns n bytes of pinned memory or of the device's, nil if they are gone.
func (d *Driver) bytesAt(address uintptr, n int64, host bool) []byte {
	kinds := []string{"memory"}
	if host {
		kinds = []string{"pinned", "registered"}
	}
	for _, kind := range kinds {
		if o := d.holds(address, n, kind); o != nil {
			return o.data[address-o.at:][:n]
		}
	}
	return nil
}
