//go:build !linux && !darwin && !windows

package store

import "math"

// space returns how many bytes are free where a folder is, which is not known here.
func space(string) (int64, error) { return math.MaxInt64 / 2, nil }
