// Products of affine types with AMX. A job is 16 rows times the 16 outputs of a panel over one span of 256 inputs. Each number of
// either side, a row's V = T·q and a weight's W = S·(level - offset), has 16 bits and stands as two digits: 256·high + low, where high is signed
// and low is not. A tile product takes 16 rows times 64 inputs of one digit of each; four times four of them add up to three sums,
// which are stored and joined by AVX-512: sum = HH·2¹⁶ + M·2⁸ + LL in int32, of which M holds both products of unlike digits. It ends as
// in the other kernels: acc = fma(sum, d·D, acc) and, for types with an m, acc = fma(-least, d·M, acc).
//
// A step is two jobs: the same rows times a pair of panels. The products of a job take 256 cycles, and everything else is
// put between them, as the processor does it beside them if it comes little by little: the sums of the job before are
// stored, those of the step before are scaled, and levels of the next pair of panels are unpacked.
//
//	           products     stores       scales
//	job 0      tiles 0-2    tiles 3-5    panel 0 of the step before
//	job 1      tiles 3-5    tiles 0-2    panel 1 of the step before
//
//	rows    records of 16 rows and a span (rowTileBytes):
//	            0 [4][2][16][64]         low digits, uint8, and high ones, int8, of 64 inputs of 16 rows; 0 where the row has ended
//	         8192 [16] float32           d
//	         8256 [16][8] int16          T·Σq of each row's 8 groups of 32
//	         8512 [16][16] int16         T·Σq of each row's 16 groups of 16
//	levels  [3][2] of a panel and a span (LEVELS_BYTES): pairs of panels being multiplied, unpacked and, as to D and m, scaled
//	            0 [4] of 64 inputs (CHUNK_BYTES):
//	                  0 [2][16][16][4]   low digits, uint8, and high ones, int8, of 16 outputs; a line has 4 inputs of each output
//	               2048 [2][16][2] int16 m of each output for two groups; the second line is of use if groups have 16 inputs
//	         8704 D, 8768 M              [16] float32
//	sums    [2][3][16][16] int32         LL, M and HH of either job, at BX
//	acc     [pairs][tiles of rows][2][16][16] float32
//
// Registers: SI rows of the step; DI its levels; BX work; CX 64. Of the step that is being scaled: DX rows; R13 acc as it was; R14, R8 where
// it goes and the distance of rows there; Z30 D, Z31 M, Z3-Z7 and Z13-Z15 m. To unpack: R15 codes; R12 scales; R9 to where; R11 blocks
// left of the span; R10 from codes to those that are fetched meanwhile. Tiles 6 levels, 7 rows.

#define ROW_TILE_BYTES 9024
#define CHUNK_BYTES 2176
#define SUPERS 8704
#define LEVELS_BYTES 8832
#define SUMS 0
#define ZEROS 6144
#define NOWHERE 8192
#define LEVELS 10240
#define ACC 63232

#define TILE_ROWS(o) LONG $0x4b7be2c4; WORD $0x0ebc; LONG $(o)   // TILELOADD o(SI)(CX*1), tmm7
#define TILE_LEVELS(o) LONG $0x4b7be2c4; WORD $0x0fb4; LONG $(o) // TILELOADD o(DI)(CX*1), tmm6
#define TILE_STORE(from, o) LONG $0x4b7ae2c4; BYTE $(0x84+8*(from)); BYTE $0x0b; LONG $(o) // TILESTORED from, o(BX)(CX*1)
#define LOW_LOW(to) LONG $0x5e48e2c4; BYTE $(0xc7+8*(to))   // TDPBUUD tmm6, tmm7, to
#define HIGH_LOW(to) LONG $0x5e4ae2c4; BYTE $(0xc7+8*(to))  // TDPBSUD: high digits of rows
#define HIGH_HIGH(to) LONG $0x5e4be2c4; BYTE $(0xc7+8*(to)) // TDPBSSD
#define LOW_HIGH(to) LONG $0x5e49e2c4; BYTE $(0xc7+8*(to))  // TDPBUSD

// JOB multiplies in tiles t to t+2 with the panel whose levels are at DI + levels, and scales the sums at BX + sums. UNPACK(i) may
// unpack the next levels. The tiles from, stored at BX + to, are those of the job before.
#define JOB(t, levels, sums, from, to, UNPACK0, UNPACK1, UNPACK2, UNPACK3) \
	TILE_ZERO(t); TILE_ZERO(t+1); TILE_ZERO(t+2); \
	UNPACK0; \
	SCALE_BEGIN(levels); \
	PRODUCTS(0, t, levels, sums, TILE_STORE(from, to)); \
	UNPACK1; \
	PRODUCTS(1, t, levels, sums, TILE_STORE(from+1, to+1024)); \
	UNPACK2; \
	PRODUCTS(2, t, levels, sums, TILE_STORE(from+2, to+2048)); \
	UNPACK3; \
	PRODUCTS(3, t, levels, sums, NOTHING)
