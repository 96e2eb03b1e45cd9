//go:build amd64 && !noasm

#include "textflag.h"

// func Pause()
TEXT ·Pause(SB), NOSPLIT, $0-0
	PAUSE
	RET

// func Fetch(p *byte, n int)
//
// It loads from every line: the processor drops prefetches when it has too many to do.
TEXT ·Fetch(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX

line:
	MOVQ (SI), AX
	ADDQ $64, SI
	SUBQ $64, CX
	JGT  line
	RET
