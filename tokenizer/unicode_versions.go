package tokenizer

import (
	"strconv"
	"strings"
	"unicode"
)

// The reference libraries use different versions of Unicode. Oniguruma, which runs the patterns of tokenizer.json, has
// version 16; BERT's components have version 8; Go's tables have version 15.

// unicode16 are the assignments of versions 15.1 and 16 by general category, in hexadecimal.
var unicode16 = map[string]string{
	"Ll": "1c8a a7cd a7db 10d70-10d85",
	"Lm": "10d4e 10d6f 16d40-16d42 16d6b-16d6c",
	"Lo": "105c0-105f3 10d4a-10d4d 10d4f 10ec2-10ec4 11380-11389 1138b 1138e 11390-113b5 113b7 113d1 113d3 " +
		"11bc0-11be0 13460-143fa 16100-1611d 16d43-16d6a 18cff 1e5d0-1e5ed 1e5f0 2ebf0-2ee5d",
	"Lu": "1c89 a7cb-a7cc a7da a7dc 10d50-10d65",
	"Mc": "113b8-113ba 113c2 113c5 113c7-113ca 113cc-113cd 113cf 1171e 1612a-1612c",
	"Mn": "897 10d69-10d6d 10efc 113bb-113c0 113ce 113d0 113d2 113e1-113e2 11f5a 1611e-16129 1612d-1612f " +
		"1e5ee-1e5ef",
	"Nd": "10d40-10d49 116d0-116e3 11bf0-11bf9 16130-16139 16d70-16d79 1ccf0-1ccf9 1e5f1-1e5fa",
	"Pd": "10d6e",
	"Po": "1b4e-1b4f 1b7f 113d4-113d5 113d7-113d8 11be1 16d6d-16d6f 1e5ff",
	"Sm": "10d8e-10d8f",
	"So": "2427-2429 2ffc-2fff 31e4-31e5 31ef 1cc00-1ccef 1cd00-1ceb3 1f8b2-1f8bb 1f8c0-1f8c1 1fa89 1fa8f 1fabe " +
		"1fac6 1fadc 1fadf 1fae9 1fbcb-1fbef",
}

// punctSince8 and accentSince8 are the punctuation and the non-spacing marks that version 8 does not know.
const (
	punctSince8 = "61d 9fd a76 c77 c84 1b7d-1b7e 2e43-2e4f 2e52-2e5d 10ead 10f55-10f59 10f86-10f89 1144b-1144f " +
		"1145a-1145b 1145d 11660-1166c 116b9 1183b 11944-11946 119e2 11a3f-11a46 11a9a-11a9c 11a9e-11aa2 " +
		"11b00-11b09 11c41-11c45 11c70-11c71 11ef7-11ef8 11f43-11f4f 11fff 12ff1-12ff2 16e97-16e9a 16fe2 " +
		"1e95e-1e95f"
	accentSince8 = "7fd 898-89f 8ca-8e1 9fe afa-aff b55 c04 c3c d00 d3b-d3c d81 eba ece 180f 1885-1886 1abf-1ace " +
		"1df6-1dfb a82c a8c5 a8ff a9bd 10d24-10d27 10eab-10eac 10efd-10eff 10f46-10f50 10f82-10f85 11070 " +
		"11073-11074 110c2 111c9 111cf 1123e 11241 1133b 11438-1143f 11442-11444 11446 1145e 1182f-11837 " +
		"11839-1183a 1193b-1193c 1193e 11943 119d4-119d7 119da-119db 119e0 11a01-11a0a 11a33-11a38 " +
		"11a3b-11a3e 11a47 11a51-11a56 11a59-11a5b 11a8a-11a96 11a98-11a99 11c30-11c36 11c38-11c3d 11c3f " +
		"11c92-11ca7 11caa-11cb0 11cb2-11cb3 11cb5-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47 " +
		"11d90-11d91 11d95 11d97 11ef3-11ef4 11f00-11f01 11f36-11f3a 11f40 11f42 13440 13447-13455 16f4f " +
		"16fe4 1cf00-1cf2d 1cf30-1cf46 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a 1e08f " +
		"1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e944-1e94a"
)

// hexSet reads a set written as above and skips anything else.
func hexSet(list string) charset {
	var ranges []runeRange
	for f := range strings.FieldsSeq(list) {
		first, last, isRange := strings.Cut(f, "-")
		if !isRange {
			last = first
		}
		lo, err1 := strconv.ParseUint(first, 16, 21)
		hi, err2 := strconv.ParseUint(last, 16, 21)
		if err1 == nil && err2 == nil {
			ranges = append(ranges, runeRange{rune(lo), rune(hi)})
		}
	}
	return charsetOf(ranges...)
}

// categorySet is a general category, or with a one-letter name all that begin with it.
func categorySet(name string) (charset, bool) {
	t, ok := unicode.Categories[name]
	if !ok {
		return nil, false
	}
	set := tableSet(t)
	for category, added := range unicode16 {
		if strings.HasPrefix(category, name) {
			set = set.union(hexSet(added))
		}
	}
	return set, true
}

// categories is the union of general categories, all of which exist.
func categories(names ...string) charset {
	var set charset
	for _, name := range names {
		s, _ := categorySet(name)
		set = set.union(s)
	}
	return set
}
