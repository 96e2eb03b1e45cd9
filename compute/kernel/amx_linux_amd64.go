//go:build amd64 && !noasm

package kernel

import (
	"sync"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// hasAMX reports whether this process may use AMX on bytes and bfloat16. Linux has to be asked: tiles make the state
// that it saves for a thread 8 KB larger.
var hasAMX = sync.OnceValue(func() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXInt8 || !cpu.X86.HasAMXBF16 {
		return false
	}
	_, _, errno := unix.Syscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
})
