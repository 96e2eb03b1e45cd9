package kv

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs the stories in testdata against a pool. Sequences are texts: a character is a token.
//
//	pool blocks=N tokens=N [windows=(N,N)] [states=N] [policy=NAME]   a new pool, of a group for each window (0: none)
//	run s=NAME text=… [salt=…] [adapter=…] [priority=N] [ttl=N]       a sequence finds its prefix, computes the rest and
//	                                                                  registers what is full
//	grow s=NAME text=…                 more tokens
//	fork s=NAME from=NAME [tokens=N]   a sequence that begins with another's tokens
//	match text=… [salt=…] [adapter=…]  what would be found, and what it would cost to grow to that text
//	end NAME…                          sequences release their blocks
//	tick now=N                         tells the time
//	pin text=… [most=N], unpin text=…  a prefix is not evicted
//	reset                              forgets what is cached
//	events, snapshot                   prints what has happened since the last time, or what a newcomer is told
//	inspect                            prints the named blocks
//	spans                              prints the lengths of blocks' lives
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

// world is a pool and the sequences that use it. It computes what they grow by: written holds what is in each slot, as
// the text of the sequence up to there.
type world struct {
	pool    *Pool
	seqs    map[string]*story
	written map[[2]int32]string
}

type story struct {
	text  string
	keys  Keys
	table Table
}

