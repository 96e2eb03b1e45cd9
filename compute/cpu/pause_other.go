//go:build (!amd64 && !arm64) || noasm

package cpu

// pause marks a spin loop; this build has no instruction for it.
func pause() {}

// fetch brings bytes into the caches; not in this build.
func fetch(p *byte, n int) {}
