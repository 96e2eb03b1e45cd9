package grammar

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/reference"
)

// TestTakes has a line for each grammar: outputs that it takes, and outputs that it does not.
func TestTakes(t *testing.T) {
	v := byteVocab()
	for _, c := range []struct {
		name    string
		spec    Spec
		yes, no []string
	}{
		{"json", Spec{JSON: true}, []string{`{}`, `{"a": [1, -2.5e3, "x\u00e9\n", null, {"b": true}]}`}, []string{`[1]`, `{`, `{"a":01}`, `{"a":"` + "\n" + `"}`}},
		{"compact", Spec{JSON: true, Compact: true}, []string{`{"a":[1,2]}`, `{"a": [1, 2]}`}, []string{`{"a" :1}`, `{ "a":1}`, "{\"a\":\n1}", `{"a":  1}`, `{"a":[1 ,2]}`}},
		{"choice", Spec{Choice: []string{"red", "green", "re"}}, []string{"red", "green", "re"}, []string{"", "r", "redgreen"}},
		{"regex", Spec{Regex: `(foo|ba[rz]){2,3}\d?`}, []string{"foobar", "bazbazfoo7"}, []string{"foo", "foobar77", "xfoobar"}},
		{"anchors", Spec{Regex: `^a+$`}, []string{"a", "aaa"}, []string{"", "ab"}},
		{"ahead", Spec{Regex: `(?=.*\d)(?!.*xx)[a-z0-9]{3,5}`}, []string{"ab1", "1abcd"}, []string{"abc", "a1xx", "ab1234"}},
		{"case", Spec{Regex: `(?i)straße[A-F]`}, []string{"STRAßEa", "straßeF"}, []string{"strasseg"}},
		{"property", Spec{Regex: `\p{Lu}\p{Nd}+`}, []string{"É12", "A٣"}, []string{"é12", "A"}},
		{"gbnf", Spec{Grammar: "root ::= \"(\" root \")\" | [a-c]+ # nested\n"}, []string{"a", "((abc))"}, []string{"(a", "()", "d"}},
		{"left", Spec{Grammar: "root ::= root \"+\" num | num\nnum ::= [0-9]{1,3}"}, []string{"1", "1+22+333"}, []string{"+1", "1+", "1234"}},
		{"ambiguous", Spec{Grammar: `root ::= "a" root "b" | "a" root | "a"`}, []string{"a", "aaab", "aaaabb"}, []string{"abb", "b", "aab" + "b"}},
		{"lines", Spec{Grammar: "root  ::= x |\n  y\nx ::= (\"x\"\n  \"1\")?\ny ::= '\\x41\\u00e9' \"\\\"\""}, []string{"", "x1", "Aé\""}, []string{"x", "A"}},
		{"token", Spec{Grammar: `root ::= "a" <[256]>`}, nil, []string{"a"}},
		{"tags", Spec{Tags: &Tags{Triggers: []string{"<f"}, Tags: []Tag{
			{Begin: "<f=a>", Content: Spec{Regex: `\d+`}, End: "</f>"}, {Begin: "<f=b>", Content: Spec{JSON: true}, End: "</f>"}}}},
			[]string{"", "hello < f", "x<f=a>12</f>y<f=b>{}</f>"}, []string{"<f", "<f=c>", "<f=a>x</f>", "<f=a>1"}},
		{"one tag", Spec{Tags: &Tags{Tags: []Tag{{Begin: "[", Content: Spec{Choice: []string{"x"}}, End: "]"}}, AtLeast: 1, AtMost: 2, NoText: true}},
			[]string{"[x]", "[x][x]"}, []string{"", "[x][x][x]", "a[x]"}},
		{"between", Spec{Tags: &Tags{Tags: []Tag{{Begin: "[", Content: Spec{Regex: "[a-z]"}, End: "]"}}, AtLeast: 1, NoText: true, Between: ", "}},
			[]string{"[x]", "[x], [y], [z]"}, []string{"", ", [x]", "[x][y]", "[x], "}},
		{"between up to two", Spec{Tags: &Tags{Tags: []Tag{{Begin: "x", Content: Spec{Choice: []string{"y"}}}}, AtMost: 2, NoText: true, Between: "-"}},
			[]string{"", "xy", "xy-xy"}, []string{"xy-", "-xy", "xy-xy-xy"}},
		{"ordered", Spec{Ordered: true, Schema: []byte(`{"properties": {"a": {}, "b": {}}, "required": ["b"], "type": "object"}`)},
			[]string{`{"a":1,"b":2}`, `{"b":2,"c":3}`}, []string{`{"b":2,"a":1}`, `{"c":3,"b":2}`}},
		{"any order", Spec{Schema: []byte(`{"properties": {"a": {}, "b": {}}, "required": ["b"], "type": "object", "maxProperties": 2}`)},
			[]string{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{"c":3,"b":2}`}, []string{`{"a":1}`, `{"a":1,"c":2,"b":3}`, `{"b":1,"b":2}`}},
		{"numbers", Spec{Schema: []byte(`{"type": "number", "minimum": -1.5, "exclusiveMaximum": 12.25, "multipleOf": 0.25}`)},
			[]string{"-1.5", "0", "12", "12.0", "0.75", "-0.250"}, []string{"-1.75", "12.25", "0.3", "1e1", "01", "-"}},
		{"integers", Spec{Schema: []byte(`{"type": "integer", "minimum": -5, "maximum": 1234}`)},
			[]string{"-5", "0", "999", "1234"}, []string{"-6", "1235", "1.5", "00", "10000"}},
		{"name", Spec{Schema: []byte(`{"type": "object", "properties": {"né": {"type": "null"}}, "additionalProperties": {"type": "boolean"}}`)},
			[]string{`{"né":null,"n":true}`, `{"nés":false}`}, []string{`{"n\u00e9":true}`, `{"né":true}`, `{"n":null}`}},
		{"length", Spec{Schema: []byte(`{"type": "string", "minLength": 2, "maxLength": 3}`)},
			[]string{`"ab"`, `"\ud83d\ude00é"`, `"日本語"`}, []string{`"a"`, `"abcd"`, `"\ud83dab"`}},
		{"not", Spec{Schema: []byte(`{"not": {"anyOf": [{"enum": ["a", 3, null]}, {"type": "object", "required": ["x"]}, {"type": "array", "maxItems": 1}, {"type": "string", "pattern": "^é"}]}}`)},
			[]string{`"b"`, `""`, `2`, `3.5`, `true`, `{}`, `{"y":1}`, `[1,2]`}, []string{`"a"`, `3`, `3.0`, `null`, `{"x":1}`, `[]`, `[1]`, `"é1"`, `"\u00e9"`, `"\u0061"`}},
		{"not all", Spec{Schema: []byte(`{"type": "object", "not": {"properties": {"a": {"const": 1}, "b": {"minimum": 5}}}}`)},
			[]string{`{"a":2}`, `{"b":4,"a":1}`, `{"a":"1"}`}, []string{`{}`, `{"a":1}`, `{"b":5}`, `{"b":"x"}`}},
		{"contains", Spec{Schema: []byte(`{"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5}, "minContains": 2, "minItems": 3}`)},
			[]string{"[5,6,7]", "[1,5,1,1,9]", "[7,7,1]"}, []string{"[]", "[5,6]", "[1,5,1]", "[1,2,3,4]", `[5,6,"x"]`}},
		{"contains at most", Spec{Schema: []byte(`{"type": "array", "prefixItems": [{"const": "a"}], "contains": {"type": "string"}, "maxContains": 2, "maxItems": 4}`)},
			[]string{`["a"]`, `["a",1,"b"]`, `["a",1,2,null]`}, []string{"[]", `["b"]`, `["a","b","c"]`, `["a",1,2,3,4]`}},
		{"contains any number", Spec{Schema: []byte(`{"type": "array", "contains": {"type": "string"}, "minContains": 0}`)}, []string{"[]", "[1]", `["a"]`}, nil},
		{"unique", Spec{Schema: []byte(`{"type": "array", "items": {"enum": ["a", 1, null, "a", [2], 1.0]}, "uniqueItems": true, "minItems": 1, "maxItems": 3}`)},
			[]string{`["a"]`, `[1, null]`, `[[2],1.0,"a"]`}, []string{"[]", `["a","a"]`, "[1,1.0]", `["a",1,null,[2]]`, `["b"]`}},
		{"one unique", Spec{Schema: []byte(`{"type": "array", "uniqueItems": true, "maxItems": 1}`)}, []string{"[]", "[3]"}, []string{"[3,4]"}},
		{"unevaluated", Spec{Schema: []byte(`{"type": "object", "properties": {"a": {}}, "allOf": [{"$ref": "#/$defs/b"}], "unevaluatedProperties": {"type": "null"},
			"$defs": {"b": {"properties": {"b": {"type": "integer"}}, "patternProperties": {"^x": {}}}}}`)},
			[]string{`{"a":true,"b":1,"xy":2}`, `{"c":null}`}, []string{`{"c":1}`, `{"b":"s"}`}},
		{"unevaluated of one", Spec{Schema: []byte(`{"type": "object", "oneOf": [{"properties": {"k": {"const": 1}, "a": {}}, "required": ["k"]},
			{"properties": {"k": {"const": 2}, "b": {}}, "required": ["k"]}], "unevaluatedProperties": false}`)},
			[]string{`{"k":1,"a":0}`, `{"k":2,"b":0}`}, []string{`{"k":1,"b":0}`, `{"k":2,"b":0,"c":0}`}},
		{"unevaluated after if", Spec{Schema: []byte(`{"type": "object", "if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"properties": {"a": {}}},
			"else": {"properties": {"b": {}}}, "unevaluatedProperties": false}`)},
			[]string{`{"k":1,"a":0}`, `{"b":0}`, `{}`}, []string{`{"k":1,"b":0}`, `{"k":2}`, `{"a":0}`}},
		{"unevaluated items", Spec{Schema: []byte(`{"type": "array", "prefixItems": [{"const": 1}], "allOf": [{"prefixItems": [{}, {"type": "string"}]}], "unevaluatedItems": {"type": "null"}}`)},
			[]string{`[]`, `[1,"x"]`, `[1,"x",null,null]`}, []string{`[1,2]`, `[1,"x",3]`}},
		{"if", Spec{Schema: []byte(`{"if": {"properties": {"k": {"const": "n"}}, "required": ["k"]}, "then": {"properties": {"v": {"type": "number"}}},
			"else": {"required": ["w"]}, "type": "object"}`)},
			[]string{`{"k":"n","v":1}`, `{"k":"n"}`, `{"k":"m","w":0}`, `{"w":1,"v":"x"}`}, []string{`{"k":"n","v":"1"}`, `{"k":"m"}`, `{}`}},
		{"one of two", Spec{Schema: []byte(`{"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"c": {"oneOf": [{"minimum": 2}, {"type": "number"}]}}}`)},
			[]string{`{"a":1}`, `{"b":1,"c":1}`, `{"a":1,"c":"x"}`}, []string{`{}`, `{"a":1,"b":1}`, `{"a":1,"c":2}`}},
		{"dependent", Spec{Schema: []byte(`{"type": "object", "dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"properties": {"d": false}}}}`)},
			[]string{`{}`, `{"a":1,"b":2}`, `{"b":1,"d":2}`, `{"c":1}`}, []string{`{"a":1}`, `{"c":1,"d":2}`}},
		{"tree", Spec{Schema: []byte(`{"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"l": {"$ref": "#/$defs/t"}}, "additionalProperties": false}}}`)},
			[]string{`{}`, `{"l":{"l":{}}}`}, []string{`{"l":1}`, `{"r":{}}`}},
	} {
		g, err := Compile(c.spec, v, Limits{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, s := range c.yes {
			if !takes(g, []byte(s)) {
				t.Errorf("%s refuses %q", c.name, s)
			}
		}
		for _, s := range c.no {
			if takes(g, []byte(s)) {
				t.Errorf("%s takes %q", c.name, s)
			}
		}
	}
}

// TestRefused has a line for each spec that cannot be used: where and what the error says.
func TestRefused(t *testing.T) {
	v := byteVocab()
	schema := func(s string) Spec { return Spec{Schema: []byte(s)} }
	for _, c := range []struct {
		spec       Spec
		path, says string
	}{
		{Spec{}, "", "0 kinds of constraints"},
		{Spec{JSON: true, Regex: "a"}, "", "2 kinds"},
		{schema(`{`), "", "is not JSON"},
		{schema(`{"properties": {"x": {"not": {"multipleOf": 2}}}}`), "properties.x.not.multipleOf", `"multipleOf" is not supported within not`},
		{schema(`{"not": {"type": ["integer", "null"]}}`), "not.type", `"integer" is not supported within not`},
		{schema(`{"not": {"$ref": "#"}}`), "", "no output fits"},
		{schema(`{"not": {}}`), "", "no output fits"},
		{schema(`{"$schema": "http://json-schema.org/draft-07/schema#", "dependentRequired": {"a": ["b"]}}`), "dependentRequired", "is not of this draft"},
		{schema(`{"items": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}`), "items.uniqueItems", "only where enum or const"},
		{schema(`{"contains": {}, "allOf": [{"contains": {"type": "null"}}]}`), "contains", "once in a list"},
		{schema(`{"unevaluatedProperties": false, "allOf": [{"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}]}`), "unevaluatedProperties", "anyOf"},
		{schema(`{"unevaluatedItems": false, "allOf": [{"not": {"prefixItems": [{}, {"type": "null"}]}}]}`), "unevaluatedItems", "not"},
		{schema(`{"items": [{"type": "text"}]}`), "items[0].type", `"text" is no type`},
		{schema(`{"properties": {"x": {"pattern": "a(b"}}}`), "properties.x.pattern", "( without a )"},
		{schema(`{"pattern": "(?<=a)b"}`), "pattern", "looks behind"},
		{schema(`{"pattern": "(.{1,63}\\.){1,127}(?!.*x)(?=.{1,255}$)(.{1,63}\\.){1,127}"}`), "pattern", "too many states"},
		{schema(`{"type": "string", "format": "iri"}`), "format", `"iri" is not supported`},
		{schema(`{"oneOf": [{"type": "number"}, {"type": "integer"}]}`), "oneOf", "no value can fit two"},
		{schema(`{"$ref": "http://example.com/x"}`), "$ref", "another document"},
		{schema(`{"$ref": "#/a"}`), "$ref", "not there"},
		{schema(`{"$ref": "#"}`), "", "refers to itself"},
		{schema(`{"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}`), "", "no output fits"},
		{schema(`{"type": "integer", "minimum": 3, "maximum": 2}`), "", "no output fits"},
		{schema(strings.Repeat(`{"items":`, 1000) + "{}" + strings.Repeat("}", 1000)), "", "too deep"},
		{Spec{Regex: `(a`}, "", "( without a )"},
		{Spec{Regex: `a{2,1}`}, "", "above its most"},
		{Spec{Regex: strings.Repeat("(", 1000)}, "", "nested"},
		{Spec{Regex: strings.Repeat("a", 2<<20)}, "", "bytes; want at most"},
		{Spec{Grammar: `x ::= "a"`}, "", "no rule root"},
		{Spec{Grammar: `root ::= a`}, "a", "no rule defines it"},
		{Spec{Grammar: "root ::= \"a\"\nroot ::= \"b\""}, "line 2", "twice"},
		{Spec{Grammar: "root ::= a \"x\"\na ::= root \"y\" | \"z\""}, "", "left recursion"},
		{Spec{Grammar: "root ::= root"}, "", "no output fits"},
		{Spec{Grammar: "root ::= <nothing>"}, "line 1", "no special token"},
		{Spec{Tags: &Tags{Tags: []Tag{{Begin: "<a>", Content: Spec{Regex: "("}}}}}, "tags[0].content", "( without a )"},
		{Spec{Tags: &Tags{Triggers: []string{"x"}, Tags: []Tag{{Begin: "<a>", Content: Spec{JSON: true}}}}}, "tags[0].begin", "no trigger"},
	} {
		_, err := Compile(c.spec, v, Limits{})
		var e *Error
		if !errors.As(err, &e) || e.Path != c.path || !strings.Contains(e.Problem, c.says) {
			t.Errorf("%.200s %s: got %v, want %q at %q", c.spec.Schema, c.spec.Grammar, err, c.says, c.path)
		}
	}
}

// TestSpecial lets a grammar name a special token, which no text stands for.
func TestSpecial(t *testing.T) {
	tokens := []Token{{Bytes: []byte("a")}, {Bytes: []byte("<call>"), Special: true}, {Bytes: []byte("<end>"), Special: true}, {Bytes: []byte("<call>")}, {}}
	v := NewVocab(tokens, []int32{2}, nil)
	for _, spec := range []Spec{
		{Grammar: `root ::= "a" <call> "a"`},
		{Tags: &Tags{Tags: []Tag{{Begin: "<call>", Content: Spec{Choice: []string{"a"}}}}, AtLeast: 1, AtMost: 1}},
	} {
		g, err := Compile(spec, v, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		m := g.Start()
		for i, want := range []uint32{0b1, 0b10, 0b1} {
			mask := make([]uint32, 1)
			m.Mask(mask)
			if spec.Tags != nil && i < 2 {
				want = 0b1011 // text: an a, the call, or its spelling as text
			}
			if mask[0] != want {
				t.Errorf("step %d: mask %b, want %b", i, mask[0], want)
			}
			if err := m.Accept([]int32{0, 1, 0}[i]); err != nil {
				t.Fatal(err)
			}
		}
		if !m.Complete() {
			t.Error("the output may not end")
		}
		if err := m.Accept(2); err != nil {
			t.Error(err)
		}
		if m.Accept(0) == nil {
			t.Error("a token is taken after the end")
		}
	}
}

// TestGrammars compiles llama.cpp's grammars and follows an output of each.
func TestGrammars(t *testing.T) {
	v := byteVocab()
	samples := map[string]string{
		"arithmetic.gbnf": "1+2*(y+3)=x\n",
		"c.gbnf":          "int f(int x){return x;}",
		"chess.gbnf":      "1. e4 e5\n2. Nf3 Nc6\n",
		"english.gbnf":    "Hello, I am here.",
		"japanese.gbnf":   "日本語",
		"json.gbnf":       `{"a": [1, true, "x"]}`,
		"json_arr.gbnf":   "[\n{\"a\": 1}]",
		"list.gbnf":       "- one\n- two\n",
	}
	dir := reference.Path(t, "schemas", "gbnf")
	files, err := filepath.Glob(filepath.Join(dir, "*.gbnf"))
	if err != nil || len(files) != len(samples) {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		g, err := Compile(Spec{Grammar: string(text)}, v, Limits{})
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
			continue
		}
		m := g.Start()
		for i, b := range []byte(samples[filepath.Base(file)]) {
			if err := m.Accept(int32(b)); err != nil {
				t.Errorf("%s: byte %d of its sample: %v", filepath.Base(file), i, err)
				break
			}
		}
	}
}

// TestLongOutput follows an output long enough that the automaton is forgotten and made again on the way.
func TestLongOutput(t *testing.T) {
	v := byteVocab()
	l := DefaultLimits
	l.States = 50_000
	g, err := Compile(Spec{Schema: []byte(`{"type": "array", "maxItems": 5000, "items": {"type": "string", "maxLength": 9}}`)}, v, l)
	if err != nil {
		t.Fatal(err)
	}
	m := g.Start()
	for i, b := range []byte("[" + strings.Repeat(`"abc", `, 2000) + `"x"]`) {
		if err := m.Accept(int32(b)); err != nil {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	if !m.Complete() {
		t.Error("the output may not end")
	}
}

// mutual checks that the mask of a state has exactly the bytes that may come.
func mutual(t *testing.T, g *Grammar, text []byte) {
	m := g.Start()
	mask := make([]uint32, 9)
	for _, b := range text[:min(len(text), 64)] {
		clear(mask)
		m.Mask(mask)
		if (mask[8]&1 != 0) != m.Complete() {
			t.Fatalf("the mask says %b of the end, and the state %v", mask[8], m.Complete())
		}
		if ids, ok := m.Ending(5000); ok {
			if err := ends(m, ids); err != nil {
				t.Fatalf("%q is said to complete the output after %q: %v", bytesOf(ids), text, err)
			}
		}
		may := mask[b/32]>>(b%32)&1 != 0
		if err := m.Accept(int32(b)); may != (err == nil) {
			t.Fatalf("the mask says %v of %q, and Accept %v", may, b, err)
		} else if err != nil {
			return
		}
	}
}

// TestClones follows outputs with matchers that find ready what other outputs needed, in another order: masks, forced
// tokens and endings are those of a matcher that begins alone.
func TestClones(t *testing.T) {
	v := byteVocab()
	for _, spec := range []Spec{
		{JSON: true},
		{Regex: `(?=.*\d)(?!.*xx)[a-z0-9]{3,5}|[0-9]{2}|q(a|b)c`},
		{Grammar: `root ::= "(" root ")" | [a-c]+ | "[" root "]]"`},
		{Grammar: "root ::= \"y\" p | \"z\" q | \"x\" p | \"x\" q\np ::= [ab]{9} \"?\" | \"(\" p \")\"\nq ::= [ac]{9} \"!\" | \"(\" q \")\""},
		{Schema: []byte(`{"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"v": {"enum": ["b", "a", 1, 2]}, "w": {"type": "integer",
			"minimum": 10}, "c": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "required": ["v", "c"], "minProperties": 3}}}`)},
		{Schema: []byte(`{"type": "object", "patternProperties": {"^x": {"type": "string", "pattern": "[0-9a-f]{2}$"}}, "minProperties": 1}`)},
	} {
		g, err := Compile(spec, v, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		var origin *Matcher
		for n := range 80 {
			if n%8 == 0 {
				origin = g.Start()
			}
			warm, cold, text := origin.Clone(), g.Start(), ""
			for range 1 + rng.IntN(30) {
				masks := [2][9]uint32{}
				warm.Mask(masks[0][:])
				cold.Mask(masks[1][:])
				if masks[0] != masks[1] {
					t.Fatalf("%v: after %q the mask is %x; alone %x", spec, text, masks[0], masks[1])
				}
				if a, b := warm.Forced(), cold.Forced(); !slices.Equal(a, b) {
					t.Fatalf("%v: after %q %q must come; alone %q", spec, text, bytesOf(a), bytesOf(b))
				}
				a, _ := warm.Ending(500)
				if b, _ := cold.Ending(500); !slices.Equal(a, b) {
					t.Fatalf("%v: %q ends with %q; alone with %q", spec, text, bytesOf(a), bytesOf(b))
				}
				var may []int32
				for id := range int32(256) {
					if masks[0][id/32]>>(id%32)&1 != 0 {
						may = append(may, id)
					}
				}
				if len(may) == 0 {
					break
				}
				id := may[rng.IntN(len(may))]
				if len(a) > 0 && rng.IntN(3) > 0 {
					id = a[0]
				}
				if warm.Accept(id) != nil || cold.Accept(id) != nil {
					t.Fatalf("%v: after %q token %d is refused", spec, text, id)
				}
				text += string(rune(id))
			}
		}
		if len(origin.masks) < 3 {
			t.Errorf("%v: %d masks were shared", spec, len(origin.masks))
		}
	}
}

// ends returns an error unless an output may go on with some tokens and end.
func ends(m *Matcher, ids []int32) error {
	sim := m.Clone()
	for _, id := range ids {
		if err := sim.Accept(id); err != nil {
			return err
		}
	}
	if !sim.Complete() {
		return errors.New("it is not complete")
	}
	return nil
}

func bytesOf(ids []int32) (text []byte) {
	for _, id := range ids {
		text = append(text, byte(id))
	}
	return text
}

// TestEnding completes outputs in the shortest way.
func TestEnding(t *testing.T) {
	v := byteVocab()
	tree := `{"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"v": {"type": "integer", "minimum": 10},
		"c": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "required": ["v", "c"], "additionalProperties": false}}}`
	for _, c := range []struct {
		spec       Spec
		from, want string
	}{
		{Spec{JSON: true}, "", "{}"},
		{Spec{JSON: true}, `{"a": [{"b\\`, `"":0}]}`[1:]},
		{Spec{Regex: `a{3}(bc|[0-9]{40}|\d?xyz)`}, "a", "aabc"},
		{Spec{Regex: `a{3}(bc|[0-9]{40}|\d?xyz)`}, "aaa7", "xyz"},
		{Spec{Regex: `(?=.*\d)(?!.*xx)[a-z0-9]{3,5}`}, "ax", "0"},
		{Spec{Regex: `é{2}`}, "\xc3", "\xa9é"},
		{Spec{Choice: []string{"green", "red"}}, "", "red"},
		{Spec{Grammar: `root ::= "(" root ")" | "[" root "]]" | [a-c]+`}, "([(", "a)]])"},
		{Spec{Schema: []byte(tree), Compact: true, Ordered: true}, "", `{"v":10,"c":[]}`},
		{Spec{Schema: []byte(tree), Compact: true}, `{"c":[{`, `"c":[],"v":10}],"v":10}`},
		{Spec{Schema: []byte(`{"type": "object", "minProperties": 2, "properties": {"name": {}, "b": {"const": 1}}, "additionalProperties": false}`),
			Compact: true}, `{`, `"b":1,"name":0}`},
		{Spec{Schema: []byte(`{"type": "string", "minLength": 3, "pattern": "^x"}`)}, "", `"x  "`},
		{Spec{Schema: []byte(`{"type": "array", "minItems": 3, "items": {"enum": ["long", null, 7]}}`)}, "[", "7,7,7]"},
	} {
		g, err := Compile(c.spec, v, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		m := g.Start()
		for _, b := range []byte(c.from) {
			if err := m.Accept(int32(b)); err != nil {
				t.Fatal(err)
			}
		}
		ids, ok := m.Ending(100)
		if err := ends(m, ids); err != nil || !ok || string(bytesOf(ids)) != c.want {
			t.Errorf("%+v after %q: %q, %v, %v; want %q", c.spec, c.from, bytesOf(ids), ok, err, c.want)
		}
		if _, ok := m.Ending(len(ids) - 1); ok {
			t.Errorf("%+v: %d tokens are few enough", c.spec, len(ids))
		}
	}
}

func fuzzLimits() Limits {
	return Limits{Bytes: 1 << 16, Compile: 1 << 18, Depth: 64, States: 1 << 17, Work: 1 << 16}
}

func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"enum":[1,"x",null]}},"required":["a"]}`, `{"a":1}`)
	f.Add(`{"anyOf":[{"$ref":"#/$defs/a"},{"type":"array","items":{"$ref":"#"}}],"$defs":{"a":{"pattern":"^a{1,3}$"}}}`, `[["aa"]]`)
	f.Add(`{"allOf":[{"minimum":1.5},{"multipleOf":0.5}],"type":["number","string"],"format":"date"}`, `2.5`)
	v := byteVocab()
	f.Fuzz(func(t *testing.T, schema, output string) {
		g, err := Compile(Spec{Schema: []byte(schema)}, v, fuzzLimits())
		if err == nil {
			mutual(t, g, []byte(output))
		}
	})
}

func FuzzRegex(f *testing.F) {
	f.Add(`^(a|b)*c{2,4}[^x-z]\d$`, "abcc0")
	f.Add(`(?=a)(?!ab).*`, "ac")
	v := byteVocab()
	f.Fuzz(func(t *testing.T, regex, output string) {
		g, err := Compile(Spec{Regex: regex}, v, fuzzLimits())
		if err == nil {
			mutual(t, g, []byte(output))
		}
	})
}

func FuzzGrammar(f *testing.F) {
	f.Add("root ::= \"a\" (x | [b-d]*)? \nx ::= root{1,2} \".\"", "aab.")
	v := byteVocab()
	f.Fuzz(func(t *testing.T, text, output string) {
		g, err := Compile(Spec{Grammar: text}, v, fuzzLimits())
		if err == nil {
			mutual(t, g, []byte(output))
		}
	})
}

// TestEndingAlone asks for an ending of which two are equally short, after an output that made the expressions of one.
func TestEndingAlone(t *testing.T) {
	g, err := Compile(Spec{Grammar: "root ::= \"y\" p | \"z\" q | \"x\" p | \"x\" q\np ::= [ab]{9} \"?\" | \"(\" p \")\"\nq ::= [ac]{9} \"!\" | \"(\" q \")\""},
		byteVocab(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"", "ya", "za"} {
		origin := g.Start()
		for _, text := range []string{before, "xa"} {
			m := origin.Clone()
			for _, b := range []byte(text) {
				if err := m.Accept(int32(b)); err != nil {
					t.Fatal(err)
				}
			}
			ids, _ := m.Ending(100)
			if want := "aaaaaaaa!"; text == "xa" && string(bytesOf(ids)) != want {
				t.Errorf("after %q %q ends with %q; want %q", before, text, bytesOf(ids), want)
			}
		}
	}
}
