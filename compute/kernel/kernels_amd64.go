//go:build amd64 && !noasm

package kernel

import "golang.org/x/sys/cpu"

// nativeKernels returns the assembly implementations that this processor can run, best first.
func nativeKernels() []*Table {
	var all []*Table
	x86 := &cpu.X86
	has256 := x86.HasAVX2 && x86.HasFMA && x86.HasF16C
	has512 := has256 && x86.HasAVX512F && x86.HasAVX512BW && x86.HasAVX512DQ && x86.HasAVX512VL
	if has512 && x86.HasAVX512VNNI && hasAMX() {
		all = append(all, &amx)
	}
	if has512 && x86.HasAVX512VNNI && x86.HasAVX512BF16 {
		all = append(all, &avx512bf16)
	}
	if has512 && x86.HasAVX512VNNI {
		all = append(all, &avx512vnni)
	}
	if has512 {
		all = append(all, &avx512)
	}
	if has256 && x86.HasAVXVNNI {
		all = append(all, &avxvnni)
	}
	if has256 {
		all = append(all, &avx2)
	}
	return all
}
