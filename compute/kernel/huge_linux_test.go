//go:build (amd64 || arm64) && !noasm

package kernel

import "golang.org/x/sys/unix"

func init() {
	adviseHuge = func(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) } // without it, reading misses more translations
}
