//go:build emulate

package cuda

// emulated says that the device of tests is one: see fakecuda.
const emulated = true
