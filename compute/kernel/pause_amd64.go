//go:build amd64 && !noasm

package kernel

// Pause tells the processor that this is a spin loop: it frees the core's resources for a few dozen cycles.
func Pause()

// Fetch brings n bytes into the caches.
//
//go:noescape
func Fetch(p *byte, n int)
