package main

import "fmt"

// scales writes scalesVNNI, which brings the scales of a span of four panels to one form in the frame at R10: R9
// pairs of groups, at SI, and the super-block scales after them. It moves SI to their end. AX is the layout.
func (g *vnni) scales() {
	g.comment("scalesVNNI brings the scales of a span of four panels to one form in the frame at R10: R9 pairs of groups, at SI, and\n" +
		"the super-block scales after them. It moves SI to their end. AX is the layout.")
	g.text("scalesVNNI<>", "NOSPLIT|NOFRAME", 0, 0)
	g.op("MOVQ R10, DI", "MOVQ R10, R11")
	g.op("CMPQ AX, $const_uint8s", "JEQ uint8s", "CMPQ AX, $const_int8s", "JEQ int8s")
	g.op("CMPQ AX, $const_byteMins", "JEQ byteMins", "CMPQ AX, $const_zeroPoints", "JEQ zeroPoints")
	g.op("MOVL $0xffff0000, BX", "KMOVD BX, K1") // the second group
	g.op("MOVL $15, BX", "VPBROADCASTW BX, Z2", "CMPQ AX, $const_int12Mins", "JEQ int12Mins")

	words := func(o int) []string { // S in Z0
		return list(fmt.Sprintf("VMOVDQU Y0, %d(DI)", o/2), fmt.Sprintf("VEXTRACTI64X4 $1, Z0, %d(DI)", 128+o/2))
	}
	int8s := func(p string, o int) []string { return append(list("VPMOVSXBW "+at(0, p)+", Z0"), words(o)...) }
	int12s := func(p string, o int) []string {
		return append(list("VPMOVSXBW "+at(0, p)+", Z0", "VPSLLW $4, Z0, Z0", "VBROADCASTI128 "+at(32, p)+", Y1",
			"VPMOVZXBW Y1, Z1", "VPSRLW $4, Z1, K1, Z1", "VPTERNLOGQ $0xf8, Z2, Z1, Z0"), words(o)...)
	}
	mins := func(o int) string { return fmt.Sprintf("VMOVDQU64 Z0, %d(R11)", minBytes+o) }
	float := func(p string, o int) []string {
		return list("VMOVUPS "+at(0, p)+", Z0", fmt.Sprintf("VMOVUPS Z0, %d(R10)", dBytes+o))
	}
	panels := func(f func(p string, o int) []string) {
		for p := range 4 {
			g.op(f(panel("SI", p), 64*p)...)
		}
	}
	// loop takes pairs of groups of some bytes.
	loop := func(name string, f func(p string, o int) []string, bytes int, hasMins bool) {
		g.end()
		g.label(name)
		panels(f)
		if bytes > 0 {
			g.f("ADDQ $%d, SI", bytes)
		}
		g.op("ADDQ $256, DI")
		if hasMins {
			g.op("ADDQ $256, R11")
		}
		g.op("DECQ R9", "JNZ "+name)
	}
	loop("int12s", int12s, 48, false)
	g.op("JMP float")
	loop("int8s", int8s, 32, false)
	g.op("JMP float")
	loop("uint8s", func(p string, o int) []string { return append(list("VPMOVZXBW "+at(0, p)+", Z0"), words(o)...) },
		32, false)
	g.end()
	g.label("float")
	panels(float)
	g.op("RET")
	loop("int12Mins", func(p string, o int) []string {
		return append(int12s(p, o), "VMOVDQU64 "+at(48, p)+", Z0",
			mins(o))
	}, 112, true)
	panels(func(p string, o int) []string {
		return append(float(p, o), "VMOVUPS "+at(64, p)+", Z0", fmt.Sprintf("VMOVUPS Z0, %d(R10)", leastBytes+o))
	})
	g.op("RET")
	loop("byteMins", func(p string, o int) []string {
		return append(int8s(p, o), "VPMOVZXBW "+at(32, p)+", Z0",
			mins(o))
	}, 64, true)
	panels(func(p string, o int) []string {
		return list("VCVTPH2PS "+at(0, p)+", Z0", fmt.Sprintf("VMOVUPS Z0, %d(R10)", dBytes+o),
			"VCVTPH2PS "+at(32, p)+", Z0", fmt.Sprintf("VMOVUPS Z0, %d(R10)", leastBytes+o))
	})
	g.op("RET")
	g.end()
	g.label("zeroPoints")
	g.op("MOVL $1, AX", "VPBROADCASTW AX, Z2")
	loop("zeroPair", func(p string, o int) []string {
		return append(append(list("VMOVDQA64 Z2, Z0"), words(o)...), "VPMOVZXBD "+at(64, p)+", Z0",
			"VPSLLD $16, Z0, Z1", "VPORQ Z0, Z1, Z0", mins(o))
	}, 0, true)
	panels(float)
	g.op("ADDQ $80, SI", "RET")
	g.end()
}

// times writes timesVNNI.
func (g *vnni) times() {
	g.comment("timesVNNI writes the multiples of S of R9 pairs of groups to the frame at R10.")
	g.text("timesVNNI<>", "NOSPLIT|NOFRAME", 0, 0)
	g.op("MOVQ R10, DI", "SHLQ $2, R9")
	g.end()
	g.label("times")
	g.op("VMOVDQA64 (DI), Z0")
	for n, of := range [][2]int{{0, 0}, {0, 1}, {1, 1}, {0, 3}, {2, 2}, {2, 3}, {3, 3}} {
		g.op(fmt.Sprintf("VPADDW Z%d, Z%d, Z%d", of[0], of[1], n+1),
			fmt.Sprintf("VMOVDQA64 Z%d, %d(DI)", n+1, (n+1)*timesBytes))
	}
	g.op("ADDQ $64, DI", "DECQ R9", "JNZ times", "RET")
	g.end()
}
