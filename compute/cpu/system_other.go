//go:build !linux

package cpu

// canPopulate says no: this system is not known to give memory on advice.
func canPopulate() bool { return false }

func populate([]byte) error { return nil }

// allowed says nothing: this system has no call for it.
func allowed() []int { return nil }

// bindThread does nothing: this system has no call to bind a thread to processors.
func bindThread(...int) {}

// placeMemory does nothing: this system has no call for it.
func placeMemory([]byte, []int) {}
