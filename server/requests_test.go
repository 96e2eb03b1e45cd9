package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/api/anthropic"
	"github.com/kvasir-llm/kvasir/api/ollama"
	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
)

// reads makes a decoder one of requestDecoders.
func reads[T any](decode func([]byte) (T, error)) func([]byte) error {
	return func(body []byte) error { _, err := decode(body); return err }
}

// requestDecoders read the bodies of the paths that take JSON. Paths that take none have nil.
var requestDecoders = map[string]func([]byte) error{
	"/v1/chat/completions": reads(decodeChat), "/v1/chat/completions/render": reads(decodeChat),
	"/v1/chat/completions/batch": reads(decodeChatBatch), "/invocations": nil,
	"/inference/v1/generate": reads(decodeTokens),
	"/v1/completions":        reads(decodeCompletion), "/v1/completions/render": reads(decodeCompletion),
	"/v1/responses": reads(decodeResponse), "/v1/responses/{id}/cancel": nil,
	"/v1/embeddings": reads(openai.DecodeEmbedding),
	"/pooling":       reads(openai.DecodePooling), "/classify": reads(openai.DecodeClassify),
	"/v2/rerank": reads(decodeCohereRerank), "/v2/embed": reads(decodeCohereEmbed),
	"/v1/rerank": reads(openai.DecodeRerank), "/rerank": reads(openai.DecodeRerank),
	"/v1/score": reads(openai.DecodeScore), "/score": reads(openai.DecodeScore),
	"/v1/load_lora_adapter": reads(openai.DecodeLoadAdapter), "/v1/unload_lora_adapter": reads(openai.DecodeUnloadAdapter),
	"/tokenize": reads(openai.DecodeTokenize), "/detokenize": reads(openai.DecodeDetokenize),
	blobPath: nil, "HEAD " + blobPath: nil,
	filesPath: nil, "/v1/batches": reads(openai.DecodeBatch), "/v1/batches/{id}/cancel": nil,
	"/v1/messages": reads(decodeMessages), "/v1/messages/count_tokens": reads(anthropic.DecodeCount),
	"/api/chat": reads(decodeOllamaChat), "/api/generate": reads(decodeOllamaGenerate), "/api/embed": reads(ollama.DecodeEmbed),
	"/api/embeddings": reads(ollama.DecodeEmbeddings), "/api/pull": reads(ollama.DecodePull), "/api/create": reads(ollama.DecodeCreate),
	"/api/copy": reads(ollama.DecodeCopy), "/api/show": reads(ollama.DecodeShow),
	"/api/delete": reads(ollama.DecodeModel),
	"/completion": reads(decodeLlamaCompletion), "/infill": reads(decodeLlamaInfill),
	"/kv/pin": reads(openai.DecodePin), "/kv/unpin": reads(openai.DecodePin), "/reset_prefix_cache": nil, "/sleep": nil, "/wake_up": nil,
	"/models/load": reads(decodeNamed), "/models/unload": reads(decodeNamed),
}

var rewriteRequests = flag.Lookup("rewrite") // of datadriven

