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

// willNeed asks the system to read part of a mapping ahead. It is advice: whether it is taken changes only speed.
func willNeed(m *mapping, from, to int) {
	if m.unmap == nil {
		return
	}
	from -= from % os.Getpagesize()
	_ = unix.Madvise(m.data[from:to], unix.MADV_WILLNEED)
}
