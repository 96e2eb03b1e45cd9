//go:build amd64 && !noasm

package cpu

// pause tells the processor that this is a spin loop: it frees the core's resources for a few dozen cycles.
func pause()

// fetch asks for n bytes to be brought into the second cache. It does not wait for them.
//
//go:noescape
func fetch(p *byte, n int)
