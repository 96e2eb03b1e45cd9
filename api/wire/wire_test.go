package wire

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"unicode/utf8"
)

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\b\f\n\r\t\x00\x1f\x7f", "é😀\u2028\u2029", "\xff\xe2\x82", "<&>", "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendString(nil, s); string(got)+"\n" != string(want) {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	})
}

// FuzzDecode reads any body as a tree of values. What is accepted is valid JSON, and every error names itself.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,-2.5e3,true,null,{"b":"\ud83d\ude00"}]}`, `{"a":1,"a":2}`, `{"a":[[[`, `{"a":"\x"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		err := Decode(body, func(c *Cursor, key string) error {
			raw, err := c.Raw()
			if err == nil && !json.Valid(raw) {
				t.Errorf("%q: member %q was read as %q, which is no JSON", body, key, raw)
			}
			return err
		})
		var bad *Error
		switch {
		case err == nil && !json.Valid(body):
			t.Errorf("%q was accepted", body)
		case err != nil && (!errors.As(err, &bad) || bad.Code == "" || bad.Message == "" || !utf8.ValidString(bad.Message)):
			t.Errorf("%q: %#v", body, err)
		}
	})
}

func TestInert(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":{ "type" : "text" }}`: "",
		`{"a":[]}`:                  "",
		`{"a":[1]}`:                 `a: not supported, except as {"type":"text"} or []; found [1]`,
		`{"a":"\"x y\""}`:           `a: not supported, except as {"type":"text"} or []; found "\"x y\""`,
	} {
		err := Decode([]byte(body), func(c *Cursor, _ string) error { return c.Inert(`{"type":"text"}`, "[]") })
		if err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// TestKind holds that looking ahead consumes nothing, and that ignored members are named.
func TestKind(t *testing.T) {
	var kinds []string
	var ignored []string
	err := Decode([]byte(`{"a":[{"x":{"type":"no"},"type":"one"},{"type":5},{"y":[1]},7]}`), func(c *Cursor, key string) error {
		err := c.Array("a list", func(int) error {
			kinds = append(kinds, c.Kind("type"))
			if c.Peek() != '{' {
				return c.Skip()
			}
			return c.Object(func(string) error { return c.Ignore() })
		})
		ignored = c.Ignored()
		return err
	})
	if want := []string{"one", "", "", ""}; err != nil || !slices.Equal(kinds, want) {
		t.Errorf("kinds are %q (%v), want %q", kinds, err, want)
	}
	if want := []string{"a[0].x", "a[0].type", "a[1].type", "a[2].y"}; !slices.Equal(ignored, want) {
		t.Errorf("ignored %q, want %q", ignored, want)
	}
}
