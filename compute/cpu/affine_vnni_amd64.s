//go:build amd64 && !noasm

// Tiles of affine types with AVX-512 VNNI. The layout and the loops are in affine_vnni_amd64.h; here is how each type
// unpacks its codes and scales.

#include "textflag.h"
#include "affine_vnni_amd64.h"

// Levels of four-bit codes (quant.Affine).
DATA iq4<>+0(SB)/8, $0x766a5d4f3f2d1801
DATA iq4<>+8(SB)/8, $0xf1d9c5b5a6998d81
GLOBL iq4<>(SB), RODATA|NOPTR, $16

DATA fp4<>+0(SB)/8, $0x1c18161413121110
DATA fp4<>+8(SB)/8, $0x04080a0c0d0e0f10
GLOBL fp4<>(SB), RODATA|NOPTR, $16

#define SUPER_MASK 7
#define CORRECT(o, m, n) CORRECT_NOTHING(o, m, n)
#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define SCALE_BYTES 64
#define SUPER_BYTES 0
#define MASKS BYTES_OF(0x0f0f0f0f, Z28)
#define A(v, p, raw, out) A4(v, p, raw, out)
#define B(v, p, raw, out) B4(v, p, raw, out)
#define C(v, p, raw, out) C4(v, p, raw, out)
#define D(v, p, raw, out) D4(v, p, raw, out)
#define SCALES(h, p, d, s, m) HALF_PAIRS(p, s, m)
#define BEGIN(o, n) BEGIN_ZERO(o, n)
#define LESS(o, m, sum) LESS_M(o, m, sum)
#define BLOCK BLOCK32
#define PANEL_BLOCK PANEL_BLOCK32

// func tileQ4_1VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_1VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef SCALES
#define SCALE_BYTES 32
#define SUPER_BYTES 64
#define SCALES(h, p, d, s, m) INT8_PAIRS(0, p, d, s, m)

// func tileQ4_KVNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_KVNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef SCALE_BYTES
#undef SUPER_BYTES
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#undef SCALES
#define CODE_BYTES 320
#define FETCH(v, p) LINES3(v, p)
#define SCALE_BYTES 64
#define SUPER_BYTES 0
#define MASKS BYTES_OF(0x0f0f0f0f, Z28); BYTES_OF(0x10101010, Z30)
#define A(v, p, raw, out) A4(v, p, raw, out); LAST_BIT(256+32*v+0, p, out)
#define B(v, p, raw, out) B4(v, p, raw, out); LAST_BIT(256+32*v+8, p, out)
#define C(v, p, raw, out) C4(v, p, raw, out); LAST_BIT(256+32*v+16, p, out)
#define D(v, p, raw, out) D4(v, p, raw, out); LAST_BIT(256+32*v+24, p, out)
#define SCALES(h, p, d, s, m) HALF_PAIRS(p, s, m)

// func tileQ5_1VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_1VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef SCALES
#define SCALE_BYTES 32
#define SUPER_BYTES 64
#define SCALES(h, p, d, s, m) INT8_PAIRS(0, p, d, s, m)

// func tileQ5_KVNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_KVNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef SCALE_BYTES
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#undef SCALES
#undef BLOCK
#undef PANEL_BLOCK
#define CODE_BYTES 128
#define FETCH(v, p) LINE(v, p)
#define SCALE_BYTES 64
#define MASKS BYTES_OF(0x03030303, Z28)
#define A(v, p, raw, out) A2(v, p, raw, out)
#define B(v, p, raw, out) B2(v, p, raw, out)
#define C(v, p, raw, out) C2(v, p, raw, out)
#define D(v, p, raw, out) D2(v, p, raw, out)
#define SCALES(h, p, d, s, m) INT8_PAIRS(32*h, p, d, s, m)
#define BLOCK BLOCK16
#define PANEL_BLOCK PANEL_BLOCK16

