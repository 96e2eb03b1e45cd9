// Package emulate runs the instructions of AMX that the kernels use on a processor without them: it handles the
// signal that each of them raises there. It is no part of the program: .ci/run lays it over compute/kernel, so that
// the kernels' tests run anywhere where there is AVX-512 VNNI and a C compiler. What it cannot say is how fast they
// are.
package emulate

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -lm
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static __thread uint8_t tiles[8][16][64]; // [tile][row][byte]
static __thread uint8_t config[64];       // the operand of LDTILECFG
static __thread int configured;

static int rows(int t) { return config[48 + t]; }
static int bytes(int t) { return config[16 + 2*t] | config[17 + 2*t] << 8; } // of a row

// fail says why and lets the signal end the program when the instruction raises it again.
static void fail(const char *why) {
	write(2, "amx: ", 5);
	write(2, why, strlen(why));
	write(2, "\n", 1);
	signal(SIGILL, SIG_DFL);
}

// bfloat returns the number at p.
static float bfloat(const uint8_t *p) {
	uint32_t bits = (uint32_t)(p[0] | p[1] << 8) << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

// dot adds the products of four bytes; a and b say whether they have signs.
static void dot(uint8_t *sum, const uint8_t *x, const uint8_t *y, int a, int b) {
	uint32_t s;
	memcpy(&s, sum, 4);
	for (int i = 0; i < 4; i++)
		s += (uint32_t)((a ? (int8_t)x[i] : x[i]) * (b ? (int8_t)y[i] : y[i]));
	memcpy(sum, &s, 4);
}

// multiply adds the product of tiles a and b to tile c. prefix is that of the instruction: for bytes it says which
// have signs.
static void multiply(int c, int a, int b, int floats, int prefix) {
	if (b > 7 || c == a || c == b || a == b)
		return fail("a product of a tile with itself");
	if (rows(c) != rows(a) || bytes(c) != bytes(b) || bytes(a) != rows(b)*4)
		return fail("a product of tiles whose shapes do not fit");
	if (floats && prefix != 2)
		return fail("a product of unknown numbers");
	for (int i = 0; i < rows(c); i++)
		for (int n = 0; n < bytes(c); n += 4) {
			uint8_t *sum = &tiles[c][i][n];
			if (!floats) {
				for (int k = 0; k < rows(b); k++)
					dot(sum, &tiles[a][i][4*k], &tiles[b][k][n], prefix >= 2, prefix & 1);
				continue;
			}
			float s, even = 0, odd = 0; // chains of their own
			for (int k = 0; k < rows(b); k++) {
				const uint8_t *x = &tiles[a][i][4*k], *y = &tiles[b][k][n];
				even = fmaf(bfloat(x), bfloat(y), even);
				odd = fmaf(bfloat(x + 2), bfloat(y + 2), odd);
			}
			memcpy(&s, sum, 4);
			s += even + odd;
			memcpy(sum, &s, 4);
		}
}

static const int registers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
	REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

// handle does the instruction at RIP and goes on behind it. Its bytes are C4, a byte that says which registers are of
// the upper half, one with the second source and the prefix, the opcode, ModRM, and for memory SIB and a
// displacement.
static void handle(int signal, siginfo_t *info, void *context) {
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	const uint8_t *p = (const uint8_t *)g[REG_RIP];
	if (p[0] != 0xc4 || (p[1] & 0x9f) != 0x82 || p[2] & 0x84)
		return fail("not an instruction for tiles");
	int prefix = p[2] & 3, source = ~(p[2] >> 3) & 15, opcode = p[3], mod = p[4] >> 6, reg = p[4] >> 3 & 7, rm = p[4] & 7;
	int upperBase = p[1] & 0x20 ? 0 : 8, upperIndex = p[1] & 0x40 ? 0 : 8, length = 5;
	uint8_t *at = 0;
	int64_t step = 0; // from row to row
	if (mod != 3) {
		int base = rm;
		if (rm == 4) {
			int sib = p[length++], index = sib >> 3 & 7;
			base = sib & 7;
			if (index + upperIndex != 4)
				step = g[registers[index + upperIndex]] << (sib >> 6);
		}
		if (mod == 0 && base == 5)
			return fail("an address without a base");
		at = (uint8_t *)g[registers[base + upperBase]];
		int32_t far = 0;
		if (mod == 1)
			far = (int8_t)p[length++];
		if (mod == 2) {
			memcpy(&far, p + length, 4);
			length += 4;
		}
		at += far;
	}
	if (opcode == 0x49 && prefix == 0 && mod != 3) { // LDTILECFG
		memcpy(config, at, 64);
		for (int t = 0; t < 8; t++)
			if (config[0] != 1 || config[1] != 0 || rows(t) > 16 || bytes(t) > 64)
				return fail("a configuration that the processor refuses");
		memset(tiles, 0, sizeof tiles);
		configured = 1;
	} else if (opcode == 0x49 && p[2] == 0x78 && p[4] == 0xc0) { // TILERELEASE
		configured = 0;
	} else if (!configured) {
		return fail("no configuration");
	} else if (opcode == 0x49 && prefix == 3 && mod == 3 && rm == 0) { // TILEZERO
		memset(tiles[reg], 0, sizeof tiles[reg]);
	} else if (opcode == 0x4b && prefix == 3 && mod != 3 && rm == 4) { // TILELOADD
		memset(tiles[reg], 0, sizeof tiles[reg]);
		for (int r = 0; r < rows(reg); r++)
			memcpy(tiles[reg][r], at + r*step, bytes(reg));
	} else if (opcode == 0x4b && prefix == 2 && mod != 3 && rm == 4) { // TILESTORED
		for (int r = 0; r < rows(reg); r++)
			memcpy(at + r*step, tiles[reg][r], bytes(reg));
	} else if ((opcode == 0x5e || opcode == 0x5c) && mod == 3) { // TDPB..D and TDPBF16PS
		multiply(reg, rm, source, opcode == 0x5c, prefix);
	} else {
		return fail("an unknown instruction");
	}
	g[REG_RIP] += length;
}

static void install(void) {
	struct sigaction a = {0};
	a.sa_sigaction = handle;
	a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
	sigaction(SIGILL, &a, 0);
}
*/
import "C"

func init() { C.install() }
