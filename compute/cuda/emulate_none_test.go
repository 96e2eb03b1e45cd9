//go:build !emulate

package cuda

const emulated = false