// func tileQ2_KVNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ2_KVNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef SCALE_BYTES
#undef SUPER_BYTES
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#undef SCALES
#undef BEGIN
#undef LESS
#define CODE_BYTES 192
#define FETCH(v, p) LINES2(v, p)
#define SCALE_BYTES 32
#define SUPER_BYTES 32
#define MASKS BYTES_OF(0x03030303, Z28); BYTES_OF(0x04040404, Z30)
#define A(v, p, raw, out) A2(v, p, raw, out); LAST_BIT(128+32*v+0, p, out)
#define B(v, p, raw, out) B2(v, p, raw, out); LAST_BIT(128+32*v+8, p, out)
#define C(v, p, raw, out) C2(v, p, raw, out); LAST_BIT(128+32*v+16, p, out)
#define D(v, p, raw, out) D2(v, p, raw, out); LAST_BIT(128+32*v+24, p, out)
#define SCALES(h, p, d, s, m) INT8S(16*h, p, d, s)
#define BEGIN(o, n) BEGIN_OFFSET(2, o, n)
#define LESS(o, m, sum) LESS_NOTHING(o, m, sum)

// func tileQ3_KVNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ3_KVNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#undef BEGIN
#define CODE_BYTES 384
#define FETCH(v, p) LINES3(v, p)
#define MASKS BYTES_OF(0x3f3f3f3f, Z28); BYTES_OF(0x30303030, Z29); BYTES_OF(0x0c0c0c0c, Z30); BYTES_OF(0x03030303, Z31)
#define A(v, p, raw, out) A6(v, p, raw, out)
#define B(v, p, raw, out) B6(v, p, raw, out)
#define C(v, p, raw, out) C6(v, p, raw, out)
#define D(v, p, raw, out) D6(v, p, raw, out)
#define BEGIN(o, n) BEGIN_OFFSET(5, o, n)

// func tileQ6_KVNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ6_KVNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef SUPER_BYTES
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#undef SCALES
#undef BEGIN
#undef BLOCK
#undef PANEL_BLOCK
#define CODE_BYTES 512
#define FETCH(v, p) LINES4(v, p)
#define SUPER_BYTES 0
#define MASKS
#define A(v, p, raw, out) A8(v, p, raw, out)
#define B(v, p, raw, out) B8(v, p, raw, out)
#define C(v, p, raw, out) C8(v, p, raw, out)
#define D(v, p, raw, out) D8(v, p, raw, out)
#define SCALES(h, p, d, s, m) HALVES(p, s)
#define BEGIN(o, n) BEGIN_OFFSET(7, o, n)
#define BLOCK BLOCK32
#define PANEL_BLOCK PANEL_BLOCK32

// func tileQ8_0VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ8_0VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#undef BEGIN
#define CODE_BYTES 320
#define FETCH(v, p) LINES3(v, p)
#define MASKS BYTES_OF(0x0f0f0f0f, Z28); BYTES_OF(0x10101010, Z30)
#define A(v, p, raw, out) A4(v, p, raw, out); LAST_BIT(256+32*v+0, p, out)
#define B(v, p, raw, out) B4(v, p, raw, out); LAST_BIT(256+32*v+8, p, out)
#define C(v, p, raw, out) C4(v, p, raw, out); LAST_BIT(256+32*v+16, p, out)
#define D(v, p, raw, out) D4(v, p, raw, out); LAST_BIT(256+32*v+24, p, out)
#define BEGIN(o, n) BEGIN_OFFSET(4, o, n)

// func tileQ5_0VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ5_0VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#undef BEGIN
#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define MASKS BYTES_OF(0x0f0f0f0f, Z28)
#define A(v, p, raw, out) A4(v, p, raw, out)
#define B(v, p, raw, out) B4(v, p, raw, out)
#define C(v, p, raw, out) C4(v, p, raw, out)
#define D(v, p, raw, out) D4(v, p, raw, out)
#define BEGIN(o, n) BEGIN_OFFSET(3, o, n)

// func tileQ4_0VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileQ4_0VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef MASKS
#undef A
#undef B
#undef C
#undef D
#undef BEGIN
#define MASKS BYTES_OF(0x0f0f0f0f, Z28); VBROADCASTI32X4 iq4<>(SB), Z30
#define A(v, p, raw, out) A4(v, p, raw, out); TABLE(out)
#define B(v, p, raw, out) B4(v, p, raw, out); TABLE(out)
#define C(v, p, raw, out) C4(v, p, raw, out); TABLE(out)
#define D(v, p, raw, out) D4(v, p, raw, out); TABLE(out)
#define BEGIN(o, n) BEGIN_OFFSET(7, o, n)

