package sched

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kvasir-llm/kvasir/kv"
)

// TestScripts runs the stories in testdata against a scheduler.
//
//	new blocks=N block=N seqs=N budget=N [chunk=N] [len=N] [waiting=N] [cache]
//	    [policy=NAME] [batch=NAME] [passed=N] [adapters=N] [interval=N] [window=MS] [allocation=NAME]
//	    [host=N] [disk=N] [preempt=NAME]
//	add id=N prompt=TEXT [max=N] [salt=TEXT] [parent=N] [hold] [heir] [nocache] [adapter=N] [priority=N] [tenant=NAME]
//	    [payer=NAME] [deadline=N] [interval=N] [background]
//	    TEXT is a sum of runs of tokens: a8+b3 is eight tokens of the stream a, then three of the stream b
//	teach n=N prompt=TEXT yield=N       runs N sequences to their end, one after another
//	measured token=NS [host=NS] [disk=NS]   tells what it takes to compute a token, and to load a block
//	lost load=N                         the Nth load of the oldest plan cannot be made
//	arrived [lost]                      the first block that a slow tier was asked for has arrived, or cannot be read
//	tick now=MS                         tells the time
//	wake                                when the next plan is due if nothing happens
//	next [edits] [late]                 plans a step, and prints it; with each sequence's blocks, or with slots and edits
//	begin                               the newest plan is under way; the oldest is anyway, but for one made late
//	commit [finish=ID,ID] [accept=N] [path=(N,N)]   the oldest plan is done; the named sequences met a stop token; of
//	                                    proposed tokens the first N are accepted, or those with these numbers
//	step [n=N] [finish=ID,ID]           next and commit, N times
//	propose id=N n=N                    proposes N tokens
//	propose id=N tree=(N,N)             proposes a tree of tokens, by what each follows
//	force id=N tokens=TEXT              tells what follows
//	alone id=N                          it is not planned ahead
//	cancel id=N
//	pending                             prints the outstanding plans, the oldest first
//	expendable priority=N [payer=NAME tokens=N]   names who should make room in a full queue
//	state                               prints the counters
//
// The token that sequence q yields at position p is the p-th of a stream of its own; with "same" after commit or step,
// all yield one and the same. After each command all invariants are checked.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := &world{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := w.run(t, d)
			if w.s != nil {
				if err := w.s.Check(); err != nil {
					t.Fatalf("%s: %v", d.Pos, err)
				}
			}
			return told.Replace(strings.TrimSuffix(out, "\n")) + "\n"
		})
	})
}

// told words what is printed for the stories: tiers have names, and a new policy changes none.
var told = strings.NewReplacer(host.String(), "host", disk.String(), "disk", strings.Join(Policies(), ", "), "Policies()")

