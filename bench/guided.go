package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/sampling"
)

// GuidedOptions configure Guided.
type GuidedOptions struct {
	Dir    string // of JSONSchemaBench files, "" for schemas of its own
	Batch  int    // answers at once, each by a schema of its own
	Each   int    // answers by each schema in a round, one after the other
	Tokens int    // most of an answer
	Rounds int    // of guided answers and as many of the same lengths that are free
}

// GuidedReport compares batches of guided answers with free ones of the same lengths.
type GuidedReport struct {
	Batch  int     `json:"batch"`
	Tokens int     `json:"tokens"` // of the answers of a round
	Free   float64 `json:"free_tokens_per_second"`
	Guided float64 `json:"guided_tokens_per_second"`
	Share  float64 `json:"share"` // of the speed that guided answers have: the median of the rounds'

	FreeCPU   float64 `json:"free_cpu_us_per_token"` // of all processors, with what the model computes
	GuidedCPU float64 `json:"guided_cpu_us_per_token"`
}

// Guided measures how much slower a batch is whose answers have a schema each. Every round takes the same prompts and
// seeds, without what the prefix cache has of other rounds.
func Guided(ctx context.Context, m *text.Model, o GuidedOptions) (*GuidedReport, error) {
	if o.Batch < 1 || o.Each < 1 || o.Tokens < 1 || o.Rounds < 1 {
		return nil, fmt.Errorf("bench: a batch of %d, %d answers each of %d tokens, %d rounds; want at least 1 of each", o.Batch, o.Each, o.Tokens, o.Rounds)
	}
	g := &guided{m: m, o: o}
	var err error
	if g.schemas, err = g.choose(ctx); err != nil {
		return nil, err
	}
	g.lengths = make([]int, o.Batch*o.Each)
	rep := &GuidedReport{Batch: o.Batch}
	var speeds, cpus [2][]float64 // free, guided
	var shares []float64
	for round := range o.Rounds + 1 { // the first warms up
		var speed, cpu [2]float64
		for turn := range 2 {
			kind := (round + turn + 1) % 2
			if speed[kind], cpu[kind], err = g.round(ctx, fmt.Sprint(round, kind), kind == 1); err != nil {
				return nil, err
			}
		}
		if round > 0 {
			for kind := range 2 {
				speeds[kind], cpus[kind] = append(speeds[kind], speed[kind]), append(cpus[kind], cpu[kind])
			}
			shares = append(shares, speed[1]/speed[0])
		}
	}
	for _, n := range g.lengths {
		rep.Tokens += n
	}
	rep.Free, rep.Guided, rep.Share = summarize(speeds[0]).P50, summarize(speeds[1]).P50, summarize(shares).P50
	rep.FreeCPU, rep.GuidedCPU = summarize(cpus[0]).P50, summarize(cpus[1]).P50
	return rep, nil
}

// guided is a measurement under way.
type guided struct {
	m       *text.Model
	o       GuidedOptions
	schemas [][]byte
	lengths []int // of the answers
}

