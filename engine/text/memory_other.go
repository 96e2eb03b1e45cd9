//go:build !linux

package text

// freeMemory returns the bytes that the process may take; this system is not asked, so it is a modest guess.
func freeMemory() int64 { return 4 << 30 }
