//go:build !invariants

package kv

const invariants = false
