//go:build amd64 && !noasm

package kernel

import "golang.org/x/sys/cpu"

// wantKernels returns the names of the implementations that this processor can run, best first.
func wantKernels() []string {
	x := &cpu.X86
	var names []string
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
		if x.HasAVX512VNNI && hasAMX() {
			names = append(names, "amx")
		}
		if x.HasAVX512VNNI && x.HasAVX512BF16 {
			names = append(names, "avx512bf16")
		}
		if x.HasAVX512VNNI {
			names = append(names, "avx512vnni")
		}
		names = append(names, "avx512")
	}
	if x.HasAVX2 && x.HasFMA && x.HasF16C {
		if x.HasAVXVNNI {
			names = append(names, "avxvnni")
		}
		names = append(names, "avx2")
	}
	return names
}
