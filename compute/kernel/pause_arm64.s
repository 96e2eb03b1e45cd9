//go:build !noasm

#include "textflag.h"

// func Pause()
//
// It empties the pipeline: YIELD does nothing on processors of one thread for each core, which are most.
TEXT ·Pause(SB), NOSPLIT, $0-0
	ISB $15
	RET

// func Fetch(p *byte, n int)
//
// It loads from every line: the processor may drop prefetches.
TEXT ·Fetch(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1

line:
	MOVD.P 64(R0), R2
	SUBS $64, R1
	BGT  line
	RET
