package weights

import "unsafe"

// Release tells the system that data, all or part of a tensor's, will not be read soon, so that its pages need not stay
// in memory. Reading it again is slow and gives the same bytes.
func (c *Checkpoint) Release(data []byte) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	for i := range c.parts {
		p := &c.parts[i].mapping
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(p.data)))
		if at >= begin && at-begin+uintptr(len(data)) <= uintptr(len(p.data)) {
			notNeeded(p, int(at-begin), int(at-begin)+len(data))
			return
		}
	}
}