#define PRODUCTS(k, t, levels, sums, STORE) \
	TILE_LEVELS(levels+CHUNK_BYTES*k); TILE_ROWS(2048*k); LOW_LOW(t); \
	SCALE(4*k, sums); \
	TILE_ROWS(2048*k+1024); HIGH_LOW(t+1); \
	STORE; \
	SCALE(4*k+1, sums); \
	TILE_LEVELS(levels+CHUNK_BYTES*k+1024); HIGH_HIGH(t+2); \
	SCALE(4*k+2, sums); \
	TILE_ROWS(2048*k); LOW_HIGH(t+1); \
	SCALE(4*k+3, sums)
#define NOTHING

// UNPACK unpacks 64 inputs, in as many of the eight places of a step as it takes.
#define UNPACK(place, skip) \
	MOVQ p+0(FP), AX; \
	BTQ  $place, tileProduct_places(AX); \
	JCC  skip; \
	CALL chunk<>(SB); \
skip:

// SCALE scales row i; LESS takes least off.
#define SCALE_BEGIN(levels) \
	MOVQ    p+0(FP), AX; \
	MOVQ    tileProduct_scaled(AX), AX; \
	VMOVUPS (levels+SUPERS)(AX), Z30; \
	MINS(levels)
#define SCALE(i, sums) \
	VPSLLD      $8, ((sums)+2048+64*(i))(BX), Z0; \
	VPADDD      (sums+1024+64*(i))(BX), Z0, Z0; \
	VPSLLD      $8, Z0, Z0; \
	VPADDD      (sums+64*(i))(BX), Z0, Z0; \
	VCVTDQ2PS   Z0, Z0; \
	VMULPS.BCST (8192+4*(i))(DX), Z30, Z1; \
	VFMADD213PS (64*(i))(R13), Z1, Z0; \
	LESS(i); \
	VMOVUPS     Z0, (R14); \
	ADDQ        R8, R14
#define SCALE_SECOND \
	MOVQ p+0(FP), AX; \
	ADDQ $1024, R13; \
	ADDQ tileProduct_toSecond(AX), R14
#define SCALE4(i, sums) SCALE(i, sums); SCALE(i+1, sums); SCALE(i+2, sums); SCALE(i+3, sums)
#define SCALE16(sums) SCALE4(0, sums); SCALE4(4, sums); SCALE4(8, sums); SCALE4(12, sums)

// MINS and LESS of types without an m, with one for groups of 32, and with one for groups of 16.
#define NO_MINS(levels)
#define NO_LESS(i)
#define MINS32(levels) \
	VMOVUPS   (levels+SUPERS+64)(AX), Z31; \
	VMOVDQU64 (levels+0*CHUNK_BYTES+2048)(AX), Z4; \
	VMOVDQU64 (levels+1*CHUNK_BYTES+2048)(AX), Z5; \
	VMOVDQU64 (levels+2*CHUNK_BYTES+2048)(AX), Z6; \
	VMOVDQU64 (levels+3*CHUNK_BYTES+2048)(AX), Z7
#define LESS32(i) \
	VPXORQ        Z2, Z2, Z2; \
	VPDPWSSD.BCST (8256+16*(i))(DX), Z4, Z2; \
	VPDPWSSD.BCST (8260+16*(i))(DX), Z5, Z2; \
	VPDPWSSD.BCST (8264+16*(i))(DX), Z6, Z2; \
	VPDPWSSD.BCST (8268+16*(i))(DX), Z7, Z2; \
	LESS_END(i)
#define MINS16(levels) \
	MINS32(levels); \
	VMOVDQU64 (levels+0*CHUNK_BYTES+2112)(AX), Z3; \
	VMOVDQU64 (levels+1*CHUNK_BYTES+2112)(AX), Z13; \
	VMOVDQU64 (levels+2*CHUNK_BYTES+2112)(AX), Z14; \
	VMOVDQU64 (levels+3*CHUNK_BYTES+2112)(AX), Z15
#define LESS16(i) \
	VPXORQ        Z2, Z2, Z2; \
	VPDPWSSD.BCST (8512+32*(i))(DX), Z4, Z2; \
	VPDPWSSD.BCST (8516+32*(i))(DX), Z3, Z2; \
	VPDPWSSD.BCST (8520+32*(i))(DX), Z5, Z2; \
	VPDPWSSD.BCST (8524+32*(i))(DX), Z13, Z2; \
	VPDPWSSD.BCST (8528+32*(i))(DX), Z6, Z2; \
	VPDPWSSD.BCST (8532+32*(i))(DX), Z14, Z2; \
	VPDPWSSD.BCST (8536+32*(i))(DX), Z7, Z2; \
	VPDPWSSD.BCST (8540+32*(i))(DX), Z15, Z2; \
	LESS_END(i)
#define LESS_END(i) \
	VCVTDQ2PS    Z2, Z2; \
	VMULPS.BCST  (8192+4*(i))(DX), Z31, Z1; \
	VFNMADD231PS Z2, Z1, Z0
