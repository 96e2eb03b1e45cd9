//go:build amd64 && !noasm && !linux

package kernel

// hasAMX reports whether this process may use AMX: not known of this system.
func hasAMX() bool { return false }
