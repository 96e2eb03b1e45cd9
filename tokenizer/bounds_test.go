package tokenizer

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// loadTiny loads the tokenizer of tinyJSON.
func loadTiny(t *testing.T, fields string) (*Tokenizer, error) {
	t.Helper()
	return Load(filepath.Join(writeFolder(t, map[string]string{"tokenizer.json": tinyJSON(fields)}), "tokenizer.json"))
}

// TestNormalizersThatGrow holds that a tokenizer whose rules multiply a text fails on it, or is refused.
func TestNormalizersThatGrow(t *testing.T) {
	double := `{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"},`
	tok, err := loadTiny(t, `"normalizer": {"type": "Sequence", "normalizers": [`+strings.TrimSuffix(strings.Repeat(double, 28), ",")+`]},`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.EncodeContext(t.Context(), strings.Repeat("a", 1000), EncodeOptions{}); err == nil || !strings.Contains(err.Error(), "of 1000") {
		t.Errorf("28 doublings: error %v", err)
	}
	if ids := tok.Encode(strings.Repeat("a", 1000), EncodeOptions{}); ids != nil {
		t.Errorf("Encode returns %d ids of a text that fails", len(ids))
	}
	for _, one := range []string{
		`{"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaa"}`,
		`{"type": "Replace", "pattern": {"Regex": "(?<=a)b"}, "content": "a"}`,
		`{"type": "Prepend", "prepend": "` + strings.Repeat("a", 600) + `"}`,
	} {
		if _, err := loadTiny(t, `"normalizer": `+one+`,`); err == nil {
			t.Errorf("%.60s is taken", one)
		}
	}
}

// TestEncodeEnds holds that encoding ends with its context, in one long word as well, and that a later text is encoded
// as if it had not begun.
func TestEncodeEnds(t *testing.T) {
	tok, err := loadTiny(t, "")
	if err != nil {
		t.Fatal(err)
	}
	left := errors.New("left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	for _, text := range []string{"ab", strings.Repeat("ab", 1<<17), strings.Repeat("ab ", 1<<17)} {
		if ids, err := tok.EncodeContext(ctx, text, EncodeOptions{}); !errors.Is(err, left) || len(ids) > 0 {
			t.Errorf("%d ids of %d bytes, %v", len(ids), len(text), err)
		}
		want := tok.Encode(text, EncodeOptions{})
		if got, err := tok.EncodeContext(t.Context(), text, EncodeOptions{}); err != nil || len(got) != len(want) || len(got) == 0 {
			t.Errorf("%d ids of %d bytes, %v", len(got), len(text), err)
		}
	}
}

// TestBacktrackingEnds holds that a pattern that takes exponentially long is an error, not a wait.
func TestBacktrackingEnds(t *testing.T) {
	f, err := compilePattern(`(?:x+x+)+(?<=zz)y`)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.each(strings.Repeat("x", 60), func(int, int) {}); err == nil {
		t.Error("no error")
	}
}
