// Instructions of Arm that Go's assembler does not have. Operands are numbers of registers, in Go's order: the destination is last.
// Vectors are of four float32 or 32-bit numbers where nothing else is said.

#define VVV(op, m, n, d) WORD $((op) | (m)<<16 | (n)<<5 | (d))
#define VV(op, n, d) WORD $((op) | (n)<<5 | (d))

// Floats. In FMLA and FMLA_LANE0 d = d + n·m is rounded once.
#define FADD(m, n, d) VVV(0x4e20d400, m, n, d)
#define FSUB(m, n, d) VVV(0x4ea0d400, m, n, d) // n - m
#define FMUL(m, n, d) VVV(0x6e20dc00, m, n, d)
#define FDIV(m, n, d) VVV(0x6e20fc00, m, n, d) // n / m
#define FMLA(m, n, d) VVV(0x4e20cc00, m, n, d)
#define FMLS(m, n, d) VVV(0x4ea0cc00, m, n, d) // d - n·m
#define FMLA_LANE0(m, n, d) VVV(0x4f801000, m, n, d) // m is one number for all: FMLA Vd.4S, Vn.4S, Vm.S[0]
#define FMUL_LANE0(m, n, d) VVV(0x4f809000, m, n, d)
#define FMAX(m, n, d) VVV(0x4e20f400, m, n, d)
#define FMIN(m, n, d) VVV(0x4ea0f400, m, n, d)
#define FMAXV(n, d) VV(0x6e30f800, n, d) // the greatest of four
#define FADDP2(n, d) VV(0x7e30d800, n, d) // the sum of the lower two: FADDP Sd, Vn.2S
#define FABS(n, d) VV(0x4ea0f800, n, d)
#define FNEG(n, d) VV(0x6ea0f800, n, d)
#define FRINTN(n, d) VV(0x4e218800, n, d) // to whole numbers, half to even
#define FCMEQ(m, n, d) VVV(0x4e20e400, m, n, d)
#define FCMGE(m, n, d) VVV(0x6e20e400, m, n, d) // n >= m
#define FCMGT(m, n, d) VVV(0x6ea0e400, m, n, d) // n > m

// Products of int8 as int16, and sums of neighbours.
#define SMULL8(m, n, d) VVV(0x0e20c000, m, n, d)
#define SMULL8_2(m, n, d) VVV(0x4e20c000, m, n, d)
#define ADDP16(m, n, d) VVV(0x4e60bc00, m, n, d) // of n, then of m
#define SADALP16(n, d) VV(0x4e606800, n, d) // int16 to int32, added to d

// SDOT adds products of int8, four for each int32. Of SDOT_LANE0 m are the same four for all: SDOT Vd.4S, Vn.16B, Vm.4B[0]. They need
// the feature DotProd.
#define SDOT(m, n, d) VVV(0x4e809400, m, n, d)
#define SDOT_LANE0(m, n, d) VVV(0x4f80e000, m, n, d)

// Conversions. Those named 2 work on the upper half of the narrower side.
#define FCVTNS(n, d) VV(0x4e21a800, n, d) // float32 to int32, half to even
#define SCVTF(n, d) VV(0x4e21d800, n, d) // int32 to float32
#define FCVTL(n, d) VV(0x0e217800, n, d) // float16 to float32
#define FCVTL2(n, d) VV(0x4e217800, n, d)
#define SHLL16(n, d) VV(0x2e613800, n, d) // bfloat16 to float32: SHLL Vd.4S, Vn.4H, #16
#define SHLL16_2(n, d) VV(0x6e613800, n, d)
#define SXTL8(n, d) VV(0x0f08a400, n, d) // int8 to int16
#define SXTL8_2(n, d) VV(0x4f08a400, n, d)
#define SXTL16(n, d) VV(0x0f10a400, n, d) // int16 to int32
#define SXTL16_2(n, d) VV(0x4f10a400, n, d)
#define UXTL8(n, d) VV(0x2f08a400, n, d) // uint8 to uint16
#define UXTL8_2(n, d) VV(0x6f08a400, n, d)
#define SXTL8_TIMES16(n, d) VV(0x0f0ca400, n, d)
#define SXTL8_TIMES16_2(n, d) VV(0x4f0ca400, n, d)
#define UADDW8(m, n, d) VVV(0x2e201000, m, n, d) // uint8 of m added to int16
#define UADDW8_2(m, n, d) VVV(0x6e201000, m, n, d)
#define SQXTN32(n, d) VV(0x0e614800, n, d) // int32 to int16
#define SQXTN32_2(n, d) VV(0x4e614800, n, d)
#define SQXTN16(n, d) VV(0x0e214800, n, d) // int16 to int8
#define SQXTN16_2(n, d) VV(0x4e214800, n, d)

