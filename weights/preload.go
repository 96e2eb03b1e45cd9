package weights

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// preloadChunk is the number of bytes that Preload asks for at a time.
const preloadChunk = 8 << 20

// touchStride is the smallest page of any system, in bytes: reading one byte in each stride reads every page.
const touchStride = 4096

// Preload brings all bytes of the files into memory, several pieces at once, so that the first use of a tensor does
// not wait for the disk. It calls progress, which may be nil, from the caller's goroutine with the bytes done so far
// and in total: once before the first byte, after each piece, and with done equal to total at the end.
func (c *Checkpoint) Preload(progress func(done, total int64)) {
	if progress == nil {
		progress = func(done, total int64) {}
	}
	type piece struct {
		part     *part
		from, to int
	}
	var pieces []piece
	for i := range c.parts {
		p := &c.parts[i]
		for from := 0; from < len(p.data); from += preloadChunk {
			pieces = append(pieces, piece{p, from, min(from+preloadChunk, len(p.data))})
		}
	}
	var next atomic.Int64
	workers := min(len(pieces), max(4, runtime.GOMAXPROCS(0)), 16)
	finished := make(chan int, workers)
	for range workers {
		go func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(pieces) {
					return
				}
				p := pieces[i]
				willNeed(&p.part.mapping, p.from, p.to)
				touch(p.part.data[p.from:p.to])
				finished <- p.to - p.from
			}
		}()
	}
	done, total := int64(0), c.Size()
	progress(done, total)
	for range pieces {
		done += int64(<-finished)
		progress(done, total)
	}
}

// Release tells that data, all or part of a tensor's, will not be read soon, so that its pages need not stay in memory.
// Reading it again is slow and gives the same bytes.
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

// touched keeps the reads of touch from being optimised away.
var touched atomic.Uint32

func touch(b []byte) {
	var sum byte
	for i := 0; i < len(b); i += touchStride {
		sum ^= b[i]
	}
	touched.Store(uint32(sum))
}
