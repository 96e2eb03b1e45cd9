//go:build amd64 && !noasm

// Tiles of pairs of bfloat16 weights with AMX. TDPBF16PS multiplies 16 rows with one block, 16 pairs, of a panel as MatPairs does,
// and adds it to their sums: its second operand is a block of a panel as it stands.
//
//	x     rows of bfloat16, ldx bytes apart
//	w     panels, stride bytes apart, of 1024 bytes for each block: [16 pairs][16 outputs][2]
//	from  rows of float32, ldf bytes apart, that the products are added to, or nil; the 16 outputs of panel p are at byte 64p of
//	      a row
//	to    rows of float32 likewise, ldt bytes apart, for the sums
//
// Registers: SI, DI rows 0 and 16 of x, DX ldx; BX, AX, R12, R13 panels, CX 64; R8, R10 rows 0 and 16 of sums, R9 their distance;
// R11 blocks left. Tiles 0-3 sums, 4-5 x, 6-7 weights.

#include "textflag.h"
#include "amx_amd64.h"

#define LOAD_SI(to) LONG $0x4b7be2c4; BYTE $(0x44+8*to); BYTE $0x16; BYTE $0 // TILELOADD (SI)(DX*1), to
#define LOAD_DI(to) LONG $0x4b7be2c4; BYTE $(0x44+8*to); BYTE $0x17; BYTE $0
#define LOAD_BX(to) LONG $0x4b7be2c4; BYTE $(0x44+8*to); BYTE $0x0b; BYTE $0 // TILELOADD (BX)(CX*1), to
#define LOAD_AX(to) LONG $0x4b7be2c4; BYTE $(0x44+8*to); BYTE $0x08; BYTE $0
#define LOAD_R12(to) LONG $0x4b7bc2c4; BYTE $(0x44+8*to); BYTE $0x0c; BYTE $0
#define LOAD_R13(to) LONG $0x4b7bc2c4; BYTE $(0x44+8*to); BYTE $0x0d; BYTE $0
#define LOAD_R8(o, to) LONG $0x4b7b82c4; BYTE $(0x84+8*to); BYTE $0x08; LONG $(o) // TILELOADD o(R8)(R9*1), to
#define LOAD_R10(o, to) LONG $0x4b7b82c4; BYTE $(0x84+8*to); BYTE $0x0a; LONG $(o)
#define STORE_R8(from, o) LONG $0x4b7a82c4; BYTE $(0x84+8*from); BYTE $0x08; LONG $(o)
#define STORE_R10(from, o) LONG $0x4b7a82c4; BYTE $(0x84+8*from); BYTE $0x0a; LONG $(o)
#define DOT6(x, to) LONG $0x5c4ae2c4; BYTE $(0xc0+8*to+x) // TDPBF16PS tmm6, x, to
#define DOT7(x, to) LONG $0x5c42e2c4; BYTE $(0xc0+8*to+x)

#define PREFETCHW_R8 LONG $0x080d0f41; LONG $0x480d0f41; BYTE $0x40 // PREFETCHW (R8); PREFETCHW 64(R8)

// SUMS makes R8, R9 and R10 those of some rows.
#define SUMS(p, ld) MOVQ p, R8; MOVQ ld, R9; MOVQ R9, R10; SHLQ $4, R10; ADDQ R8, R10

// FETCH16 fetches a block of a panel, the fourth from here, to the second cache.
#define FETCH4(o, p) \
	PREFETCHT1 o(p); \
	PREFETCHT1 o+64(p); \
	PREFETCHT1 o+128(p); \
	PREFETCHT1 o+192(p)
#define FETCH16(p) \
	FETCH4(4096, p); \
	FETCH4(4352, p); \
	FETCH4(4608, p); \
	FETCH4(4864, p)

// func pairs22AMX(t pairsAMX)
//
// Groups of 32 rows times 2 panels. Beside each block it fetches so many lines of both panels from next on to the second cache, or,
// if next is nil, of these panels, and fetch rows of the next group's sums, to be written.
TEXT ·pairs22AMX(SB), NOSPLIT, $0-112
	MOVQ t_config+80(FP), AX
	TILE_CONFIG
	MOVQ t_ldx+40(FP), DX
	MOVQ t_next+88(FP), R12
	MOVQ t_stride+56(FP), R13
	MOVQ t_count+64(FP), R14
	MOVQ $64, CX

group22:
	MOVQ t_x+32(FP), SI
	MOVQ DX, DI
	SHLQ $4, DI
	ADDQ SI, DI
	MOVQ t_w+48(FP), BX
	LEAQ (BX)(R13*1), AX
	MOVQ t_blocks+72(FP), R11
	SUMS(t_from+16(FP), t_ldf+24(FP))
	TESTQ R8, R8
	JEQ  zero22
	LOAD_R8(0, 0)
	LOAD_R8(64, 1)
	LOAD_R10(0, 2)
	LOAD_R10(64, 3)
	SHLQ $5, R9
	ADDQ R9, t_from+16(FP)
	JMP  first22

zero22:
	TILE_ZERO(0)
	TILE_ZERO(1)
	TILE_ZERO(2)
	TILE_ZERO(3)

	// R8 and R9 are the next group's rows of sums and their distance.
