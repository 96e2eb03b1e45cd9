package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/engine/text"
)

func TestModelFile(t *testing.T) {
	t.Setenv("HF_HOME", t.TempDir())
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.gguf"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := parseModels([]byte("a/b:c:\n  model: ./a.gguf\n  keep-alive: forever\n  kv-bytes: 2G\n  parameters: {top_k: 4}\n"), dir)
	e := all["a/b:c"]
	if err != nil || time.Duration(*e.KeepAlive) != -1 || e.KVBytes != 2<<30 {
		t.Fatalf("%+v, %v", e, err)
	}
	if p, err := e.find(e.Model); err != nil || p.path != filepath.Join(dir, "a.gguf") {
		t.Errorf("%+v, %v", p, err)
	}
	all, err = parseModels([]byte("a:\n  model: kvasir-mini\n  drafts: lookup\n  draft-tokens: 8\n  draft-model: kvasir-mini\n"), dir)
	var o text.Options
	if err == nil {
		err = all["a"].apply(&o)
	}
	if err != nil || o.Drafts != "lookup" || o.DraftTokens != 8 {
		t.Errorf("drafts %q of %d tokens, %v", o.Drafts, o.DraftTokens, err)
	}
	if draft, err := all["a"].openDraft(); err != nil || draft == nil {
		t.Errorf("a draft model: %v, %v", draft, err)
	}
	for file, want := range map[string]string{
		"":                                      "it holds no model",
		"[1]":                                   "cannot unmarshal",
		"a: {model: kvasir-mini}\n---\nb: 1":    "more than one document",
		"a: {}":                                 "a: it has no model",
		"'a b': {model: kvasir-mini}":           "is not a name of a model",
		"a: {model: ../no-such}":                "no such file",
		"a: {model: '?'}":                       "a path begins with ./",
		"a: {model: kvasir-mini, kv-type: q9}":  "kv-type",
		"a: {model: kvasir-mini, drafts: many}": `drafts is "many"; want one of [none lookup]`,
		"a: {model: kvasir-mini, draft-tokens: 65}":                "draft-tokens is 65; want 1 to 64",
		"a: {model: kvasir-mini, draft-model: ./small}":            "draft-model: stat",
		"a: {model: kvasir-mini, keep-alive: 5}":                   "is not a time to stay",
		"a: {model: kvasir-mini, context: -1}":                     "want at least 0",
		"a: {model: kvasir-mini, parameters: {heat: 1}}":           "parameters: heat: this parameter is not supported",
		"a: {model: kvasir-mini, parameters: {top_p: 3}}":          "expected a number from 0 to 1",
		"a: {model: kvasir-mini, template: '{{ .Prompt }}'}":       "not one in Jinja",
		"a: {model: kvasir-mini, template: x, chat-template: ./x}": "both a chat-template",
		"a: {model: kvasir-mini}\na: {model: kvasir-mini}":         "already defined",
	} {
		if _, err := parseModels([]byte(file), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", file, err, want)
		}
	}
}

// FuzzModelFile holds that what is accepted can be found, or would have to be fetched.
func FuzzModelFile(f *testing.F) {
	f.Add("a:\n  model: kvasir-mini\n  pinned: true\n  adapters: {x: owner/name}\n")
	f.Add("a: &x {model: owner/name, keep-alive: 1h}\nb: *x\n")
	f.Add("{a: {model: ./a, kv-bytes: 1K, parameters: {stop: [a]}}}")
	f.Setenv("HF_HOME", f.TempDir())
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file string) {
		all, err := parseModels([]byte(file), dir)
		if err == nil && len(all) == 0 {
			t.Errorf("%q: no models, and no error", file)
		}
		for name := range all {
			if !entryName.MatchString(name) {
				t.Errorf("%q: %q is a name", file, name)
			}
		}
	})
}