// choose returns a schema for each answer of the batch.
func (g *guided) choose(ctx context.Context) (list [][]byte, err error) {
	var all [][]byte
	if g.o.Dir == "" {
		for n := range g.o.Batch {
			all = append(all, []byte(fmt.Sprintf(ownSchemas[n%len(ownSchemas)], n)))
		}
		return all, nil
	}
	files, err := filepath.Glob(filepath.Join(g.o.Dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var f grammarFile
		if err := json.Unmarshal(data, &f); err != nil {
			return nil, fmt.Errorf("bench: %s: %w", file, err)
		}
		all = append(all, f.Schema)
	}
	stride := max(1, len(all)/g.o.Batch)
	for start := range stride { // every so many, then those beside them
		for i := start; i < len(all) && len(list) < g.o.Batch; i += stride {
			if _, err := g.m.Prepare(ctx, g.request(len(list), "", all[i])); err == nil {
				list = append(list, all[i])
			}
		}
	}
	if len(list) < g.o.Batch {
		return nil, fmt.Errorf("bench: %s has %d schemas that compile; want %d", g.o.Dir, len(list), g.o.Batch)
	}
	return list, nil
}

// request makes the n-th request of a round. Without a schema it takes as many tokens as the guided one took.
func (g *guided) request(n int, salt string, schema []byte) text.Request {
	r := text.Request{Prompt: fmt.Sprintf("Place %d, described in JSON:\n", n), Params: engine.Params{Sampling: sampling.Defaults(), MaxTokens: g.o.Tokens, Logprobs: -1, PromptLogprobs: -1, Salt: salt}}
	r.Sampling.Seed = uint64(n)
	if schema == nil {
		r.MaxTokens, r.IgnoreEOS = g.lengths[n], true
	} else {
		r.Answer.Form = &text.Form{Spec: grammar.Spec{Schema: schema, Compact: true, Ordered: true}, Field: "schema"}
	}
	return r
}

// round answers all requests, a batch at a time, and returns the tokens of the answers a second, and the processors'
// microseconds for each.
func (g *guided) round(ctx context.Context, salt string, held bool) (speed, cpu float64, err error) {
	var all guard.Group
	start, worked := time.Now(), cpuTime()
	for client := range g.o.Batch {
		all.Start(func() error {
			for k := range g.o.Each {
				n := k*g.o.Batch + client
				var schema []byte
				if held {
					schema = g.schemas[client]
				}
				got, err := g.answer(ctx, g.request(n, salt, schema))
				if err != nil {
					return err
				}
				g.lengths[n] = got
			}
			return nil
		})
	}
	err = all.Wait()
	seconds, tokens := time.Since(start).Seconds(), 0
	for _, n := range g.lengths {
		tokens += n
	}
	return float64(tokens) / seconds, float64((cpuTime() - worked).Microseconds()) / float64(tokens), err
}

// answer returns how many tokens an answer has.
func (g *guided) answer(ctx context.Context, r text.Request) (int, error) {
	p, err := g.m.Prepare(ctx, r)
	if err != nil {
		return 0, err
	}
	gen, err := g.m.Generate(ctx, p)
	if err != nil {
		return 0, err
	}
	defer gen.Close()
	for tokens := 0; ; {
		d, err := gen.Next(ctx)
		if errors.Is(err, io.EOF) {
			return tokens, nil
		}
		if err != nil {
			return 0, err
		}
		tokens = d.Usage.Generated
	}
}

// ownSchemas are like those that applications send. %d makes them differ.
var ownSchemas = []string{
	`{"type": "object", "properties": {"id_%d": {"type": "integer"}, "name": {"type": "string"}, "email": {"type": "string", "format": "email"},
		"tags": {"type": "array", "items": {"type": "string"}, "minItems": 2}}, "required": ["id_%[1]d", "name", "email", "tags"], "additionalProperties": false}`,
	`{"type": "object", "properties": {"title_%d": {"type": "string", "maxLength": 80}, "year": {"type": "integer", "minimum": 1900, "maximum": 2100},
		"genre": {"enum": ["drama", "comedy", "science fiction"]}, "summary": {"type": "string"}}, "required": ["title_%[1]d", "year", "genre", "summary"]}`,
	`{"type": "array", "minItems": 3, "maxItems": 9, "items": {"type": "object", "properties": {"step_%d": {"type": "string"}, "minutes": {"type": "number"},
		"done": {"type": "boolean"}}, "required": ["step_%[1]d", "minutes", "done"], "additionalProperties": false}}`,
	`{"$defs": {"node": {"type": "object", "properties": {"value_%d": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
		"required": ["value_%[1]d", "children"], "additionalProperties": false}}, "$ref": "#/$defs/node"}`,
	`{"type": "object", "properties": {"street_%d": {"type": "string"}, "city": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
		"country": {"type": "string", "minLength": 2, "maxLength": 40}, "position": {"type": "object", "properties": {"latitude": {"type": "number",
		"minimum": -90, "maximum": 90}, "longitude": {"type": "number"}}, "required": ["latitude", "longitude"]}}, "required": ["street_%[1]d", "city", "zip", "position"]}`,
	`{"anyOf": [{"type": "object", "properties": {"kind": {"const": "point_%d"}, "x": {"type": "number"}, "y": {"type": "number"}}, "required": ["kind", "x", "y"],
		"additionalProperties": false}, {"type": "object", "properties": {"kind": {"const": "text"}, "text": {"type": "string"}}, "required": ["kind", "text"],
		"additionalProperties": false}]}`,
	`{"type": "object", "properties": {"reasoning_%d": {"type": "string"}, "answer": {"type": "string"}, "confidence": {"type": "number"}},
		"required": ["reasoning_%[1]d", "answer", "confidence"], "additionalProperties": false}`,
	`{"type": "object", "patternProperties": {"^[a-z_]+_%d$": {"type": "object", "properties": {"since": {"type": "string", "format": "date"},
		"count": {"type": "integer"}}, "required": ["since", "count"], "additionalProperties": false}}, "additionalProperties": false, "minProperties": 2}`,
}