first22:
	MOVQ t_to+0(FP), R8
	MOVQ t_ldt+8(FP), R9
	MOVQ R9, R10
	SHLQ $5, R10
	ADDQ R10, R8

block22:
	LOAD_BX(6)
	LOAD_SI(4)
	DOT6(4, 0)
	LOAD_DI(5)
	DOT6(5, 2)
	LOAD_AX(7)
	DOT7(4, 1)
	DOT7(5, 3)
	TESTQ R12, R12
	JEQ  ahead22
	MOVQ t_lines+96(FP), R10

fetch22:
	PREFETCHT1 (R12)
	PREFETCHT1 (R12)(R13*1)
	ADDQ $64, R12
	DECQ R10
	JNZ  fetch22

next22:
	MOVQ  t_fetch+104(FP), R10
	TESTQ R10, R10
	JEQ   step22

write22:
	PREFETCHW_R8
	ADDQ R9, R8
	DECQ R10
	JNZ  write22

step22:
	ADDQ $64, SI
	ADDQ $64, DI
	ADDQ $1024, BX
	ADDQ $1024, AX
	DECQ R11
	JNZ  block22
	SUMS(t_to+0(FP), t_ldt+8(FP))
	STORE_R8(0, 0)
	STORE_R8(1, 64)
	STORE_R10(2, 0)
	STORE_R10(3, 64)
	SHLQ $5, R9
	ADDQ R9, t_to+0(FP)
	MOVQ DX, DI
	SHLQ $5, DI
	ADDQ DI, t_x+32(FP)
	DECQ R14
	JNZ  group22
	TILE_RELEASE
	RET

ahead22:
	FETCH16(BX)
	FETCH16(AX)
	JMP next22


// func pairs14AMX(t pairsAMX)
//
// Up to 16 rows times 4 panels at a time, or 1.
TEXT ·pairs14AMX(SB), NOSPLIT, $0-112
	MOVQ t_config+80(FP), AX
	TILE_CONFIG
	MOVQ t_ldx+40(FP), DX
	MOVQ $64, CX

next14:
	MOVQ t_x+32(FP), SI
	MOVQ t_w+48(FP), BX
	MOVQ t_blocks+72(FP), R11
	MOVQ t_from+16(FP), R8
	MOVQ t_ldf+24(FP), R9
	SUBQ $4, t_count+64(FP)
	JLT  single
	MOVQ t_stride+56(FP), R10
	LEAQ (BX)(R10*1), AX
	LEAQ (BX)(R10*2), R12
	LEAQ (AX)(R10*2), R13
	SHLQ $2, R10
	ADDQ R10, t_w+48(FP)
	TESTQ R8, R8
	JEQ  zero14
	LOAD_R8(0, 0)
	LOAD_R8(64, 1)
	LOAD_R8(128, 2)
	LOAD_R8(192, 3)
	ADDQ $256, t_from+16(FP)
	JMP  block14

zero14:
	TILE_ZERO(0)
	TILE_ZERO(1)
	TILE_ZERO(2)
	TILE_ZERO(3)

block14:
	LOAD_SI(4)
	LOAD_BX(6)
	DOT6(4, 0)
	LOAD_AX(7)
	DOT7(4, 1)
	LOAD_R12(6)
	DOT6(4, 2)
	LOAD_R13(7)
	DOT7(4, 3)
	FETCH16(BX)
	FETCH16(AX)
	FETCH16(R12)
	FETCH16(R13)
	ADDQ $64, SI
	ADDQ $1024, BX
	ADDQ $1024, AX
	ADDQ $1024, R12
	ADDQ $1024, R13
	DECQ R11
	JNZ  block14
	MOVQ t_to+0(FP), R8
	MOVQ t_ldt+8(FP), R9
	STORE_R8(0, 0)
	STORE_R8(1, 64)
	STORE_R8(2, 128)
	STORE_R8(3, 192)
	ADDQ $256, t_to+0(FP)
	JMP  next14

single:
	ADDQ $4, t_count+64(FP)
	JZ   done14

next11:
	TILE_ZERO(0)
	TESTQ R8, R8
	JEQ  block11
	LOAD_R8(0, 0)
	ADDQ $64, t_from+16(FP)

block11:
	LOAD_SI(4)
	LOAD_BX(6)
	DOT6(4, 0)
	FETCH16(BX)
	ADDQ $64, SI
	ADDQ $1024, BX
	DECQ R11
	JNZ  block11
	MOVQ t_to+0(FP), R8
	MOVQ t_ldt+8(FP), R9
	STORE_R8(0, 0)
	ADDQ $64, t_to+0(FP)
	MOVQ t_stride+56(FP), R10
	ADDQ R10, t_w+48(FP)
	MOVQ t_x+32(FP), SI
	MOVQ t_w+48(FP), BX
	MOVQ t_blocks+72(FP), R11
	MOVQ t_from+16(FP), R8
	MOVQ t_ldf+24(FP), R9
	DECQ t_count+64(FP)
	JNZ  next11

done14:
	TILE_RELEASE
	RET
