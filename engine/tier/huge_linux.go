package tier

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages for memory that has not been written yet.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
