// Products of affine types with AMX. A job is 32 rows, or 16, times the 16 outputs of a panel over one span of 256 inputs. Each
// weight times its S, a number of 16 bits, stands as two digits: P = 256·high + low, where high is signed and low is not. A
// tile product (TDPBSSD, TDPBSUD) takes 16 rows times 64 inputs of either digit; four of each add up to the span's two sums,
// which are stored and joined by AVX-512: sum = 256·H + L in int32. It ends as in the other kernels: acc = fma(sum, d·D, acc)
// and, for types with an m, acc = fma(-least, d·M, acc). The scaling of a job runs beside the tile products of the next one.
//
//	rows    records of 16 rows and a span (rowTileBytes):
//	            0 [4][16][64] int8       q, 64 inputs of 16 rows in a tile; 0 where the row has ended
//	         4096 [16][16][2] bfloat16   Σq of each row's 16 groups of 16, as its last 7 bits and what is above them
//	         5120 [16] float32           d
//	         5184 [16][8] int16          Σq of each row's 8 groups of 32
//	levels  of a panel and a span, twice (LEVELS_BYTES):
//	            0 [4][2][16][16][4]      for each 64 inputs the high digits, int8, and the low ones, uint8, of 16 outputs; a line
//	                                     has 4 inputs of each output
//	         8192 [16][8 lines]          the first of 8 lines: m of 16 outputs for 16 inputs, twice, as bfloat16; or, in
//	                                     every fourth of the 16, m of two groups of 32 as int16
//	         8256 D, 8320 M              [16] float32
//	sums    [6][16][16]                  H of the two tiles of rows, L, and least in float32: SUMS, at BX
//	acc     [jobs][32][16] float32       ACC: pairs of panels, in each the pairs of tiles, in each the panels
//
// Where m fits 8 bits, least is a tile product too (TDPBF16PS), of numbers of 8 bits whose sums stay below 2²⁴: exact.
//
// Registers: SI rows of the job; DI levels; BX work; CX 64. Of the job that is being scaled: DX rows; R13 acc as it was; R14, R8 where it
// goes and the distance of rows there; Z30 D, Z31 M, Z26-Z29 m. To unpack: R15 codes; R12 scales; R9 to where in levels; R11 blocks
// left of the span; R10 from codes to those that are fetched meanwhile. To fetch: R10 from where, R12 lines at a time. Tiles 0-3 sums, 4-5 rows, 6-7 levels.

#define ROW_TILE_BYTES 5440
#define LEVELS_BYTES 16448
#define SUMS 0
#define ZEROS 6144
#define NOWHERE 8192
#define LEVELS 10240
#define ACC 45056

#define TILE_ROWS(to, o) LONG $0x4b7be2c4; BYTE $(0x84+8*to); BYTE $0x0e; LONG $(o)   // TILELOADD o(SI)(CX*1), to
#define TILE_LEVELS(to, o) LONG $0x4b7be2c4; BYTE $(0x84+8*to); BYTE $0x0f; LONG $(o) // TILELOADD o(DI)(CX*1), to
#define TILE_MINS(to, o) LONG $0x4b7be2c4; BYTE $(0x84+8*to); BYTE $0x07; LONG $(o)   // TILELOADD o(DI)(AX*1), to
#define TILE_STORE(from, o) LONG $0x4b7ae2c4; BYTE $(0x84+8*from); BYTE $0x0b; LONG $(o) // TILESTORED from, o(BX)(CX*1)
#define HIGH46(to) LONG $0x5e4be2c4; BYTE $(0xc4+8*to) // TDPBSSD tmm6, tmm4, to
#define HIGH56(to) LONG $0x5e4be2c4; BYTE $(0xc5+8*to)
#define LOW47(to) LONG $0x5e42e2c4; BYTE $(0xc4+8*to)  // TDPBSUD tmm7, tmm4, to
#define LOW57(to) LONG $0x5e42e2c4; BYTE $(0xc5+8*to)
#define MIN46(to) LONG $0x5c4ae2c4; BYTE $(0xc4+8*to)  // TDPBF16PS tmm6, tmm4, to
#define MIN56(to) LONG $0x5c4ae2c4; BYTE $(0xc5+8*to)

// SCALE scales row i, whose d and Σq are at d(DX) and q(DX); LESS takes least off.
#define SCALE(i, d, q) \
	VPSLLD      $8, (SUMS+64*(i))(BX), Z0; \
	VPADDD      (SUMS+2048+64*(i))(BX), Z0, Z0; \
	VCVTDQ2PS   Z0, Z0; \
	VMULPS.BCST (d)(DX), Z30, Z1; \
	VFMADD213PS (64*(i))(R13), Z1, Z0; \
	LESS(i, d, q); \
	VMOVUPS     Z0, (R14); \
	ADDQ        R8, R14
#define SCALE_FIRST(i) SCALE(i, 5120+4*(i), 5184+16*(i))
#define SCALE_LAST(i) SCALE(i, ROW_TILE_BYTES+5056+4*(i), ROW_TILE_BYTES+4928+16*(i))
#define FOUR_FIRST(i) SCALE_FIRST(i); SCALE_FIRST(i+1); SCALE_FIRST(i+2); SCALE_FIRST(i+3)
#define FOUR_LAST(i) SCALE_LAST(i); SCALE_LAST(i+1); SCALE_LAST(i+2); SCALE_LAST(i+3)
#define NONE(i)
#define LESS_NOTHING(i, d, q)
#define LESS_FLOAT(i, d, q) \
	VMULPS.BCST  (d)(DX), Z31, Z1; \
	VFNMADD231PS (SUMS+4096+64*(i))(BX), Z1, Z0
