//go:build !noasm

package cpu

// pause takes some dozens of cycles of a spin loop.
func pause()

// fetch brings n bytes into the caches.
//
//go:noescape
func fetch(p *byte, n int)
