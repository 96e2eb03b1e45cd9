//go:build (!amd64 && !arm64) || noasm

package kernel

// Pause marks a spin loop; this build has no instruction for it.
func Pause() {}

// Fetch brings bytes into the caches; not in this build.
func Fetch(p *byte, n int) {}
