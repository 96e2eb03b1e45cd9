//go:build !invariants

package sched

const invariants = false
