package jinja

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// fixedNow is the clock that the expected outputs were made with.
func fixedNow() time.Time { return time.Date(2026, 7, 4, 15, 6, 7, 0, time.UTC) }

// TestExpressions compares with outputs of Python's jinja2 3.1.6 in a sandbox set up as transformers does, but for
// lists and dicts that can be changed. The first line of the file has the variables; "error" lines fail there too.
func TestExpressions(t *testing.T) {
	f, err := os.Open("testdata/expressions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	var vars *Dict
	n := 0
	for lines.Scan() {
		var c struct {
			Variables                json.RawMessage
			Template, Output, Raises string
			Error                    bool
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Variables != nil {
			vars = mustDecode(t, string(c.Variables))
			continue
		}
		n++
		got, err := renderText(c.Template, vars)
		var raised *RaisedError
		switch {
		case c.Raises != "":
			if !errors.As(err, &raised) || raised.Message != c.Raises {
				t.Errorf("%s\n got %q, %v\nwant the exception %q", c.Template, got, err, c.Raises)
			}
		case c.Error:
			if err == nil || errors.As(err, &raised) {
				t.Errorf("%s\n got %q, %v\nwant an error", c.Template, got, err)
			}
		case err != nil || got != c.Output:
			t.Errorf("%s\n got %q, %v\nwant %q", c.Template, got, err, c.Output)
		}
	}
	if n < 250 {
		t.Errorf("only %d cases were read", n)
	}
}

func mustDecode(t testing.TB, text string) *Dict {
	t.Helper()
	v, err := DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.(*Dict)
}

func renderText(source string, vars *Dict) (string, error) {
	tmpl, err := Parse("", source)
	if err != nil {
		return "", err
	}
	return tmpl.Render(context.Background(), vars, fixedNow)
}

func TestErrorsNameTemplateAndLine(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"a\n{{ x|foo }}", `template T line 2: unknown filter "foo"`},
		{"a\n\n{{ x is foo }}", `template T line 3: unknown test "foo"`},
		{"{% foo %}", `template T line 1: unknown tag "foo"`},
		{"{% include 'x' %}", `template T line 1: tag "include" is not supported in a chat template`},
		{"{% if a %}\n\nx", `template T line 3: expected tag "endif" for the block opened on line 1, found the end of the template`},
		{"\n{{ a b }}", `template T line 2: expected "}}", found "b"`},
		{"{{ (1 }}", `template T line 1: expected ")", found "}"`},
		{"\n\n{{ 'x }}", `template T line 3: string literal is not closed: expected "'", found the end of the template`},
		{"{{ a.b.c }}", `template T line 1: "a" is undefined`},
		{"{% set d = {} %}\n{{ d.b.c }}", `template T line 2: dict has no key "b"`},
		{"{% for i in [1,\n2] %}\n{{ i + 'x' }}{% endfor %}", `template T line 3: unsupported operands for +: "int" and "str"`},
		{"\n{{ raise_exception('no ' ~ 1) }}", `template T line 2: refused the input: no 1`},
		{"{{ 'x'|indent(wide=1) }}", `template T line 1: filter indent: takes no argument "wide"`},
		{"{% macro m() %}\n{{ 1/0 }}{% endmacro %}\n{{ m() }}", `template T line 2: division by zero`},
	} {
		tmpl, err := Parse("T", c.source)
		if err == nil {
			_, err = tmpl.Render(t.Context(), nil, fixedNow)
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%q\n got %v\nwant %s", c.source, err, c.want)
		}
	}
}