func newWorld(cfg Config) (*world, error) {
	pool, err := New(cfg)
	return &world{pool, map[string]*story{}, map[[2]int32]string{}}, err
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	number := func(name string, usual int) int {
		d.MaybeScanArgs(t, name, &usual)
		return usual
	}
	var s, text string
	var keys Keys
	d.MaybeScanArgs(t, "s", &s)
	d.MaybeScanArgs(t, "text", &text)
	d.MaybeScanArgs(t, "salt", &keys.Salt)
	d.MaybeScanArgs(t, "adapter", &keys.AdapterName)
	switch d.Cmd {
	case "pool":
		cfg := Config{Blocks: number("blocks", 0), BlockTokens: number("tokens", 0), States: number("states", 0), Events: true}
		d.MaybeScanArgs(t, "policy", &cfg.Policy)
		var windows []int
		for _, a := range d.CmdArgs {
			if a.Key == "windows" {
				windows = make([]int, len(a.Vals))
				for i := range a.Vals {
					a.Scan(t, i, &windows[i])
				}
			}
		}
		for _, n := range windows {
			cfg.Groups = append(cfg.Groups, Group{n})
		}
		fresh, err := newWorld(cfg)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		*w = *fresh
		return ""
	case "run":
		q, found := w.begin(text, keys, Retention{number("priority", 0), int64(number("ttl", 0))})
		w.seqs[s] = q
		return fmt.Sprintf("found %d tokens\n", found) + w.grow(q, text[len(q.text):])
	case "grow":
		return w.grow(w.seqs[s], text)
	case "fork":
		var from string
		d.ScanArgs(t, "from", &from)
		q := w.seqs[from]
		w.seqs[s] = w.fork(q, number("tokens", len(q.text)))
		if w.seqs[s] == nil {
			return "cannot be forked\n"
		}
		return fmt.Sprintf("holds %v\n", w.seqs[s].table)
	case "match":
		var o Offer
		n := len(text)
		w.pool.Offer(&o, Want{Keys: keys, Length: n, Rows: n, Lookup: true, Names: w.names(text, keys), Tokens: tokens(text)})
		return fmt.Sprintf("found %d tokens; takes %d new blocks, %d unused ones\n", o.Found, o.Need, o.Unused)
	case "end":
		for _, s := range d.CmdArgs {
			w.pool.Release(&w.seqs[s.Key].table)
			delete(w.seqs, s.Key)
		}
	case "tick":
		w.pool.Tick(int64(number("now", 0)))
	case "pin":
		n, err := w.pool.Pin(w.names(text, keys), keys, tokens(text), number("most", 1000))
		if err != nil {
			return err.Error() + "\n"
		}
		return fmt.Sprintf("%d tokens, %d references\n", n, w.pool.Stats().Pinned)
	case "unpin":
		return fmt.Sprintf("%d tokens\n", w.pool.Unpin(w.names(text, keys)))
	case "reset":
		return fmt.Sprintf("%d blocks\n", w.pool.Reset())
	case "events":
		return tell(w.pool.Events())
	case "snapshot":
		all := w.pool.Snapshot()
		slices.SortStableFunc(all, func(a, b Event) int { return slices.Compare(a.Tokens, b.Tokens) })
		return tell(all)
	case "inspect":
		return w.inspect()
	case "spans":
		st := w.pool.Stats()
		return fmt.Sprintf("lifetime %d/%d, idle %d/%d, reuse %d/%d; partial %d, copies %d\n", st.Lifetime.Sum, st.Lifetime.Count,
			st.Idle.Sum, st.Idle.Count, st.Reuse.Sum, st.Reuse.Count, st.Partial, st.Copies)
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	return ""
}

func (t Table) String() string {
	s := fmt.Sprint(t.Blocks[0])
	for _, blocks := range t.Blocks[1:] {
		s += fmt.Sprintf(" %v", blocks)
	}
	if t.State >= 0 {
		s += fmt.Sprintf(", state %d", t.State)
	}
	return s
}

func (w *world) inspect() string {
	var lines []string
	for _, c := range w.pool.Inspect() {
		text := ""
		for _, t := range c.Tokens {
			text += string(rune(t))
		}
		line := fmt.Sprintf("%q: %d blocks, held %d times, used by %d, named at %d, used at %d", text, c.Blocks, c.Refs, c.Uses, c.Named, c.Used)
		if c.Priority != 0 {
			line += fmt.Sprintf(", priority %d", c.Priority)
		}
		if c.Parent != (Hash{}) {
			line += ", follows another"
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func tokens(text string) []int32 {
	out := make([]int32, len(text))
	for i := range out {
		out[i] = int32(text[i])
	}
	return out
}

// names returns the names of the full blocks of text.
func (w *world) names(text string, keys Keys) []Hash {
	var names []Hash
	parent := Root("0")
	for n := w.pool.cfg.BlockTokens; len(text) >= n; text = text[n:] {
		parent = HashBlock(parent, tokens(text[:n]), keys)
		names, keys = append(names, parent), Keys{}
	}
	return names
}

// begin makes a sequence of what is found of a text.
func (w *world) begin(text string, keys Keys, keep Retention) (q *story, found int) {
	var m Prefix
	w.pool.match(&m, w.names(text, keys), keys, tokens(text))
	q = &story{keys: keys, table: w.pool.newTable(1000, keys, keep)}
	if w.pool.addState(&q.table) {
		w.pool.share(&q.table, &m, len(text))
		q.text = text[:m.Tokens]
	} else {
		w.pool.Release(&q.table)
	}
	return q, m.Tokens
}

func (w *world) fork(q *story, n int) *story {
	if !w.pool.canFork(&q.table, n) {
		return nil
	}
	child := &story{text: q.text[:n], keys: q.keys, table: w.pool.newTable(1000, q.keys, Retention{})}
	w.pool.fork(&child.table, &q.table, n, n)
	return child
}

// grow computes more tokens of a sequence, and names and gives back blocks.
func (w *world) grow(q *story, more string) string {
	if w.pool.cfg.States > 0 && q.table.State < 0 {
		return "no slot for its state\n"
	}
	from, to := len(q.text), len(q.text)+len(more)
	var copies []Copy
	if !w.pool.Grow(&q.table, from, to, 0, &copies) {
		return "not enough blocks\n"
	}
	q.text += more
	w.write(q, from, copies)
	names, size := w.names(q.text, q.keys), w.pool.cfg.BlockTokens
	for i := int(q.table.Named); i < len(names); i++ {
		w.pool.Register(&q.table, names[:i+1], tokens(q.text[i*size:(i+1)*size]))
	}
	w.pool.Slide(&q.table, to)
	out := ""
	for _, c := range copies {
		out += fmt.Sprintf("copies block %d to %d\n", c.From, c.To)
	}
	return out + fmt.Sprintf("holds %v\n", q.table)
}

func (w *world) write(q *story, from int, copies []Copy) {
	size := int32(w.pool.cfg.BlockTokens)
	for _, c := range copies {
		for i := range size {
			w.written[[2]int32{c.To, i}] = w.written[[2]int32{c.From, i}]
		}
	}
	for g, blocks := range q.table.Blocks {
		for at := from; at < len(q.text); at++ {
			w.written[[2]int32{blocks[at/int(size)], int32(at) % size}] = w.slot(q, g, at)
		}
	}
}

// slot returns what a slot holds once the token at a position is computed for a group.
func (w *world) slot(q *story, group, at int) string {
	return fmt.Sprintf("%d %v %s", group, q.keys, q.text[:at+1])
}

// misplaced returns the first token that a sequence needs and does not have, as an error.
func (w *world) misplaced(q *story) error {
	size := w.pool.cfg.BlockTokens
	for g, blocks := range q.table.Blocks {
		first := 0
		if n := w.pool.cfg.Groups[g].Window; n > 0 {
			first = max(0, len(q.text)-n+1)
		}
		for at := first; at < len(q.text); at++ {
			b := blocks[at/size]
			if got, want := w.written[[2]int32{b, int32(at % size)}], w.slot(q, g, at); got != want {
				return fmt.Errorf("token %d of %q is to be in block %d for group %d; it holds %q, want %q", at, q.text, b, g, got, want)
			}
		}
	}
	return nil
}
