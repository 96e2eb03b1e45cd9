package grammar

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/reference"
)

// byteVocab has a token for each byte, and one that ends the output.
func byteVocab() *Vocab {
	tokens := make([]Token, 257)
	for b := range 256 {
		tokens[b] = Token{Bytes: []byte{byte(b)}}
	}
	tokens[256] = Token{Bytes: []byte("<end>"), Special: true}
	return NewVocab(tokens, []int32{256}, nil)
}

// takes reports whether a grammar takes a text as a whole output.
func takes(g *Grammar, text []byte) bool {
	m := g.Start()
	for _, b := range text {
		if m.Accept(int32(b)) != nil {
			return false
		}
	}
	return m.Complete()
}

// TestSuite runs the JSON-Schema-Test-Suite on the schemas that compile. No invalid value may be taken. Valid ones that
// are refused are those whose numbers or names are written in a way that kvasir does not write (docs/grammar.md).
func TestSuite(t *testing.T) {
	v := byteVocab()
	other := map[string]bool{ // valid, but not as kvasir writes it
		"type.json: a float with zero fractional part is an integer":             true,
		"vocabulary.json: no validation: invalid number, but it still validates": true, // by another metaschema
	}
	for _, draft := range []string{"draft7", "draft2020-12"} {
		compiled, refused, right := 0, 0, 0
		files, err := filepath.Glob(filepath.Join(reference.Path(t, "schemas", "json-schema-test-suite", "tests", draft), "*.json"))
		more, _ := filepath.Glob(filepath.Join(reference.Path(t, "schemas", "json-schema-test-suite", "tests", draft), "optional", "format", "*.json"))
		files = append(files, more...)
		if err != nil || len(files) == 0 {
			t.Fatal("no tests", err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var groups []struct {
				Description string
				Schema      json.RawMessage
				Tests       []struct {
					Description string
					Data        json.RawMessage
					Valid       bool
				}
			}
			if err := json.Unmarshal(text, &groups); err != nil {
				t.Fatal(err)
			}
			for _, group := range groups {
				schema := group.Schema
				if draft == "draft7" && bytes.HasPrefix(schema, []byte("{")) && !bytes.Contains(schema, []byte(`"$schema"`)) {
					schema = append([]byte(`{"$schema": "http://json-schema.org/draft-07/schema#", `), schema[1:]...)
					if !json.Valid(schema) {
						schema = []byte(`{"$schema": "http://json-schema.org/draft-07/schema#"}`)
					}
				}
				g, err := Compile(Spec{Schema: schema}, v, Limits{})
				if err != nil {
					refused++
					t.Logf("refused: %s: %s: %v", filepath.Base(file), group.Description, err)
					continue
				}
				compiled++
				for _, test := range group.Tests {
					name := filepath.Base(file) + ": " + group.Description + ": " + test.Description
					var data bytes.Buffer
					if err := json.Compact(&data, test.Data); err != nil {
						t.Fatal(err)
					}
					switch got := takes(g, data.Bytes()); {
					case got == test.Valid:
						right++
					case got:
						t.Errorf("%s: %s is taken by %s", name, data.Bytes(), schema)
					case filepath.Base(file) == "format.json": // formats are obeyed, where the suite has annotations
					case bytes.Contains(data.Bytes(), []byte("xn--")): // no names in Punycode
					case bytes.Contains(data.Bytes(), []byte(":60")): // leap seconds are in UTC
					case !other[filepath.Base(file)+": "+test.Description]:
						t.Errorf("%s: %s is refused by %s", name, data.Bytes(), schema)
					}
				}
			}
		}
		t.Logf("%s: %d groups compile, %d are refused; %d tests right", draft, compiled, refused, right)
	}
}