#define LESS_WHOLE(i, d, q) \
	VPXORQ        Z2, Z2, Z2; \
	VPDPWSSD.BCST (q+0)(DX), Z26, Z2; \
	VPDPWSSD.BCST (q+4)(DX), Z27, Z2; \
	VPDPWSSD.BCST (q+8)(DX), Z28, Z2; \
	VPDPWSSD.BCST (q+12)(DX), Z29, Z2; \
	VCVTDQ2PS     Z2, Z2; \
	VMULPS.BCST   (d)(DX), Z31, Z1; \
	VFNMADD231PS  Z2, Z1, Z0

// PAIR and SINGLE are jobs of two tiles of rows and of one. BEFORE(k) gets 64 inputs of levels ready. The sums of the job before
// have just been stored: they are scaled in the second half.
#define PAIR(BEFORE) \
	TILE_ZERO(0); TILE_ZERO(1); TILE_ZERO(2); TILE_ZERO(3); \
	BEFORE(0); \
	BEFORE(1); \
	PAIR_STEP(0, NONE, 0, 0, 0, 0); \
	BEFORE(2); \
	PAIR_STEP(1, NONE, 0, 0, 0, 0); \
	BEFORE(3); \
	PAIR_STEP(2, FOUR_FIRST, 0, 4, 8, 12); \
	PAIR_STEP(3, FOUR_LAST, 16, 20, 24, 28); \
	TILE_STORE(0, SUMS); \
	TILE_STORE(1, SUMS+1024); \
	PAIR_MINS; \
	TILE_STORE(2, SUMS+2048); \
	TILE_STORE(3, SUMS+3072)
#define PAIR_STEP(k, ROWS, a, b, c, d) \
	TILE_ROWS(4, 1024*k); TILE_LEVELS(6, 2048*k); HIGH46(0); \
	ROWS(a); \
	TILE_ROWS(5, ROW_TILE_BYTES+1024*k); HIGH56(1); \
	ROWS(b); \
	TILE_LEVELS(7, 2048*k+1024); LOW47(2); \
	ROWS(c); \
	LOW57(3); \
	ROWS(d)
#define SINGLE(BEFORE) \
	TILE_ZERO(0); TILE_ZERO(2); \
	BEFORE(0); \
	BEFORE(1); \
	SINGLE_STEP(0, NONE, 0, 0); \
	BEFORE(2); \
	SINGLE_STEP(1, NONE, 0, 0); \
	BEFORE(3); \
	SINGLE_STEP(2, FOUR_FIRST, 0, 4); \
	SINGLE_STEP(3, FOUR_FIRST, 8, 12); \
	TILE_STORE(0, SUMS); \
	SINGLE_MINS; \
	TILE_STORE(2, SUMS+2048)
#define SINGLE_STEP(k, ROWS, a, b) \
	TILE_ROWS(4, 1024*k); TILE_LEVELS(6, 2048*k); HIGH46(0); \
	ROWS(a); \
	TILE_LEVELS(7, 2048*k+1024); LOW47(2); \
	ROWS(b)

// The tile products of least, in tiles whose sums have been stored.
#define SINGLE_LEAST \
	MOVQ $512, AX; \
	TILE_ZERO(0); \
	TILE_MINS(6, 8192); TILE_ROWS(4, 4096); MIN46(0); \
	TILE_STORE(0, SUMS+4096)
#define PAIR_LEAST \
	MOVQ $512, AX; \
	TILE_ZERO(0); TILE_ZERO(1); \
	TILE_MINS(6, 8192); TILE_ROWS(4, 4096); MIN46(0); \
	TILE_ROWS(5, ROW_TILE_BYTES+4096); MIN56(1); \
	TILE_STORE(0, SUMS+4096); \
	TILE_STORE(1, SUMS+5120)

#define UNPACK(k) LEAQ (2048*k)(DI), R9; MOVQ unpack-16(SP), AX; CALL AX
#define READY(k) CALL fetch<>(SB)

// SUPERS reads D and M at R9; KEEP_MINS takes what LESS needs besides.
#define PLAIN_SUPERS \
	VCVTPH2PS (R9), Z0; \
	CMPQ      tileProduct_superBytes(AX), $32; \
	JEQ       halves; \
	VMOVUPS   (R9), Z0; \
halves: \
	VMOVUPS   Z0, 8256(DI)
#define HALF_SUPERS \
	VCVTPH2PS (R9), Z0; \
	VCVTPH2PS 32(R9), Z1; \
	VMOVUPS   Z0, 8256(DI); \
	VMOVUPS   Z1, 8320(DI)
#define FLOAT_SUPERS \
	VMOVUPS (R9), Z0; \
	VMOVUPS 64(R9), Z1; \
	VMOVUPS Z0, 8256(DI); \
	VMOVUPS Z1, 8320(DI)
#define KEEP_WHOLE \
	VMOVDQU64 8192(DI), Z26; \
	VMOVDQU64 10240(DI), Z27; \
	VMOVDQU64 12288(DI), Z28; \
	VMOVDQU64 14336(DI), Z29
#define NOTHING

