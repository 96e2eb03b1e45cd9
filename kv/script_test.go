package kv

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs the stories in testdata against a pool. Sequences are texts: a character is a token.
//
//	pool blocks=N tokens=N          a new pool
//	run s=NAME text=… [salt=…]      a sequence finds its prefix, allocates the rest and registers what is full
//	grow s=NAME text=…              more tokens
//	match text=… [salt=…]           what would be found
//	end NAME…                       sequences release their blocks
//
// After each command the pool's invariants are checked, and what changed is printed with the counters.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		w := &world{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := w.run(t, d)
			if err := w.pool.Check(); err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			return fmt.Sprintf("%s%v\n", out, w.pool.Stats())
		})
	})
}

// world is a pool and the sequences that use it.
type world struct {
	pool *Pool
	seqs map[string]*story
}

type story struct {
	text, salt string
	table      []BlockID
	named      int
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	var s, text, salt string
	d.MaybeScanArgs(t, "text", &text)
	d.MaybeScanArgs(t, "salt", &salt)
	switch d.Cmd {
	case "pool":
		var blocks, tokens int
		d.ScanArgs(t, "blocks", &blocks)
		d.ScanArgs(t, "tokens", &tokens)
		*w = world{NewPool(blocks, tokens), map[string]*story{}}
		return ""
	case "run":
		d.ScanArgs(t, "s", &s)
		q := &story{salt: salt}
		q.table = w.pool.Match(nil, w.names(text, salt))
		w.pool.Share(q.table, len(text))
		q.named = len(q.table)
		q.text = text[:q.named*w.pool.BlockTokens()]
		w.seqs[s] = q
		return fmt.Sprintf("found %v\n", q.table) + w.grow(q, text[len(q.text):])
	case "grow":
		d.ScanArgs(t, "s", &s)
		return w.grow(w.seqs[s], text)
	case "match":
		chain := w.pool.Match(nil, w.names(text, salt))
		return fmt.Sprintf("found %v, %d of them unused\n", chain, w.pool.Unused(chain))
	case "end":
		for _, s := range d.CmdArgs {
			w.pool.Release(w.seqs[s.Key].table)
			delete(w.seqs, s.Key)
		}
		return ""
	}
	t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	return ""
}

// names returns the names of the full blocks of text.
func (w *world) names(text, salt string) []Hash {
	var names []Hash
	parent, keys := Root("0"), Keys{Salt: salt}
	for n := w.pool.BlockTokens(); len(text) >= n; text = text[n:] {
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = int32(text[i])
		}
		parent = HashBlock(parent, tokens, keys)
		names, keys.Salt = append(names, parent), ""
	}
	return names
}

func (w *world) grow(q *story, text string) string {
	all := q.text + text
	table, ok := w.pool.Alloc(q.table, w.pool.BlocksFor(len(all))-len(q.table))
	if !ok {
		return "not enough blocks\n"
	}
	q.text, q.table = all, table
	for names := w.names(all, q.salt); q.named < len(names); q.named++ {
		q.table[q.named] = w.pool.Register(q.table[:q.named], q.table[q.named], names[q.named])
	}
	return fmt.Sprintf("holds %v\n", q.table)
}
