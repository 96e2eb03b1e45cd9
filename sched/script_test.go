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
//	add id=N prompt=TEXT [max=N] [salt=TEXT] [parent=N] [hold] [heir] [nocache] [adapter=N] [priority=N] [tenant=NAME] [deadline=N] [interval=N]
//	    TEXT is a sum of runs of tokens: a8+b3 is eight tokens of the stream a, then three of the stream b
//	teach n=N prompt=TEXT yield=N       runs N sequences to their end, one after another
//	measured token=NS [host=NS] [disk=NS]   tells what it takes to compute a token, and to load a block
//	lost load=N                         the Nth load of the oldest plan cannot be made
//	tick now=MS                         tells the time
//	wake                                when the next plan is due if nothing happens
//	next                                plans a step, and prints it
//	commit [finish=ID,ID]               the oldest plan is done; the named sequences met a stop token
//	step [n=N] [finish=ID,ID]           next and commit, N times
//	cancel id=N
//	pending                             prints the outstanding plans, the oldest first
//	expendable priority=N               names who should make room in a full queue
//	state                               prints the counters
//
// The token that sequence q yields at position p is the p-th of a stream of its own; with "same" after commit or step, all
// yield one and the same. After each command all invariants are checked.
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
			return strings.TrimSuffix(out, "\n") + "\n"
		})
	})
}

// world is a scheduler and its outstanding plans.
type world struct {
	s     *Scheduler
	plans []*Plan
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
			Slots: [kv.Tiers]int{kv.Host: number("host"), kv.Disk: number("disk")}, Preempt: Preempt(text("preempt")),
		})
		if err != nil {
			return err.Error()
		}
		*w = world{s: s}
		return "ok"
	case "add":
		r := Request{
			ID: SeqID(number("id")), Prompt: prompt(t, text("prompt")), MaxTokens: 100,
			Keys: kv.Keys{Salt: text("salt")}, NoCache: d.HasArg("nocache"), Parent: SeqID(number("parent")), Hold: d.HasArg("hold"), Heir: d.HasArg("heir"), Adapter: uint64(number("adapter")), Priority: number("priority"),
			Tenant: text("tenant"), Deadline: int64(number("deadline")), Interval: int64(number("interval")),
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
				w.next()
				w.commit(nil, false)
			}
		}
		return "ok"
	case "measured":
		w.s.Measured(kv.Rates{Token: int64(number("token")), Block: [kv.Tiers]int64{kv.Host: int64(number("host")), kv.Disk: int64(number("disk"))}})
		return "ok"
	case "lost":
		loads := slices.DeleteFunc(slices.Clone(w.plans[0].Moves), func(m kv.Move) bool { return m.To.Tier != kv.Device })
		if number("load") > len(loads) {
			return fmt.Sprintf("there are %d loads", len(loads))
		}
		w.s.Lost(w.plans[0], loads[number("load")-1])
		return w.plans[0].String()
	case "tick":
		w.s.Tick(int64(number("now")))
		return "ok"
	case "wake":
		if at, ok := w.s.Wake(); ok {
			return fmt.Sprint("at ", at)
		}
		return "never"
	case "next":
		return w.next()
	case "commit":
		return w.commit(finishing(t, d), d.HasArg("same"))
	case "step":
		var out []string
		for range max(1, number("n")) {
			if out = append(out, w.next()); len(w.plans) > 0 {
				out = append(out, w.commit(finishing(t, d), d.HasArg("same")))
			}
		}
		return strings.Join(slices.DeleteFunc(out, func(s string) bool { return s == "ok" }), "\n")
	case "cancel":
		return fmt.Sprint(w.s.Cancel(SeqID(number("id"))))
	case "expendable":
		if id, ok := w.s.Expendable(number("priority")); ok {
			return fmt.Sprintf("seq %d", id)
		}
		return "no one"
	case "pending":
		var out []string
		for _, p := range w.plans {
			out = append(out, p.String())
		}
		return strings.Join(out, "\n--\n")
	case "state":
		return w.s.Stats().String()
	}
	t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	return ""
}

func (w *world) next() string {
	p := w.s.Next()
	if p == nil {
		return "nothing to do"
	}
	w.plans = append(w.plans, p)
	return p.String()
}

func (w *world) commit(finish []SeqID, same bool) string {
	p := w.plans[0]
	w.plans = w.plans[1:]
	results := make([]Result, len(p.Seqs))
	ids := make([]SeqID, len(p.Seqs))
	for i, work := range p.Seqs {
		results[i] = Result{
			Token:    1000*int32(work.ID) + int32(work.Start+work.N),
			Finished: slices.Contains(finish, work.ID),
		}
		if same {
			results[i].Token = 1
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