// world is a scheduler and its outstanding plans.
type world struct {
	s      *Scheduler
	plans  []*Plan
	asked  []kv.Move                 // of slow tiers
	tables map[[2]int32][]kv.BlockID // of slots and groups, as of the newest plan
	seen   map[*Plan]map[[2]int32][]kv.BlockID
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	number := func(name string) int {
		n := 0
		d.MaybeScanArgs(t, name, &n)
		return n
	}
	text := func(name string) (s string) {
		d.MaybeScanArgs(t, name, &s)
		return s
	}
	switch d.Cmd {
	case "new":
		s, err := New(Config{
			Blocks: number("blocks"), BlockTokens: number("block"), MaxSeqs: number("seqs"),
			TokenBudget: number("budget"), MaxChunk: number("chunk"), MaxLen: number("len"),
			MaxWaiting: number("waiting"), PrefixCache: d.HasArg("cache"),
			Policy: text("policy"), Batch: Batch(text("batch")), MaxPassed: number("passed"), MaxAdapters: number("adapters"),
			Interval: number("interval"), Window: int64(number("window")), Allocation: Allocation(text("allocation")),
			Tiers: tiers(number("host"), number("disk")), Preempt: Preempt(text("preempt")),
		})
		if err != nil {
			return err.Error()
		}
		*w = world{s: s, tables: map[[2]int32][]kv.BlockID{}, seen: map[*Plan]map[[2]int32][]kv.BlockID{}}
		return "ok"
	case "add":
		r := Request{
			ID: SeqID(number("id")), Prompt: prompt(t, text("prompt")), MaxTokens: 100,
			Keys: kv.Keys{Salt: text("salt")}, NoCache: d.HasArg("nocache"), Parent: SeqID(number("parent")), Hold: d.HasArg("hold"), Heir: d.HasArg("heir"), Adapter: uint64(number("adapter")), Priority: number("priority"),
			Tenant: text("tenant"), Payer: text("payer"), Deadline: int64(number("deadline")), Interval: int64(number("interval")), Background: d.HasArg("background"),
		}
		d.MaybeScanArgs(t, "max", &r.MaxTokens)
		if err := w.s.Add(r); err != nil {
			return err.Error()
		}
		return "ok"
	case "teach":
		for i := range number("n") {
			if err := w.s.Add(Request{ID: SeqID(1000 + i), Prompt: prompt(t, text("prompt")), MaxTokens: number("yield")}); err != nil {
				return err.Error()
			}
			for w.s.Stats().Waiting+w.s.Stats().Running > 0 {
				w.next(false, false)
				w.commit(nil, false, 0, nil)
			}
		}
		return "ok"
	case "measured":
		w.s.Measured(kv.Rates{Token: int64(number("token")), Block: [kv.MaxTiers]int64{host: int64(number("host")), disk: int64(number("disk"))}})
		return "ok"
	case "lost":
		loads := slices.DeleteFunc(slices.Clone(w.plans[0].Moves), func(m kv.Move) bool { return m.To.Tier != kv.Device })
		if number("load") > len(loads) {
			return fmt.Sprintf("there are %d loads", len(loads))
		}
		w.s.Lost(w.plans[0], loads[number("load")-1])
		return w.show(w.plans[0])
	case "arrived":
		if len(w.asked) == 0 {
			return "nothing is asked for"
		}
		m := w.asked[0]
		if w.asked = w.asked[1:]; d.HasArg("lost") {
			w.s.Lost(nil, m)
			return fmt.Sprintf("%v is lost", m.Name.Hash)
		}
		return fmt.Sprintf("%v, expected: %v", m.Name.Hash, w.s.Arrived(m))
	case "begin":
		w.s.Begin(w.plans[len(w.plans)-1])
		return "ok"
	case "propose":
		if err := w.s.Propose(SeqID(number("id")), draft(t, d, number("n"))); err != nil {
			return err.Error()
		}
		return "ok"
	case "force":
		n, ended, err := w.s.Force(SeqID(number("id")), prompt(t, text("tokens")))
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d follow, ended: %v", n, ended)
	case "alone":
		w.s.PlanAhead(SeqID(number("id")), false)
		return "ok"
	case "tick":
		w.s.Tick(1000 * int64(number("now")))
		return "ok"
	case "wake":
		if at, ok := w.s.Wake(); ok {
			return fmt.Sprint("at ", float64(at)/1000)
		}
		return "never"
	case "next":
		return w.next(d.HasArg("edits"), d.HasArg("late"))
	case "commit":
		return w.commit(finishing(t, d), d.HasArg("same"), number("accept"), path(t, d))
	case "step":
		var out []string
		for range max(1, number("n")) {
			if out = append(out, w.next(false, false)); len(w.plans) > 0 {
				out = append(out, w.commit(finishing(t, d), d.HasArg("same"), number("accept"), path(t, d)))
			}
		}
		return strings.Join(slices.DeleteFunc(out, func(s string) bool { return s == "ok" }), "\n")
	case "cancel":
		return fmt.Sprint(w.s.Cancel(SeqID(number("id"))))
	case "expendable":
		if id, ok := w.s.Expendable(&Request{Priority: number("priority"), Payer: text("payer"), Prompt: make([]int32, number("tokens"))}); ok {
			return fmt.Sprintf("seq %d", id)
		}
		return "no one"
	case "pending":
		var out []string
		for _, p := range w.plans {
			out = append(out, w.show(p))
		}
		return strings.Join(out, "\n--\n")
	case "state":
		return w.s.Stats().String()
	}
	t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	return ""
}