func TestHostileTemplatesAreStopped(t *testing.T) {
	doubling := "{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
	for name, source := range map[string]string{
		"range":             "{% for i in range(10**9) %}{% endfor %}",
		"nested loops":      strings.Repeat("{% for i in range(1000) %}", 5) + strings.Repeat("{% endfor %}", 5),
		"repeat":            "{{ 'a' * 10**9 }}",
		"repeat list":       "{{ [1] * 10**12 }}",
		"doubling":          "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
		"doubling +":        "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
		"shared, printed":   doubling + "{{ ns.x }}",
		"shared, as JSON":   doubling + "{{ ns.x|tojson }}",
		"shared, compared":  doubling + "{% set a = ns.x %}" + doubling + "{{ a == ns.x }}",
		"output":            "{% for i in range(100000) %}{{ 'a' * 1000 }}{% endfor %}",
		"macro":             "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"macro by branches": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}",
		"loop recursion":    "{% set l = [] %}{% set _ = l.append(l) %}{% for x in l recursive %}{{ loop(x) }}{% endfor %}",
		"cycle, printed":    "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}",
		"cycle, as JSON":    "{% set d = {} %}{% set _ = d.update(a=d) %}{{ d|tojson }}",
		"power":             "{{ 10 ** 10 ** 5 ** 5 }}{{ 10 ** 100000 }}",
		"power of power":    "{% set ns = namespace(x=3) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
		"parentheses":       "{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}",
		"lists":             "{{ " + strings.Repeat("[", 100000) + " }}",
		"unary":             "{{ " + strings.Repeat("-", 100001) + "1 }}",
		"not":               "{{ " + strings.Repeat("not ", 100001) + "1 }}",
		"ifs":               strings.Repeat("{% if 1 %}", 50000),
		"sum":               "{{ 1" + strings.Repeat("+1", 100000) + " }}",
		"attributes":        "{{ a" + strings.Repeat(".a", 100000) + " }}",
		"filters":           "{{ a" + strings.Repeat("|list", 100000) + " }}",
		"set targets":       "{% set " + strings.Repeat("(", 100000) + "a = 1 %}",
		"width":             "{{ '%1000000000d' % 1 }}",
		"format width":      "{{ '{:1000000000}'.format(1) }}",
		"center":            "{{ 'a'|center(10**10) }}",
		"zfill":             "{{ 'a'.zfill(10**10) }}",
		"indent":            "{{ ('a\n' * 100000)|indent(10000) }}",
		"replace":           "{{ ('a' * 100000)|replace('a', 'b' * 100000) }}",
		"join":              "{{ (['a'] * 100000)|join('b' * 100000) }}",
		"json indent":       "{{ [1]|tojson(indent=10**9) }}",
		"batch":             "{{ [1]|batch(10**9, 'x')|list }}",
		"slice filter":      "{{ [1]|slice(10**9)|list }}",
		"scan":              "{% set s = 'a' * 30000000 %}{% for i in range(100000) %}{% if 'b' in s %}{% endif %}{% endfor %}",
		"strip":             "{% set s = 'a' * 30000000 %}{% for i in range(100000) %}{{ s.strip('ba')|length }}{% endfor %}",
		"dict pops":         "{% set d = {} %}{% for i in range(90000) %}{% set _ = d.update({i: i}) %}{% endfor %}{% for i in range(90000) %}{% set _ = d.pop(i) %}{% endfor %}",
		"many names":        "{% set x = 1 %}" + strings.Repeat("{% with %}", 40000),
		"source":            strings.Repeat("x", maxSource+1),
	} {
		if _, err := renderText(source, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRenderCopiesItsVariables(t *testing.T) {
	vars := mustDecode(t, `{"l": [1], "d": {"a": {"b": 2}}}`)
	const source = "{% set _ = l.append(2) %}{% set _ = d.a.pop('b') %}{{ l }}{{ d }}"
	for range 2 {
		got, err := renderText(source, vars)
		if want := "[1, 2]{'a': {}}"; got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

func TestGoValues(t *testing.T) {
	vars := NewDict()
	vars.Set("m", map[string]any{"b": 1, "a": []any{true, nil, 1.5, "x"}})
	got, err := renderText("{{ m|tojson }}", vars)
	if want := `{"a": [true, null, 1.5, "x"], "b": 1}`; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	vars.Set("c", make(chan int))
	if _, err := renderText("", vars); err == nil || !strings.Contains(err.Error(), `variable "c": a template cannot hold`) {
		t.Errorf("a channel as variable: %v", err)
	}
}

func TestDecodeJSON(t *testing.T) {
	for _, text := range []string{``, `{`, `[1,]`, `1 2`, `{"a":1}}`, `nul`, `"\x"`, strings.Repeat("[", 100000), `{1:2}`} {
		if v, err := DecodeJSON([]byte(text)); err == nil {
			t.Errorf("%.20q: got %v, want an error", text, v)
		}
	}
	const text = `{"z": 1, "a": [1.0, -0, 123456789012345678901234567890, 1e2, "é\u0001"], "m": {"y": null, "b": true}}`
	vars := NewDict()
	v, err := DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	vars.Set("v", v)
	got, err := renderText("{{ v|tojson }}", vars)
	want := `{"z": 1, "a": [1.0, 0, 123456789012345678901234567890, 100.0, "é\u0001"], "m": {"y": null, "b": true}}`
	if got != want || err != nil {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func FuzzParseRender(f *testing.F) {
	file, err := os.ReadFile("testdata/expressions.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		var c struct{ Template string }
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			f.Fatal(err)
		}
		f.Add(c.Template)
	}
	vars := mustDecode(f, `{"a": 1, "s": "héllo", "l": [3, 1, 2], "d": {"x": {"y": [1]}}, "messages": [{"role": "user", "content": "hi"}]}`)
	f.Fuzz(func(t *testing.T, source string) {
		out, err := renderText(source, vars)
		var e *Error
		var raised *RaisedError
		if err != nil && !errors.As(err, &e) && !errors.As(err, &raised) {
			t.Errorf("error of type %T: %v", err, err)
		}
		if len(out) > maxString {
			t.Errorf("%d bytes of output", len(out))
		}
	})
}