// Bits and whole numbers.
#define COPY(n, d) VVV(0x4ea01c00, n, n, d)
#define ZERO(d) VV(0x6f00e400, 0, d) // MOVI Vd.2D, #0, which processors know as such
#define AND(m, n, d) VVV(0x4e201c00, m, n, d)
#define EOR(m, n, d) VVV(0x6e201c00, m, n, d)
#define ADD32(m, n, d) VVV(0x4ea08400, m, n, d)
#define CMGT(m, n, d) VVV(0x4ea03400, m, n, d) // n > m, signed
#define SWAP(n, d) VVV(0x6e004000, n, n, d) // the upper half and the lower: EXT Vd.16B, Vn.16B, Vn.16B, #8
#define CMTST8(m, n, d) VVV(0x4e208c00, m, n, d) // of 16 bytes, which share bits
#define ORR(m, n, d) VVV(0x4ea01c00, m, n, d)
#define TBL(m, n, d) VVV(0x4e000000, m, n, d) // the bytes of n that those of m number
#define USHR8(s, n, d) VV(0x6f000400 | (16-(s))<<16, n, d) // bytes n >> s
#define SRI8(s, n, d) VV(0x6f004400 | (16-(s))<<16, n, d) // the lower 8-s bits of bytes become those of n >> s
#define MUL(m, n, d) VVV(0x4ea09c00, m, n, d)
#define MUL_LANE0(m, n, d) VVV(0x4f808000, m, n, d)
#define MLA_LANE0(m, n, d) VVV(0x6f800000, m, n, d)
#define SMLAL_LANE(l, m, n, d) VVV(0x0f402000 | (l)<<20, m, n, d) // int16 times lane l, 0 or 1, of m, which is below 16, added to int32
#define SMLAL2_LANE(l, m, n, d) VVV(0x4f402000 | (l)<<20, m, n, d)
#define SADDLV8(n, d) VV(0x4e303800, n, d) // the sum of 16 int8, an int16
#define SHL(s, n, d) VV(0x4f205400 | (s)<<16, n, d) // n << s

// 16 float32 from or to where general register r points, in registers t to t+3. NEXT ones add 64 to r.
#define LOAD16(r, t) VV(0x4c402800, r, t)
#define LOAD16_NEXT(r, t) VV(0x4cdf2800, r, t)
#define STORE16(r, t) VV(0x4c002800, r, t)
#define STORE16_NEXT(r, t) VV(0x4c9f2800, r, t)
#define LOADHALVES_NEXT(r, t) VV(0x4cdfa400, r, t) // 16 numbers of 16 bits in t and t+1; adds 32 to r

