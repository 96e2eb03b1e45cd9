package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlclark/regexp2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func matches(f finder, text string) []string {
	var out []string
	f.each(text, func(start, end int) { out = append(out, text[start:end]) })
	return out
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          []string
	}{
		{`a|ab`, "ab", []string{"a"}},
		{`a*?b|c+?`, "aabcc", []string{"aab", "c", "c"}},
		{`(?i:'S|'ll)`, "'s 'LL 'ſ", []string{"'s", "'LL", "'ſ"}},
		{`a{2,3}`, "aaaaaaa", []string{"aaa", "aaa"}},
		{`a{,2}b|{x`, "aab{x", []string{"aab", "{x"}},
		{`\s+(?!\S)|\s`, "a   b  ", []string{"  ", " ", "  "}},
		{`a++b|a`, "aaab aa", []string{"aaab", "a", "a"}},
		{`a?+a|b`, "ab aa", []string{"b", "aa"}},
		{`[^\P{L}b-d]`, "abcde1", []string{"a", "e"}},
		{`[\p{L}&&[^\p{Lu}]]+`, "abCDef", []string{"ab", "ef"}},
		{`[]\-a]+`, "x]-a", []string{"]-a"}},
		{`\x41|\x{1F600}|B`, "A😀B", []string{"A", "😀", "\u0042"}},
		{`x$`, "x\nxx", []string{"x", "x"}},
		{`\s+$`, strings.Repeat(" ", 1000) + "a  ", []string{"  "}},
		{`\d{1,3}(?=(?:\d{3})*\b)`, "12345678 1234a 123", []string{"12", "345", "678", "123"}},
		{`\d{1,3}(?=(?:\d{3})*\b)`, "1\u093f 2½ 3①", []string{"3"}}, // as Oniguruma has it
		{`(?=(\d{3})+(?!\d))`, "12345678a123", []string{"", "", ""}},
		{`(?<=a)b`, "abb", []string{"b"}},
		{`[[:punct:]]`, "a+,", []string{"+", ","}},
	} {
		f, err := compilePattern(c.pattern)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := matches(f, c.text); !cmp.Equal(got, c.want) {
			t.Errorf("%s in %q: %q, want %q", c.pattern, c.text, got, c.want)
		}
	}
}

func TestBadPatterns(t *testing.T) {
	for _, p := range []string{"(a", "a)", "[a", `\`, "*a", "a{2000}", `\p{`, `\x{zz}`, `[b-a]`, strings.Repeat("(", 1000)} {
		if _, err := compilePattern(p); err == nil {
			t.Errorf("%.20q compiles", p)
		}
	}
	for _, p := range []string{`(?<=a)b`, `a(?=bc)`, `(?>a)`, `^a`, `a*`, `(ab)++`} {
		if _, err := compileDFA(p); !errors.Is(err, errUnsupported) {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// TestAutomatonEqualsBacktracking compares the automaton with a backtracking engine over every known pattern.
func TestAutomatonEqualsBacktracking(t *testing.T) {
	var patterns []string
	for _, p := range preTokenizers {
		patterns = append(patterns, p.patterns...)
	}
	slices.Sort(patterns)
	runes := []rune(" \t\n\r'aAzsStTllLrReEvVdDmM019٣①.,!?/(|_^$éßǅʰªM字仮한ह\u093f\u0301\u00a0\u2003€😀")
	compared := 0
	for _, p := range slices.Compact(patterns) {
		re, err := regexp2.Compile(p, regexp2.Unicode|regexp2.Multiline)
		if err != nil || strings.Contains(p, "&&") || strings.Contains(p, "++") || strings.Contains(p, `\b`) {
			continue // the other engine lacks the syntax, or has other word characters
		}
		f, err := compilePattern(p)
		if err != nil {
			t.Fatal(err)
		}
		compared++
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringOf(rapid.SampledFrom(runes)).Draw(t, "text")
			if got, want := matches(f, text), matches(backtracking{re}, text); !cmp.Equal(got, want) {
				t.Fatalf("%s in %q\n got %q\nwant %q", p, text, got, want)
			}
		})
	}
	if compared < 20 {
		t.Fatalf("only %d patterns compared", compared)
	}
}

func TestDigitsOfKnownWidth(t *testing.T) {
	for n := 1; n < 40; n++ {
		text := strings.Repeat("1", n)
		total, first := 0, 0
		for i, m := range matches(groupDigits{boundary: true}, text) {
			if total += len(m); i == 0 {
				first = len(m)
			}
		}
		if total != n || first != (n-1)%3+1 {
			t.Errorf("%d digits: the first group has %d, all %d", n, first, total)
		}
	}
}
