//go:build invariants

package sched

// invariants says that plans are mangled once they are committed, and that each call verifies all books.
const invariants = true
