//go:build !noasm

package kernel

// Pause takes some dozens of cycles of a spin loop.
func Pause()

// Fetch brings n bytes into the caches.
//
//go:noescape
func Fetch(p *byte, n int)
