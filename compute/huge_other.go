//go:build !linux

package compute

// AdviseHuge does nothing: this system is not known to give huge pages on advice.
func AdviseHuge([]byte) {}
