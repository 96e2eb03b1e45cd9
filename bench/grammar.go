package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// GrammarReport is what compiling and following the schemas of a folder took, and how right it was. Times are of one
// core.
type GrammarReport struct {
	Schemas         int `json:"schemas"`
	Compiled        int `json:"compiled"`
	Refused         int `json:"refused"`          // with an error
	InvalidAccepted int `json:"invalid_accepted"` // outputs
	ValidRefused    int `json:"valid_refused"`
	MaskUS          struct {
		Mean float64 `json:"mean"`
		P99  float64 `json:"p99"`
	} `json:"mask_us"`
	CompileMS struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"compile_ms"`

	Wrong   []string          `json:"-"` // outputs accepted or refused against their mark
	Reasons map[string]string `json:"-"` // of refusals, by file
	Slowest string            `json:"-"`
}

// grammarFile is a file of JSONSchemaBench.
type grammarFile struct {
	Schema json.RawMessage `json:"schema"`
	Tests  []struct {
		Valid bool            `json:"valid"`
		Data  json.RawMessage `json:"data"`
	} `json:"tests"`
}

// Vocab returns the vocabulary of a tokenizer for grammars.
func Vocab(t *tokenizer.Tokenizer) *grammar.Vocab {
	tokens := make([]grammar.Token, t.VocabSize())
	for i := range tokens {
		tokens[i] = grammar.Token{Bytes: t.Bytes(int32(i)), Special: t.IsSpecial(int32(i))}
	}
	return grammar.NewVocab(tokens, t.EOS(), func(text string) []int32 { return t.Encode(text, tokenizer.EncodeOptions{}) })
}

// Grammar compiles the schemas of a folder's files and follows their outputs token by token.
func Grammar(dir string, t *tokenizer.Tokenizer) (*GrammarReport, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("bench: no files *.json in %s", dir)
	}
	v := Vocab(t)
	mask := make([]uint32, (v.Size()+31)/32)
	rep := &GrammarReport{Schemas: len(files), Reasons: map[string]string{}}
	var masks, compiles []float64
	worst := 0.0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var f grammarFile
		if err := json.Unmarshal(text, &f); err != nil {
			return nil, fmt.Errorf("bench: %s: %w", file, err)
		}
		start := time.Now()
		g, err := grammar.Compile(grammar.Spec{Schema: f.Schema}, v, grammar.Limits{})
		compiles = append(compiles, float64(time.Since(start).Nanoseconds())/1e6)
		if err != nil {
			rep.Refused++
			rep.Reasons[filepath.Base(file)] = err.Error()
			continue
		}
		rep.Compiled++
		for i, test := range f.Tests {
			var out bytes.Buffer
			if err := json.Compact(&out, test.Data); err != nil {
				return nil, fmt.Errorf("bench: %s: %w", file, err)
			}
			before := len(masks)
			err := followOutput(g, t, out.String(), mask, &masks)
			for _, us := range masks[before:] {
				if us > worst {
					worst, rep.Slowest = us, fmt.Sprintf("%s test %d: %.0f µs", filepath.Base(file), i, us)
				}
			}
			if test.Valid && err != nil {
				rep.ValidRefused++
				rep.Wrong = append(rep.Wrong, fmt.Sprintf("%s test %d is valid: %v", filepath.Base(file), i, err))
			} else if !test.Valid && err == nil {
				rep.InvalidAccepted++
				rep.Wrong = append(rep.Wrong, fmt.Sprintf("%s test %d is invalid", filepath.Base(file), i))
			}
		}
	}
	slices.Sort(masks)
	slices.Sort(compiles)
	at := func(list []float64, q float64) float64 {
		if len(list) == 0 {
			return 0
		}
		return list[int(q*float64(len(list)-1))]
	}
	for _, us := range masks {
		rep.MaskUS.Mean += us / float64(len(masks))
	}
	rep.MaskUS.P99, rep.CompileMS.P50, rep.CompileMS.P99 = at(masks, 0.99), at(compiles, 0.5), at(compiles, 0.99)
	return rep, nil
}

// followOutput appends the microseconds of each mask, and returns an error unless the grammar takes the output.
func followOutput(g *grammar.Grammar, t *tokenizer.Tokenizer, text string, mask []uint32, us *[]float64) error {
	ids := t.Encode(text, tokenizer.EncodeOptions{})
	var m *grammar.Matcher
	for i := range len(ids) + 1 {
		clear(mask)
		start := time.Now()
		if m == nil {
			m = g.Start()
		}
		m.Mask(mask)
		*us = append(*us, float64(time.Since(start).Nanoseconds())/1e3)
		if i == len(ids) {
			break
		}
		id := ids[i]
		err := m.Accept(id)
		if allowed := mask[id/32]>>(id%32)&1 != 0; allowed != (err == nil) {
			return fmt.Errorf("token %d: the mask says %v, but %w", i, allowed, errors.Join(errors.New("accepting it"), err))
		}
		if err != nil {
			return fmt.Errorf("token %d after %q: %w", i, t.Decode(ids[:i], false), err)
		}
	}
	if !m.Complete() {
		return errors.New("the output may not end there")
	}
	return nil
}
