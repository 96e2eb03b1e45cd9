package kernel

import "unsafe"

// View reads bytes as numbers of T. The bytes are aligned to 64.
func View[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// AlignedTo returns n zero bytes that begin at a multiple of size, a power of two.
func AlignedTo(n, size int) []byte {
	b := make([]byte, n+size-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(size-1))
	return b[skip:][:n:n]
}

// Grown returns s with at least n elements. It allocates only when s was never that large.
func Grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/2)
	}
	return s[:n]
}
