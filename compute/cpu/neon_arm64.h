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

// Bits and whole numbers.
#define COPY(n, d) VVV(0x4ea01c00, n, n, d)
#define ZERO(d) VV(0x4f000400, 0, d)
#define AND(m, n, d) VVV(0x4e201c00, m, n, d)
#define EOR(m, n, d) VVV(0x6e201c00, m, n, d)
#define ADD32(m, n, d) VVV(0x4ea08400, m, n, d)
#define CMGT(m, n, d) VVV(0x4ea03400, m, n, d) // n > m, signed
#define SWAP(n, d) VVV(0x6e004000, n, n, d) // the upper half and the lower: EXT Vd.16B, Vn.16B, Vn.16B, #8
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
#define AND16(m, t) AND(m, t, t); AND(m, t+1, t+1); AND(m, t+2, t+2); AND(m, t+3, t+3)
#define SHL16BITS(t) SHL(16, t, t); SHL(16, t+1, t+1); SHL(16, t+2, t+2); SHL(16, t+3, t+3)

// FLOATS16 turns 16 int8 of n into float32 in t to t+3, which may not be n.
#define FLOATS16(n, t) \
	SXTL8_2(n, t+2); \
	SXTL8(n, t); \
	SXTL16_2(t+2, t+3); \
	SXTL16(t+2, t+2); \
	SXTL16_2(t, t+1); \
	SXTL16(t, t); \
	SCVTF16(t)

// PAIRWISE adds the 16 lanes of t to t+3 into the first of t: j with j+8, then +4, +2, +1. u is scratch.
#define PAIRWISE(t, u) \
	FADD(t+2, t, t); \
	FADD(t+3, t+1, t+1); \
	FADD(t+1, t, t); \
	SWAP(t, u); \
	FADD(u, t, t); \
	FADDP2(t, t)
