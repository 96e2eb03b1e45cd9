// Products of affine types with AMX. A job is 16 rows times the 16 outputs of a panel over one span of 256 inputs. Each number of
// either side, a row's V = T·q and a weight's W = S·(level - offset), has 16 bits and stands as two digits: 256·high + low, where high is signed
// and low is not. A tile product takes 16 rows times 64 inputs of one digit of each; four times four of them add up to three sums,
// which are stored and joined by AVX-512: sum = HH·2¹⁶ + M·2⁸ + LL in int32, of which M holds both products of unlike digits. It ends as
// in the other kernels: acc = fma(sum, d·D, acc) and, for types with an m, acc = fma(-least, d·M, acc).
//
// A step is two jobs: the same rows times a pair of panels. The products of a job take 256 cycles, and everything else is
// put between them, as the processor does it beside them if it comes little by little and finds its data in the first cache: the
// sums of the job before are stored, those of the step before are scaled and, in a pair's last step, the next pair's levels take the
// places of those that have just been multiplied.
//
//	           LL, M, HH          stores             scales
//	job 0      tiles 0, 1, 2      tiles 3, 4, 2      panel 0 of the step before
//	job 1      tiles 3, 4, 2      tiles 0, 1, 2      panel 1 of the step before
//
//	rows    records of 16 rows and a span (rowTileBytes):
//	            0 [4][2][16][64]         low digits, uint8, and high ones, int8, of 64 inputs of 16 rows; 0 where the row has ended
//	         8192 [16] float32           d
//	         8256 [16][8] int16          T·Σq of each row's 8 groups of 32
//	         8512 [16][16] int16         T·Σq of each row's 16 groups of 16
//	levels  [2][4][2][16][16][4]         of a pair of panels: low digits, uint8, and high ones, int8, of 64 inputs of 16 outputs; a line has 4
//	                                     inputs of each output
//	supers  [3] of a pair (SUPERS_BYTES): of those being multiplied, unpacked and scaled
//	            0 [2][4][2][16][2] int16 m of each output for two groups; every second line is of use if groups have 16 inputs
//	         1024 [2] D, M               [16] float32
//	sums    [2][3][16][16] int32         LL, M and HH of either job, at BX
//	acc     [pairs][tiles of rows][2][16][16] float32
//
// Registers: SI rows of the step; BX work; CX 64. Of the step that is being scaled: DX rows; R13 acc as it was; R14, R8 where
// it goes and the distance of rows there; Z30 D, Z31 M, Z3-Z7 and Z13-Z15 m. To unpack: R15 codes; R12 scales; R9 to where in levels, DI in
// supers; R11 blocks left of the span; R10 from codes to those that are fetched meanwhile. Tiles 5 and 6 rows, low and high; 7 levels.

#define ROW_TILE_BYTES 9024
#define SUPERS_BYTES 1280
#define SUMS 0
#define ZEROS 6144
#define NOWHERE 8192
#define LEVELS 10240
#define SUPERS 26624
#define ACC 30464

#define TILE_LOW(o) LONG $0x4b7be2c4; WORD $0x0eac; LONG $(o)    // TILELOADD o(SI)(CX*1), tmm5
#define TILE_HIGH(o) LONG $0x4b7be2c4; WORD $0x0eb4; LONG $(o)   // TILELOADD o(SI)(CX*1), tmm6
#define TILE_LEVELS(o) LONG $0x4b7be2c4; WORD $0x0bbc; LONG $(LEVELS+o) // TILELOADD LEVELS+o(BX)(CX*1), tmm7
#define TILE_STORE(from, o) LONG $0x4b7ae2c4; BYTE $(0x84+8*from); BYTE $0x0b; LONG $(o) // TILESTORED from, o(BX)(CX*1)
#define LOW_LOW(to) LONG $0x5e40e2c4; BYTE $(0xc5+8*to)   // TDPBUUD tmm7, tmm5, to
#define HIGH_LOW(to) LONG $0x5e42e2c4; BYTE $(0xc6+8*to)  // TDPBSUD tmm7, tmm6, to: high digits of rows
#define HIGH_HIGH(to) LONG $0x5e43e2c4; BYTE $(0xc6+8*to) // TDPBSSD
#define LOW_HIGH(to) LONG $0x5e41e2c4; BYTE $(0xc5+8*to)  // TDPBUSD

