// DOT is VDPBF16PS Zx, Zw, Zsum, of the numbers of registers: Go's assembler does not know it. Bits 3 and 4 of the numbers are inverted in
// the prefix.
#define DOT(x, w, sum) \
	BYTE $0x62; \
	BYTE $(0xf2^((sum)&8)<<4^((x)&16)<<2^((x)&8)<<2^((sum)&16)); \
	BYTE $(0x7e^((w)&15)<<3); \
	BYTE $(0x48^((w)&16)>>1); \
	BYTE $0x52; \
	BYTE $(0xc0+((sum)&7)*8+((x)&7))
