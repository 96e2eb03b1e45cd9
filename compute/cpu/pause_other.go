//go:build !amd64 || noasm

package cpu

// pause marks a spin loop; this build has no instruction for it.
func pause() {}

// fetch asks for n bytes to be brought into a cache; this build has no instruction for it.
func fetch(p *byte, n int) {}