// TestRequestSchemas holds that requests.json says what the decoders accept: it asks each of them about every name and
// word that the sources have, in values of every kind. With -rewrite it writes the file.
func TestRequestSchemas(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake"))}})
	defer s.Close()
	words, made := sourceWords(t), map[string]any{}
	for key, r := range s.routes {
		decode, known := requestDecoders[key]
		if !known && r.method != "GET" && !strings.HasPrefix(key, "DELETE /v1/") {
			t.Errorf("%s has no decoder in requestDecoders", key)
		}
		if decode == nil {
			continue
		}
		p := &prober{decode: decode, words: words}
		body := p.members(func(v string) string { return v }, "", 0)
		for name := range body["properties"].(object) { // what is missed where all else is given
			if p.missed(name) {
				required, _ := body["required"].([]string)
				body["required"] = append(required, name)
			}
		}
		if required, ok := body["required"].([]string); ok {
			slices.Sort(required)
		}
		made[key] = body
	}
	text, err := json.MarshalIndent(made, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if rewriteRequests.Value.String() == "true" {
		if err := os.WriteFile("requests.json", text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text, requestSchemas) {
		t.Error("requests.json is not what the decoders accept; go test ./server -run TestRequestSchemas -rewrite makes it")
	}
}

// sourceWords returns the strings by which the decoders can know members and values: those of cases and of keys.
func sourceWords(t *testing.T) (words []string) {
	take := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if w, err := strconv.Unquote(lit.Value); err == nil && regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.]*$`).MatchString(w) {
				words = append(words, w)
			}
		}
	}
	for _, dir := range []string{".", "../api/openai", "../api/anthropic", "../api/ollama", "../api/wire", "../sampling"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CaseClause:
					for _, e := range n.List {
						take(e)
					}
				case *ast.KeyValueExpr:
					take(n.Key)
				case *ast.BinaryExpr:
					take(n.Y)
				case *ast.CallExpr:
					for _, e := range n.Args {
						take(e)
					}
				case *ast.ValueSpec:
					for _, e := range n.Values {
						take(e)
					}
				}
				return true
			})
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// prober finds out what a decoder accepts.
type prober struct {
	decode func([]byte) error
	words  []string
}

// at asks about a value: it returns the error that is about it, or about something in it.
func (p *prober) at(body, path string) (bad *wire.Error, exact bool) {
	if !errors.As(p.decode([]byte(body)), &bad) || path == "" {
		return nil, false
	}
	rest, ok := strings.CutPrefix(bad.Path, path)
	if !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
		return nil, false
	}
	return bad, rest == ""
}

const notThere = "this parameter is not supported"

var (
	limits = regexp.MustCompile(`from (\S+) to (\S+), found`)
	inerts = regexp.MustCompile(`except as (.+); found`)
	kinds  = []struct{ name, sample string }{{"string", `"x"`}, {"integer", "1"}, {"number", "0.5"}, {"boolean", "true"},
		{"array", "[]"}, {"object", "{}"}}
)

// value describes what is accepted at a path; in puts a value there. It returns nil where there is no such member.
func (p *prober) value(in func(string) string, path string, depth int) object {
	var accepted []string
	for _, k := range kinds {
		bad, exact := p.at(in(k.sample), path)
		switch {
		case exact && bad.Code == wire.CodeUnsupported && strings.HasSuffix(bad.Message, notThere):
			return nil
		case exact && bad.Code == wire.CodeUnsupported && inerts.MatchString(bad.Message):
			var enum []json.RawMessage
			for _, v := range strings.Split(inerts.FindStringSubmatch(bad.Message)[1], " or ") {
				enum = append(enum, json.RawMessage(v))
			}
			return object{"enum": enum}
		case exact && bad.Code == wire.CodeInvalidType:
		case k.name == "number" && slices.Contains(accepted, "integer"):
			accepted[slices.Index(accepted, "integer")] = "number"
		default:
			accepted = append(accepted, k.name)
		}
	}
	if len(accepted) == len(kinds)-1 { // integer is a number
		return object{}
	}
	var any []object
	for _, kind := range accepted {
		any = append(any, p.kind(kind, in, path, depth))
	}
	if len(any) == 1 {
		return any[0]
	}
	return object{"anyOf": any}
}

// kind describes the values of one kind.
func (p *prober) kind(kind string, in func(string) string, path string, depth int) object {
	out := object{"type": kind}
	switch kind {
	case "integer", "number":
		if bad, exact := p.at(in("999999999999999"), path); exact && limits.MatchString(bad.Message) {
			m := limits.FindStringSubmatch(bad.Message)
			out["minimum"], out["maximum"] = json.RawMessage(strings.Replace(m[1], "+", "", 1)), json.RawMessage(strings.Replace(m[2], "+", "", 1))
		}
	case "string":
		if bad, exact := p.at(in(`"x"`), path); exact && bad.Code != wire.CodeMissing {
			var enum []string
			for _, w := range p.words {
				if bad, _ := p.at(in(strconv.Quote(w)), path); bad == nil {
					enum = append(enum, w)
				}
			}
			if len(enum) > 0 && len(enum) < 40 {
				out["enum"] = enum
			}
		}
	case "array":
		if depth < 6 {
			if items := p.value(func(v string) string { return in("[" + v + "]") }, path+"[0]", depth+1); items != nil {
				out["items"] = items
			}
		}
	case "object":
		if depth < 6 {
			return p.members(in, path, depth+1)
		}
	}
	return out
}

// members describes the objects that are accepted at a path. What they have by their type is put together.
func (p *prober) members(in func(string) string, path string, depth int) object {
	below := strings.TrimPrefix(path+".", ".")
	member := func(before, name string) object {
		return p.value(func(v string) string { return in("{" + before + strconv.Quote(name) + ":" + v + "}") }, below+name, depth)
	}
	properties, out := object{}, object{"type": "object"}
	other := member("", "zzz") // a name that means nothing
	heads := []string{""}
	if kind := member("", "type"); kind != nil && !same(kind, other) {
		enum, _ := kind["enum"].([]string)
		for _, w := range enum {
			heads = append(heads, `"type":`+strconv.Quote(w)+",")
		}
		properties["type"] = kind
	}
	for _, head := range heads {
		for _, name := range p.words {
			if properties[name] != nil || name == "type" || p.unknown(in("{"+head+strconv.Quote(name)+":0}"), below+name) {
				continue
			}
			if found := member(head, name); found != nil && !same(found, other) {
				properties[name] = found
			}
		}
	}
	if len(properties) > 0 {
		out["properties"] = properties
	}
	switch {
	case other == nil:
		out["additionalProperties"] = false
	case len(other) > 0:
		out["additionalProperties"] = other
	}
	return out
}

// unknown reports whether a body is refused for a member that means nothing.
func (p *prober) unknown(body, path string) bool {
	bad, exact := p.at(body, path)
	return exact && bad.Code == wire.CodeUnsupported && strings.HasSuffix(bad.Message, notThere)
}

func same(a, b object) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// missed reports whether a body without a member at its top is refused for that.
func (p *prober) missed(name string) (missed bool) {
	for _, body := range []string{`{}`, `{"messages":[{"role":"user","content":"x"}]}`, `{"model":"x"}`,
		`{"model":"x","messages":[{"role":"user","content":"x"}]}`, `{"query":"x"}`, `{"text_1":"x"}`, `{"lora_name":"x"}`,
		`{"source":"x"}`, `{"input_file_id":"x"}`, `{"input_file_id":"x","endpoint":"/v1/embeddings"}`} {
		bad := new(wire.Error)
		if errors.As(p.decode([]byte(body)), &bad) && bad.Code == wire.CodeMissing && bad.Path == name && !strings.Contains(body, strconv.Quote(name)) {
			missed = true
		}
	}
	for _, body := range []string{`{"messages":[{"role":"user","content":"x"}]}`, `{"tokens":[1]}`, `{"previous_response_id":"x"}`} {
		if p.decode([]byte(body)) == nil && !strings.Contains(body, strconv.Quote(name)) {
			return false // another member is there in its place
		}
	}
	return missed
}

// TestErrorsAreShort holds that an error quotes a request only in part, and that a number which Go cannot hold is the
// client's fault.
func TestErrorsAreShort(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake", "a"))}})
	long := strings.Repeat("a", 60_000)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/completion", `{"model":"` + long + `","prompt":"x"}`, 404},
		{"POST", "/v1/completions", `{"model":"` + long + `","prompt":"x"}`, 400},
		{"POST", "/api/generate", `{"model":"` + long + `","prompt":"x"}`, 400},
		{"GET", "/v1/models/" + long, "", 404},
		{"GET", "/" + long, "", 404},
		{strings.ToUpper(long), "/v1/models", "", 405},
		{"GET", "/props?model=" + long, "", 404},
		{"GET", "/v1/models?%zz" + long, "", 400},
		{"POST", "/api/create", `{"model":"x","from":"y","parameters":{"temperature":1e400}}`, 400},
		{"POST", "/api/create", `{"model":"x","from":"y","parameters":{"num_ctx":` + strings.Repeat("1", 5000) + `}}`, 400},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(c.body))
		u, err := url.ParseRequestURI(c.path)
		if err != nil {
			t.Fatal(err)
		}
		r.Method, r.URL = c.method, u
		s.ServeHTTP(w, r)
		if w.Code != c.status || w.Body.Len() > 1000 {
			t.Errorf("%.20s %.30s %.60s: %d with %d bytes, %.200s", c.method, c.path, c.body, w.Code, w.Body.Len(), w.Body)
		}
	}
}
