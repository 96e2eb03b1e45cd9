//go:build amd64 && !noasm

#include "textflag.h"

// func pause()
TEXT ·pause(SB), NOSPLIT, $0-0
	PAUSE
	RET

// func fetch(p *byte, n int)
//
// It loads from every line: the processor drops prefetches when it has too many to do.
TEXT ·fetch(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX

line:
	MOVQ (SI), AX
	ADDQ $64, SI
	SUBQ $64, CX
	JGT  line
	RET