// FETCH_TO_WRITE fetches two lines at DI to be written (PREFETCHW) and goes to the next row.
#define FETCH_TO_WRITE \
	BYTE $0x0f; BYTE $0x0d; BYTE $0x0f; LONG $0x404f0d0f; \
	ADDQ R8, DI

// JOB multiplies in tiles ll, m and 2 with a panel's levels, and scales the sums at BX + sums. Those of the job before, in tiles
// ll0, m0 and 2, go to BX + to. Tile 2 rests for five products between two jobs, so that it is never waited for.
#define JOB(panel, ll, m, ll0, m0, sums, to, skip0, skip1, skip2, skip3) \
	TILE_ZERO(ll); TILE_ZERO(m); \
	SCALE_BEGIN(panel); \
	LOW_LEVELS(0, panel, ll, m, sums, TILE_STORE(2, to+2048); TILE_ZERO(2)); \
	HIGH_LEVELS(0, panel, m, sums); \
	UNPACK(skip0); \
	LOW_LEVELS(1, panel, ll, m, sums, TILE_STORE(ll0, to)); \
	HIGH_LEVELS(1, panel, m, sums); \
	UNPACK(skip1); \
	LOW_LEVELS(2, panel, ll, m, sums, TILE_STORE(m0, to+1024)); \
	HIGH_LEVELS(2, panel, m, sums); \
	UNPACK(skip2); \
	LAST_LEVELS(3, panel, ll, m, sums); \
	UNPACK(skip3)
#define LOW_LEVELS(k, panel, ll, m, sums, STORE) \
	TILE_LEVELS(8192*panel+2048*k); TILE_LOW(2048*k); LOW_LOW(ll); \
	SCALE(4*k, sums); \
	TILE_HIGH(2048*k+1024); HIGH_LOW(m); \
	STORE; \
	SCALE(4*k+1, sums)
#define HIGH_LEVELS(k, panel, m, sums) \
	TILE_LEVELS(8192*panel+2048*k+1024); HIGH_HIGH(2); \
	SCALE(4*k+2, sums); \
	LOW_HIGH(m); \
	SCALE(4*k+3, sums)
#define LAST_LEVELS(k, panel, ll, m, sums) \
	TILE_LEVELS(8192*panel+2048*k+1024); TILE_HIGH(2048*k+1024); HIGH_HIGH(2); \
	SCALE(4*k, sums); \
	TILE_LOW(2048*k); LOW_HIGH(m); \
	SCALE(4*k+1, sums); \
	TILE_LEVELS(8192*panel+2048*k); HIGH_LOW(m); \
	SCALE(4*k+2, sums); \
	LOW_LOW(ll); \
	SCALE(4*k+3, sums)

// UNPACK unpacks 64 inputs of the next pair in a pair's last step, where those of this one are in tiles.
#define UNPACK(skip) \
	MOVQ p+0(FP), AX; \
	CMPQ tileProduct_tilesLeft(AX), $1; \
	JNE  skip; \
	CALL chunk<>(SB); \
skip:

// SCALE scales row i; LESS takes least off.
#define SCALE_BEGIN(panel) \
	MOVQ    p+0(FP), AX; \
	MOVQ    tileProduct_scaled(AX), AX; \
	VMOVUPS (1024+128*panel)(AX), Z30; \
	MINS(panel)
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
#define NO_MINS(panel)
#define NO_LESS(i)
#define MINS32(panel) \
	VMOVUPS   (1088+128*panel)(AX), Z31; \
	VMOVDQU64 (512*panel+0)(AX), Z4; \
	VMOVDQU64 (512*panel+128)(AX), Z5; \
	VMOVDQU64 (512*panel+256)(AX), Z6; \
	VMOVDQU64 (512*panel+384)(AX), Z7
#define LESS32(i) \
	VPXORQ        Z2, Z2, Z2; \
	VPDPWSSD.BCST (8256+16*(i))(DX), Z4, Z2; \
	VPDPWSSD.BCST (8260+16*(i))(DX), Z5, Z2; \
	VPDPWSSD.BCST (8264+16*(i))(DX), Z6, Z2; \
	VPDPWSSD.BCST (8268+16*(i))(DX), Z7, Z2; \
	LESS_END(i)
#define MINS16(panel) \
	MINS32(panel); \
	VMOVDQU64 (512*panel+64)(AX), Z3; \
	VMOVDQU64 (512*panel+192)(AX), Z13; \
	VMOVDQU64 (512*panel+320)(AX), Z14; \
	VMOVDQU64 (512*panel+448)(AX), Z15
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
