//go:build !unix

package kernel

import "testing"

// newFence has no memory of its own here: place makes a slice of exact length, which Go's own checks guard.
func newFence(testing.TB, int) *fence { return &fence{} }

func place[T any](_ *fence, src []T) []T { return append([]T(nil), src...) }
