// Package cuda is the Device that computes on an NVIDIA GPU. It opens CUDA's driver library at run time. Its kernels,
// in CUDA C under kernels/, are compiled ahead, to machine code for Hopper and to PTX for other GPUs, and are part of
// the binary. It needs the driver and nothing else: no toolkit, no cgo. It knows nothing of models. Read device first,
// then kernels/weights.cuh; docs/gpu.md has a map.
//
// The build tag nocuda leaves the driver library out, which gives a static binary; other systems than Linux on
// amd64 and arm64 have no driver library to open. Open then says why there is no GPU.
package cuda