// func tileIQ4_NLVNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_NLVNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef SCALES
#define SCALE_BYTES 16
#define SUPER_BYTES 32
#define SCALES(h, p, d, s, m) INT8S(0, p, d, s)

// func tileIQ4_XSVNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileIQ4_XSVNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef SCALE_BYTES
#undef SUPER_BYTES
#undef MASKS
#undef SCALES
#undef BEGIN
#define SCALE_BYTES 64
#define SUPER_BYTES 0
#define MASKS BYTES_OF(0x0f0f0f0f, Z28); VBROADCASTI32X4 fp4<>(SB), Z30
#define SCALES(h, p, d, s, m) FLOATS(p, s)
#define BEGIN(o, n) BEGIN_OFFSET(4, o, n)

// func tileMXFP4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileMXFP4VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

// Types with zero points, by their bits, for groups of 32 and of 128.
#undef SCALE_BYTES
#undef SUPER_BYTES
#undef SCALES
#undef BEGIN
#undef CORRECT
#define SCALE_BYTES 0
#define SUPER_BYTES 80
#define SCALES(h, p, d, s, m) ZERO_POINTS(d, s, m)
#define BEGIN(o, n) BEGIN_ZERO(o, n)
#define CORRECT(o, m, n) CORRECT_ZERO(o, m, n)
#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 256
#define FETCH(v, p) LINES2(v, p)
#define MASKS BYTES_OF(0x0f0f0f0f, Z28)
#define A(v, p, raw, out) A4(v, p, raw, out)
#define B(v, p, raw, out) B4(v, p, raw, out)
#define C(v, p, raw, out) C4(v, p, raw, out)
#define D(v, p, raw, out) D4(v, p, raw, out)
#undef SUPER_MASK
#define SUPER_MASK 0

// func tileU4_32VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU4_32VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef SUPER_MASK
#define SUPER_MASK 3

// func tileU4_128VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU4_128VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 512
#define FETCH(v, p) LINES4(v, p)
#define MASKS
#define A(v, p, raw, out) A8(v, p, raw, out)
#define B(v, p, raw, out) B8(v, p, raw, out)
#define C(v, p, raw, out) C8(v, p, raw, out)
#define D(v, p, raw, out) D8(v, p, raw, out)
#undef SUPER_MASK
#define SUPER_MASK 0

// func tileU8_32VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU8_32VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef SUPER_MASK
#define SUPER_MASK 3

// func tileU8_128VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU8_128VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 128
#define FETCH(v, p) LINE(v, p)
#define MASKS BYTES_OF(0x03030303, Z28)
#define A(v, p, raw, out) A2(v, p, raw, out)
#define B(v, p, raw, out) B2(v, p, raw, out)
#define C(v, p, raw, out) C2(v, p, raw, out)
#define D(v, p, raw, out) D2(v, p, raw, out)
#undef SUPER_MASK
#define SUPER_MASK 0

// func tileU2_32VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU2_32VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef SUPER_MASK
#define SUPER_MASK 3

// func tileU2_128VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU2_128VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef CODE_BYTES
#undef FETCH
#undef MASKS
#undef A
#undef B
#undef C
#undef D
#define CODE_BYTES 192
#define FETCH(v, p) LINES2(v, p)
#define MASKS BYTES_OF(0x03030303, Z28); BYTES_OF(0x04040404, Z30)
#define A(v, p, raw, out) A2(v, p, raw, out); LAST_BIT(128+32*v+0, p, out)
#define B(v, p, raw, out) B2(v, p, raw, out); LAST_BIT(128+32*v+8, p, out)
#define C(v, p, raw, out) C2(v, p, raw, out); LAST_BIT(128+32*v+16, p, out)
#define D(v, p, raw, out) D2(v, p, raw, out); LAST_BIT(128+32*v+24, p, out)
#undef SUPER_MASK
#define SUPER_MASK 0

// func tileU3_32VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU3_32VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"

#undef SUPER_MASK
#define SUPER_MASK 3

// func tileU3_128VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
TEXT ·tileU3_128VNNI(SB), NOSPLIT, $0-88
#include "affine_vnni_body_amd64.h"
