// Constants of the AVX2 tiles of affine types.

// Levels of four-bit codes (quant.Affine), those of IQ4_NL less 128, twice.
DATA iq4<>+0(SB)/8, $0xf6eaddcfbfad9881
DATA iq4<>+8(SB)/8, $0x7159453526190d01
DATA iq4<>+16(SB)/8, $0xf6eaddcfbfad9881
DATA iq4<>+24(SB)/8, $0x7159453526190d01
GLOBL iq4<>(SB), RODATA|NOPTR, $32

DATA fp4<>+0(SB)/8, $0x1c18161413121110
DATA fp4<>+8(SB)/8, $0x04080a0c0d0e0f10
DATA fp4<>+16(SB)/8, $0x1c18161413121110
DATA fp4<>+24(SB)/8, $0x04080a0c0d0e0f10
GLOBL fp4<>(SB), RODATA|NOPTR, $32

DATA nibbles<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+8(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+16(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+24(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL nibbles<>(SB), RODATA|NOPTR, $32

DATA sixes<>+0(SB)/8, $0x3f3f3f3f3f3f3f3f
DATA sixes<>+8(SB)/8, $0x3f3f3f3f3f3f3f3f
DATA sixes<>+16(SB)/8, $0x3f3f3f3f3f3f3f3f
DATA sixes<>+24(SB)/8, $0x3f3f3f3f3f3f3f3f
GLOBL sixes<>(SB), RODATA|NOPTR, $32

DATA lowest<>+0(SB)/8, $0x0303030303030303
DATA lowest<>+8(SB)/8, $0x0303030303030303
DATA lowest<>+16(SB)/8, $0x0303030303030303
DATA lowest<>+24(SB)/8, $0x0303030303030303
GLOBL lowest<>(SB), RODATA|NOPTR, $32

DATA middle<>+0(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA middle<>+8(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA middle<>+16(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA middle<>+24(SB)/8, $0x0c0c0c0c0c0c0c0c
GLOBL middle<>(SB), RODATA|NOPTR, $32

DATA highest<>+0(SB)/8, $0x3030303030303030
DATA highest<>+8(SB)/8, $0x3030303030303030
DATA highest<>+16(SB)/8, $0x3030303030303030
DATA highest<>+24(SB)/8, $0x3030303030303030
GLOBL highest<>(SB), RODATA|NOPTR, $32

DATA fours<>+0(SB)/8, $0x0404040404040404
DATA fours<>+8(SB)/8, $0x0404040404040404
DATA fours<>+16(SB)/8, $0x0404040404040404
DATA fours<>+24(SB)/8, $0x0404040404040404
GLOBL fours<>(SB), RODATA|NOPTR, $32

DATA sixteens<>+0(SB)/8, $0x1010101010101010
DATA sixteens<>+8(SB)/8, $0x1010101010101010
DATA sixteens<>+16(SB)/8, $0x1010101010101010
DATA sixteens<>+24(SB)/8, $0x1010101010101010
GLOBL sixteens<>(SB), RODATA|NOPTR, $32

DATA ones<>+0(SB)/8, $0x0001000100010001
DATA ones<>+8(SB)/8, $0x0001000100010001
DATA ones<>+16(SB)/8, $0x0001000100010001
DATA ones<>+24(SB)/8, $0x0001000100010001
GLOBL ones<>(SB), RODATA|NOPTR, $32

DATA minus128<>+0(SB)/8, $0x0000ff800000ff80
DATA minus128<>+8(SB)/8, $0x0000ff800000ff80
DATA minus128<>+16(SB)/8, $0x0000ff800000ff80
DATA minus128<>+24(SB)/8, $0x0000ff800000ff80
GLOBL minus128<>(SB), RODATA|NOPTR, $32

// For each of 32 bytes, the byte that holds its bit, and the bit.
DATA spread<>+0(SB)/8, $0x0000000000000000
DATA spread<>+8(SB)/8, $0x0101010101010101
DATA spread<>+16(SB)/8, $0x0202020202020202
DATA spread<>+24(SB)/8, $0x0303030303030303
GLOBL spread<>(SB), RODATA|NOPTR, $32

DATA each<>+0(SB)/8, $0x8040201008040201
DATA each<>+8(SB)/8, $0x8040201008040201
DATA each<>+16(SB)/8, $0x8040201008040201
DATA each<>+24(SB)/8, $0x8040201008040201
GLOBL each<>(SB), RODATA|NOPTR, $32

DATA tops<>+0(SB)/8, $0x8080808080808080
DATA tops<>+8(SB)/8, $0x8080808080808080
DATA tops<>+16(SB)/8, $0x8080808080808080
DATA tops<>+24(SB)/8, $0x8080808080808080
GLOBL tops<>(SB), RODATA|NOPTR, $32

// Where VPSHUFB finds the low or the high bytes of words, two for each of 8 bytes.
DATA toWords<>+0(SB)/8, $0x8001800180008000
DATA toWords<>+8(SB)/8, $0x8003800380028002
DATA toWords<>+16(SB)/8, $0x8005800580048004
DATA toWords<>+24(SB)/8, $0x8007800780068006
GLOBL toWords<>(SB), RODATA|NOPTR, $32

DATA toTops<>+0(SB)/8, $0x0180018000800080
DATA toTops<>+8(SB)/8, $0x0380038002800280
DATA toTops<>+16(SB)/8, $0x0580058004800480
DATA toTops<>+24(SB)/8, $0x0780078006800680
GLOBL toTops<>(SB), RODATA|NOPTR, $32

// Where VPSHUFB finds words of bytes i and i+8, two for each of 8.
DATA toPairs<>+0(SB)/8, $0x0109010900080008
DATA toPairs<>+8(SB)/8, $0x030b030b020a020a
DATA toPairs<>+16(SB)/8, $0x050d050d040c040c
DATA toPairs<>+24(SB)/8, $0x070f070f060e060e
GLOBL toPairs<>(SB), RODATA|NOPTR, $32

// Words without the upper half of their lower byte, and what their bytes count.
DATA notSecond<>+0(SB)/8, $0xff0fff0fff0fff0f
DATA notSecond<>+8(SB)/8, $0xff0fff0fff0fff0f
DATA notSecond<>+16(SB)/8, $0xff0fff0fff0fff0f
DATA notSecond<>+24(SB)/8, $0xff0fff0fff0fff0f
GLOBL notSecond<>(SB), RODATA|NOPTR, $32

DATA sixteenAndOne<>+0(SB)/8, $0x1001100110011001
DATA sixteenAndOne<>+8(SB)/8, $0x1001100110011001
DATA sixteenAndOne<>+16(SB)/8, $0x1001100110011001
DATA sixteenAndOne<>+24(SB)/8, $0x1001100110011001
GLOBL sixteenAndOne<>(SB), RODATA|NOPTR, $32
