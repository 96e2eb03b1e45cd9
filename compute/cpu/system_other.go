//go:build !linux

package cpu

// pinThread does nothing: this system has no call to bind a thread to a processor.
func pinThread(int) {}

// adviseHuge does nothing: this system is not known to give huge pages on advice.
func adviseHuge([]byte) {}
