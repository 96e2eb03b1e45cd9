package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"pgregory.net/rapid"
)

// wrapped writes pieces of a text to a terminal of some width.
func wrapped(width int, pieces ...string) string {
	var out strings.Builder
	w := &wrapper{w: &out, width: width, plain: true}
	for _, p := range pieces {
		w.Write([]byte(p))
	}
	w.flush()
	return out.String()
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		width    int
		in, want string
	}{
		{10, "the quick brown fox", "the quick\nbrown fox"},
		{10, "a\n\nb  c\n", "a\n\nb  c\n"},
		{10, "12345678901234567 x", "1234567890\n1234567 x"},
		{10, "猫猫猫猫猫猫", "猫猫猫猫猫\n猫"},
		{10, "```go\nif err != nil { return err }\n```\nthe quick brown", "```go\nif err != nil { return err }\n```\nthe quick\nbrown"},
		{0, "the quick brown fox jumps", "the quick brown fox jumps"},
	} {
		if got := wrapped(tt.width, tt.in); got != tt.want {
			t.Errorf("%q at %d columns is %q; want %q", tt.in, tt.width, got, tt.want)
		}
	}
}

// TestWrapPieces makes sure that pieces do not matter, that lines fit, and that no word is lost.
func TestWrapPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching("[a-c猫 \n]{0,80}").Draw(t, "text")
		width := rapid.IntRange(4, 20).Draw(t, "width")
		whole := wrapped(width, text)
		var pieces []string
		for _, r := range text {
			pieces = append(pieces, string(r))
		}
		if got := wrapped(width, pieces...); got != whole {
			t.Fatalf("in pieces %q; whole %q", got, whole)
		}
		for _, line := range strings.Split(whole, "\n") {
			if runewidth.StringWidth(line) > width {
				t.Fatalf("%q is wider than %d", line, width)
			}
		}
		letters := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if letters(whole) != letters(text) {
			t.Fatalf("%q became %q", text, whole)
		}
	})
}

// TestMarkdown shows styles as <n>: the parameters of the terminal's sequence.
func TestMarkdown(t *testing.T) {
	readable := strings.NewReplacer("\x1b[0m", "<>", "\x1b[0;1m", "<b>", "\x1b[0;1;4m", "<bu>", "\x1b[0;2m", "<dim>", "\x1b[0;3m", "<i>",
		"\x1b[0;1;3m", "<bi>", "\x1b[0;36m", "<code>", "\x1b[0;1;36m", "<b code>")
	for in, want := range map[string]string{
		"# Title\ntext":                            "<bu>Title<>\ntext",
		"### Third of *it*\n":                      "<b>Third of <bi>it<>\n",
		"a **bold word** and *it*, `x := 1`.":      "a <b>bold word<> and <i>it<>, <code>x :=<>\n<code>1<>.",
		"**with `code`**":                          "<b>with <b code>code<>",
		"2 * 3, 2**3, my_own_x a*b":                "2 * 3, 2**3, my_own_x a*b",
		"open **never ends\nnext ` line":           "open **never ends\nnext ` line",
		"这是**重点**内容":                               "这是<b>重点<>内容",
		"- one two three four five six\n- b":       "• one two three four five\n  six\n• b",
		"12. one two three four five six":          "12. one two three four\n    five six",
		"> quoted":                                 "<dim>│ quoted<>",
		"```go\nx := *p // **no**\n```\nafter *i*": "<dim>```go<>\n<code>x := *p // **no**<>\n<dim>```<>\nafter <i>i<>",
		"| a | b | c | d | e | f | g | h |\n":      "| a | b | c | d | e | f | g | h |\n",
		`\*not\* so`:                               "*not* so",
		"bell\a and \x1b]0;title":                  "bell� and �]0;title",
		"---\n":                                    strings.Repeat("─", 26) + "\n",
		"#hash **":                                 "#hash **",
	} {
		for _, whole := range []bool{true, false} {
			var out strings.Builder
			w := &wrapper{w: &out, width: 26}
			if whole {
				w.Write([]byte(in))
			} else {
				for _, r := range in {
					w.Write([]byte(string(r)))
				}
			}
			w.flush()
			if got := readable.Replace(out.String()); got != want {
				t.Errorf("%q is shown as\n%q; want\n%q (whole: %v)", in, got, want, whole)
			}
		}
	}
}

// TestMarkdownKeepsWords makes sure that text is lost nowhere but for marks, and that nothing is steered.
func TestMarkdownKeepsWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching("([a-c猫*_`# \\x1b\n-]|```){0,80}").Draw(t, "text")
		var out strings.Builder
		w := &wrapper{w: &out, width: rapid.IntRange(6, 20).Draw(t, "width")}
		w.Write([]byte(text))
		w.flush()
		shown := regexp.MustCompile("\x1b\\[0[;0-9]*m").ReplaceAllString(out.String(), "")
		if strings.Contains(shown, "\x1b") {
			t.Fatalf("%q sends %q", text, out.String())
		}
		letters := func(s string) string { return regexp.MustCompile("[^a-c猫]").ReplaceAllString(s, "") }
		if letters(shown) != letters(text) {
			t.Fatalf("%q is shown as %q", text, shown)
		}
	})
}
