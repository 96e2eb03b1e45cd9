package tokenizer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// charsmap is SentencePiece's precompiled normalization table: a double-array trie (the layout of darts-clone) from
// byte strings to offsets of NUL-terminated replacements.
type charsmap struct {
	units        []uint32
	replacements string
}

// parseCharsmap reads the length of the trie in bytes (uint32, little endian), the trie and the replacements. An
// empty table maps nothing.
func parseCharsmap(data []byte) (*charsmap, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if len(data) < 4 {
		return nil, errors.New("precompiled charsmap is shorter than its header")
	}
	n := binary.LittleEndian.Uint32(data)
	if uint64(n) > uint64(len(data)-4) || n%4 != 0 {
		return nil, fmt.Errorf("precompiled charsmap: trie of %d bytes in %d", n, len(data)-4)
	}
	c := &charsmap{replacements: string(data[4+n:])}
	for i := uint32(0); i < n; i += 4 {
		c.units = append(c.units, binary.LittleEndian.Uint32(data[4+i:]))
	}
	return c, nil
}

// prefix finds a key that text begins with: the longest, or the shortest.
func (c *charsmap) prefix(text string, shortest bool) (replacement string, length int, ok bool) {
	if len(c.units) == 0 {
		return "", 0, false
	}
	value := uint32(0)
	node := unitOffset(c.units[0])
	for i := range len(text) {
		b := uint32(text[i])
		if b == 0 {
			break
		}
		if node ^= b; int(node) >= len(c.units) || c.units[node]&(1<<31|0xFF) != b {
			break
		}
		unit := c.units[node]
		node ^= unitOffset(unit)
		if unit>>8&1 == 1 && int(node) < len(c.units) { // a key ends here
			value, length, ok = c.units[node]&(1<<31-1), i+1, true
			if shortest {
				break
			}
		}
	}
	if !ok || int(value) > len(c.replacements) {
		return "", 0, false
	}
	replacement = c.replacements[value:]
	if i := strings.IndexByte(replacement, 0); i >= 0 {
		replacement = replacement[:i]
	}
	return replacement, length, true
}

func unitOffset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// byGrapheme normalizes as the tokenizers library does: grapheme clusters of less than six bytes as a whole where the
// table has a key that begins them, else rune by rune, each by its shortest key.
func (c *charsmap) byGrapheme(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	it := graphemes.FromString(text)
	for it.Next() {
		g := it.Value()
		if len(g) < 6 {
			if r, _, ok := c.prefix(g, true); ok {
				out.WriteString(r)
				continue
			}
		}
		for len(g) > 0 {
			_, size := utf8.DecodeRuneInString(g)
			if r, _, ok := c.prefix(g[:size], true); ok {
				out.WriteString(r)
			} else {
				out.WriteString(g[:size])
			}
			g = g[size:]
		}
	}
	return out.String()
}
