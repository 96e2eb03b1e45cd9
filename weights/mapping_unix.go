//go:build unix

package weights

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the first size bytes of f for reading.
func mapFile(f *os.File, size int) ([]byte, func([]byte) error, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return data, unix.Munmap, nil
}

// notNeeded tells the system that whole pages of part of a mapping will not be read soon: they no longer count as this
// process's memory, and are read from the file again on demand.
func notNeeded(m *mapping, from, to int) {
	page := os.Getpagesize()
	from, to = (from+page-1)/page*page, to/page*page
	if m.unmap == nil || from >= to {
		return
	}
	_ = unix.Madvise(m.data[from:to], unix.MADV_DONTNEED)
}

// soonNeeded tells the system to read part of a mapping, which begins at a page, into memory.
func soonNeeded(data []byte) { _ = unix.Madvise(data, unix.MADV_WILLNEED) }
