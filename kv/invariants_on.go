//go:build invariants

package kv

// invariants says that memory whose lifetime is over is mangled, so that whoever still reads it notices.
const invariants = true
