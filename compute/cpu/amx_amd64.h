// The instructions of AMX that Go's assembler does not know.

#define TILE_CONFIG LONG $0x4978e2c4; BYTE $0x00 // LDTILECFG (AX)
#define TILE_RELEASE LONG $0x4978e2c4; BYTE $0xc0
#define TILE_ZERO(to) LONG $0x497be2c4; BYTE $(0xc0+8*(to))
