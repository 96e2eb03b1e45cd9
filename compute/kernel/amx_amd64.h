// The instructions of AMX that Go's assembler does not know.

#define TILE_CONFIG LONG $0x4978e2c4; BYTE $0x00 // LDTILECFG (AX)
#define TILE_RELEASE LONG $0x4978e2c4; BYTE $0xc0
#define TILE_ZERO(to) LONG $0x497be2c4; BYTE $(0xc0+8*(to))

// Of the products of affine types: tiles 5 and 6 are rows, low and high digits, 7 levels (affine_amx_amd64.go).
#define TILE_LOW(o) LONG $0x4b7be2c4; WORD $0x0eac; LONG $(o)    // TILELOADD o(SI)(CX*1), tmm5
#define TILE_HIGH(o) LONG $0x4b7be2c4; WORD $0x0eb4; LONG $(o)   // TILELOADD o(SI)(CX*1), tmm6
#define TILE_LEVELS(o) LONG $0x4b7be2c4; WORD $0x0bbc; LONG $(10240+o) // TILELOADD 10240+o(BX)(CX*1), tmm7
#define TILE_STORE(from, o) LONG $0x4b7ae2c4; BYTE $(0x84+8*from); BYTE $0x0b; LONG $(o) // TILESTORED from, o(BX)(CX*1)
#define LOW_LOW(to) LONG $0x5e40e2c4; BYTE $(0xc5+8*to)   // TDPBUUD tmm7, tmm5, to
#define HIGH_LOW(to) LONG $0x5e42e2c4; BYTE $(0xc6+8*to)  // TDPBSUD tmm7, tmm6, to: high digits of rows
#define HIGH_HIGH(to) LONG $0x5e43e2c4; BYTE $(0xc6+8*to) // TDPBSSD
#define LOW_HIGH(to) LONG $0x5e41e2c4; BYTE $(0xc5+8*to)  // TDPBUSD