// 16 lanes in registers t to t+3.
#define FMLA16_LANE0(m, n, t) FMLA_LANE0(m, n, t); FMLA_LANE0(m, n+1, t+1); FMLA_LANE0(m, n+2, t+2); FMLA_LANE0(m, n+3, t+3)
#define FMUL16_LANE0(m, t) FMUL_LANE0(m, t, t); FMUL_LANE0(m, t+1, t+1); FMUL_LANE0(m, t+2, t+2); FMUL_LANE0(m, t+3, t+3)
#define FADD16(m, n, t) FADD(m, n, t); FADD(m+1, n+1, t+1); FADD(m+2, n+2, t+2); FADD(m+3, n+3, t+3)
#define FMUL16(m, n, t) FMUL(m, n, t); FMUL(m+1, n+1, t+1); FMUL(m+2, n+2, t+2); FMUL(m+3, n+3, t+3)
#define SCVTF16(t) SCVTF(t, t); SCVTF(t+1, t+1); SCVTF(t+2, t+2); SCVTF(t+3, t+3)
#define ZERO16(t) ZERO(t); ZERO(t+1); ZERO(t+2); ZERO(t+3)
#define MUL16_LANE0(m, n, t) MUL_LANE0(m, n, t); MUL_LANE0(m, n+1, t+1); MUL_LANE0(m, n+2, t+2); MUL_LANE0(m, n+3, t+3)
#define MUL16(m, n, t) MUL(m, n, t); MUL(m+1, n+1, t+1); MUL(m+2, n+2, t+2); MUL(m+3, n+3, t+3)
#define MLA16_LANE0(m, n, t) MLA_LANE0(m, n, t); MLA_LANE0(m, n+1, t+1); MLA_LANE0(m, n+2, t+2); MLA_LANE0(m, n+3, t+3)
#define FMLA16(m, n, t) FMLA(m, n, t); FMLA(m+1, n+1, t+1); FMLA(m+2, n+2, t+2); FMLA(m+3, n+3, t+3)
#define FMLS16(m, n, t) FMLS(m, n, t); FMLS(m+1, n+1, t+1); FMLS(m+2, n+2, t+2); FMLS(m+3, n+3, t+3)
#define EOR16(m, t) EOR(m, t, t); EOR(m, t+1, t+1); EOR(m, t+2, t+2); EOR(m, t+3, t+3)
#define USHR8_16(s, t) USHR8(s, t, t); USHR8(s, t+1, t+1); USHR8(s, t+2, t+2); USHR8(s, t+3, t+3)
#define TBL16(n, t) TBL(t, n, t); TBL(t+1, n, t+1); TBL(t+2, n, t+2); TBL(t+3, n, t+3)
#define AND16(m, t) AND(m, t, t); AND(m, t+1, t+1); AND(m, t+2, t+2); AND(m, t+3, t+3)
#define SHL16BITS(t) SHL(16, t, t); SHL(16, t+1, t+1); SHL(16, t+2, t+2); SHL(16, t+3, t+3)

// INTS16 turns 16 int8 of n into int32 in t to t+3, which may not be n; UINTS16 takes uint8, INTS12 adds
// uint8 of low to 16 times them, and FLOATS16 makes float32.
#define INTS16(n, t) SXTL8_2(n, t+2); SXTL8(n, t); WIDER16(t)
#define UINTS16(n, t) UXTL8_2(n, t+2); UXTL8(n, t); WIDER16(t)
#define WIDER16(t) \
	SXTL16_2(t+2, t+3); \
	SXTL16(t+2, t+2); \
	SXTL16_2(t, t+1); \
	SXTL16(t, t)
#define INTS12(n, low, t) SXTL8_TIMES16_2(n, t+2); UADDW8_2(low, t+2, t+2); SXTL8_TIMES16(n, t); UADDW8(low, t, t); WIDER16(t)
#define FLOATS16(n, t) INTS16(n, t); SCVTF16(t)

// PAIRWISE adds the 16 lanes of t to t+3 into the first of t: j with j+8, then +4, +2, +1. u is scratch.
#define PAIRWISE(t, u) \
	FADD(t+2, t, t); \
	FADD(t+3, t+1, t+1); \
	FADD(t+1, t, t); \
	SWAP(t, u); \
	FADD(u, t, t); \
	FADDP2(t, t)