// next plans a step. The oldest plan is begun, at the latest when there is to be another.
func (w *world) next(edits, late bool) string {
	if len(w.plans) == 1 && !w.plans[0].begun {
		w.s.Begin(w.plans[0])
	}
	p := w.s.Next()
	asked := ""
	fetches := w.s.Fetches(nil)
	for _, m := range fetches {
		asked += fmt.Sprintf("\n%v: asked of %v %d", m.Name.Hash, m.From.Tier, m.From.At)
	}
	if w.asked = append(w.asked, fetches...); p == nil {
		return "nothing to do" + asked
	}
	if w.plans = append(w.plans, p); len(w.plans) == 1 && !late {
		w.s.Begin(p)
	}
	for _, e := range p.Edits {
		at := [2]int32{e.Slot, e.Group}
		w.tables[at] = append(w.tables[at], make([]kv.BlockID, max(0, int(e.At)+1-len(w.tables[at])))...)
		w.tables[at][e.At] = e.Block
	}
	w.seen[p] = map[[2]int32][]kv.BlockID{}
	for at, table := range w.tables {
		w.seen[p][at] = slices.Clone(table)
	}
	if edits {
		return p.String() + asked
	}
	return w.show(p) + asked
}

// show prints a plan with the blocks that its works read and write instead of edits and slots.
func (w *world) show(p *Plan) string {
	var out []string
	for _, line := range strings.Split(p.String(), "\n") {
		if !strings.HasPrefix(line, "slot ") {
			out = append(out, line)
		}
	}
	for i, work := range p.Seqs {
		n := w.s.pool.BlocksFor(work.Start + work.N)
		blocks := ""
		for g := range w.s.pool.Groups() {
			blocks += fmt.Sprintf(" %v", w.seen[p][[2]int32{work.Slot, int32(g)}][:n])
		}
		out[1+i] = strings.Replace(out[1+i], fmt.Sprintf(" in slot %d", work.Slot), " in blocks"+blocks, 1)
	}
	return strings.Join(out, "\n")
}

func (w *world) commit(finish []SeqID, same bool, accept int, path []int32) string {
	p := w.plans[0]
	if w.plans = w.plans[1:]; len(w.plans) == 1 && !w.plans[0].begun {
		defer w.s.Begin(w.plans[0])
	}
	results := make([]Result, len(p.Seqs))
	ids := make([]SeqID, len(p.Seqs))
	for i, work := range p.Seqs {
		results[i] = Result{Finished: slices.Contains(finish, work.ID)}
		if work.Draft > 0 && path != nil {
			accept, results[i].Path = len(path), path
		}
		for j := range 1 + min(accept, work.Draft) {
			token := 1000*int32(work.ID) + int32(work.Start+work.N-work.Draft+j)
			if same {
				token = 1
			}
			results[i].Tokens = append(results[i].Tokens, token)
		}
		ids[i] = work.ID
	}
	w.s.Commit(p, results)
	var out []string
	for i, r := range results {
		if r.Finished {
			out = append(out, fmt.Sprintf("seq %d has ended", ids[i]))
		}
	}
	if out == nil {
		return "ok"
	}
	return strings.Join(out, "\n")
}

// draft returns a list of n tokens, or a tree of them.
func draft(t *testing.T, d *datadriven.TestData, n int) Draft {
	parents := numbers(t, d, "tree")
	draft := Draft{Parents: parents}
	for i := range max(n, len(parents)) {
		draft.Tokens = append(draft.Tokens, int32(i))
	}
	return draft
}

func path(t *testing.T, d *datadriven.TestData) []int32 { return numbers(t, d, "path") }

// numbers returns the values of an argument, nil if it is not there.
func numbers(t *testing.T, d *datadriven.TestData, name string) (all []int32) {
	for _, a := range d.CmdArgs {
		if a.Key != name {
			continue
		}
		for i := range a.Vals {
			var n int
			a.Scan(t, i, &n)
			all = append(all, int32(n))
		}
	}
	return all
}

// prompt makes the tokens that a sum of runs, such as a8+b3, stands for.
func prompt(t *testing.T, text string) []int32 {
	var tokens []int32
	for run := range strings.SplitSeq(text, "+") {
		n, err := strconv.Atoi(run[1:])
		if err != nil {
			t.Fatalf("prompt %q: %v", text, err)
		}
		for i := range n {
			tokens = append(tokens, -int32(run[0])*1000-int32(i))
		}
	}
	return tokens
}

func finishing(t *testing.T, d *datadriven.TestData) []SeqID {
	var ids []SeqID
	for _, a := range d.CmdArgs {
		if a.Key != "finish" {
			continue
		}
		for _, v := range a.Vals {
			n, err := strconv.Atoi(v)
			if err != nil {
				t.Fatalf("%s: finish: %v", d.Pos, err)
			}
			ids = append(ids, SeqID(n))
		}
	}
	return ids
}
