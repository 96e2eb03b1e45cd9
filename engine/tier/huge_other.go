//go:build !linux

package tier

// adviseHuge does nothing: this system is not known to give huge pages on advice.
func adviseHuge([]byte) {}
