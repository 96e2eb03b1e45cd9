//go:build amd64 && !noasm

package cpu

// pause tells the processor that this is a spin loop: it frees the core's resources for a few dozen cycles.
func pause()

// fetch brings n bytes into the caches.
//
//go:noescape
func fetch(p *byte, n int)
