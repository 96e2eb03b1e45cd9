// Package ptx runs kernels on the processor, from the PTX that NVRTC makes of them. It exists for tests on machines
// without a GPU: it computes what the kernels say, and refuses what a GPU may only corrupt silently, such as accesses
// out of bounds and barriers that diverge. It is strict: an instruction that it does not know is an error with its
// name and line.
//
// [Parse] makes a [Module], whose entries run on any [Memory]. Inside, a warp executes one instruction for its 32
// lanes at a time: see warp and instr. The package knows nothing of drivers, streams or devices.
package ptx
