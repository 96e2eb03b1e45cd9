package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
)

// tape remembers the logits after every sequence of tokens that any run computed. If another run computes other bits
// after the same tokens, the test fails.
type tape struct {
	t      testing.TB
	known  map[prefix][]float32
	packed map[[32]byte][]*past // what is stored, over runs
	wrong  int

	answers [][]int32 // prompts with what follows them, of the first run

	mu sync.Mutex // of two engines: of what they play, and of the device, which makes one adapter's weights at a time
}

// listener is a Runner that plays its logits to a tape. It keeps for each cache slot the tokens up to the one in it, so
// that it knows which sequence a row belongs to.
type listener struct {
	Runner
	tape        *tape
	blockTokens int32
	slots       []*past
	tables      map[int32][]int32           // of the first group, by slot of the sequence
	heard       map[prefix]bool             // of this run
	adapters    []string                    // by slot
	placed      map[*compute.LowRank]string // adapters on their way to a slot

	pinner   compute.Pinner
	unpinned bool             // it knows no memory
	pinned   map[*byte][]byte // what it knows

	packed  map[[32]byte][]*past // what slots of a stored block held, by its contents
	shifted int                  // tokens
	chosen  []int32              // tokens of the step before, which rows of the next may take
}

// heardStep is a step of a listener, with what its batch said.
type heardStep struct {
	compute.Step
	l      *listener
	b      *compute.Batch
	moves  compute.Batch // of which Out, Copies and In count
	waited bool
}

// past is a token and those before it.
type past struct {
	before *past
	id     int32
	name   [32]byte // a hash of them all
}

// then returns the past that a token makes of p.
func (p *past) then(id int32) *past {
	var data [36]byte
	if p != nil {
		copy(data[:], p.name[:])
	}
	binary.LittleEndian.PutUint32(data[32:], uint32(id))
	return &past{before: p, id: id, name: sha256.Sum256(data[:])}
}

// prefix is what logits depend on.
type prefix struct {
	adapter string
	tokens  [32]byte // the name of a past
}

func (p *past) tokens() []int32 {
	if p == nil {
		return nil
	}
	return append(p.before.tokens(), p.id)
}

func (l *listener) Pinned(n int) []byte { return l.pinner.Pinned(n) }

// Pin plays a device that tells memory apart, also where there is none.
func (l *listener) Pin(data []byte) error {
	if l.unpinned {
		return errors.New("this memory cannot be pinned")
	}
	if l.pinned[&data[0]] != nil {
		l.tape.t.Error("memory is pinned that was pinned before")
	}
	l.pinned[&data[0]] = data
	if err := l.pinner.Pin(data); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

func (l *listener) Start(b *compute.Batch) (compute.Step, error) {
	b.ReadAll()
	moves := compute.Batch{Shifts: slices.Clone(b.Shifts), Out: slices.Clone(b.Out), Copies: slices.Clone(b.Copies), In: slices.Clone(b.In)}
	s, err := l.Runner.Start(b)
	return &heardStep{Step: s, l: l, b: b, moves: moves}, err
}

// Wait does to the listener's slots what the step did to the cache.
func (s *heardStep) Wait() error {
	err := s.Step.Wait()
	if err != nil || s.waited {
		return err
	}
	s.waited = true
	l, b := s.l, s.b
	l.tape.mu.Lock()
	defer l.tape.mu.Unlock()
	l.move(&s.moves)
	for _, e := range b.Edits {
		for len(l.tables[e.Slot]) <= int(e.At) {
			l.tables[e.Slot] = append(l.tables[e.Slot], -1)
		}
		if e.Group == 0 {
			l.tables[e.Slot][e.At] = e.Block
		}
	}
	for _, p := range b.Place {
		if l.adapters[p.Slot] = ""; p.Low != nil {
			l.adapters[p.Slot] = l.placed[&p.Low[0]]
		}
	}
	i := 0
	for _, q := range b.Seqs {
		slot := func(p int32) **past { return &l.slots[l.tables[q.Slot][p/l.blockTokens]*l.blockTokens+p%l.blockTokens] }
		for r := q.Row; r < q.Row+q.Rows; r++ {
			var before *past
			if p := b.Parent(&q, r); p >= 0 {
				before = *slot(q.Start + p - q.Row)
			} else if q.Start > 0 {
				before = *slot(q.Start - 1)
			}
			own := slot(q.Start + r - q.Row)
			id := b.IDs[r]
			if len(b.From) > 0 && b.From[r] >= 0 {
				id = l.chosen[b.From[r]]
			}
			*own = before.then(id)
			if i == len(b.Logits) || b.Logits[i] != r {
				continue
			}
			l.heard[prefix{l.adapters[q.Adapter], (*own).name}] = true
			l.tape.play(l.adapters[q.Adapter], *own, s.Logits(i))
			i++
		}
	}
	l.chosen = l.chosen[:0]
	for i := range b.Choose {
		l.chosen = append(l.chosen, s.Chosen(i).Token)
	}
	return nil
}

func (tp *tape) play(adapter string, p *past, logits []float32) {
	k := prefix{adapter, p.name}
	known, ok := tp.known[k]
	if !ok {
		tp.known[k] = slices.Clone(logits)
		return
	}
	for i, v := range logits {
		if math.Float32bits(v) != math.Float32bits(known[i]) {
			if tp.wrong++; tp.wrong < 5 {
				tp.t.Errorf("after tokens %v, logit %d is %v; it was %v", p.tokens(), i, v, known[i])
			}
			return
		}
	}
}

// scenario is one way to run the same requests.
type scenario struct {
	name                string
	chunk, block        int
	blocks, seqs        int
	alone, cache, again bool // one request after the other; with a prefix cache; everything twice
	preempts            bool
	forks               bool // each request has a twin that starts from it
	policy              string
	batch               sched.Batch
	interval            int
	allocation          sched.Allocation
	host, remote, disk  int64  // blocks of lower tiers
	eager               int64  // of a slow one that answers at once
	transfer            int64  // blocks that may come from another engine at once: it has computed the prompts
	dir                 string // of the disk; "": a new one
	preempt             sched.Preempt
	unpinned            bool // the device gets to know no memory of the host tier
	spoil               bool // some of what is stored gets damaged
	begun               bool // requests go on with the beginnings of their answers
	drafts, trees       bool // tokens are proposed, of which some are right
	lookup, thrifty     bool // they are looked up in the prompt, the output and predictions; and only if that pays
	fast                bool // the device may recompute faster than tiers load, and then nothing is loaded
	anyKernels          bool // run with other kernels than the best, and other keys and values than F32
}

// reference comes first: what it yields, all others must yield.
var reference = scenario{name: "alone", chunk: 512, block: 16, blocks: 16, seqs: 1, alone: true}

var scenarios = []scenario{
	{name: "alone, chunks of 1", chunk: 1, block: 16, blocks: 16, seqs: 1, alone: true},
	{name: "alone, chunks of 7, blocks of 32", chunk: 7, block: 32, blocks: 8, seqs: 1, alone: true},
	{name: "in company", chunk: 512, block: 16, blocks: 300, seqs: 32},
	{name: "in company, chunks of 1", chunk: 1, block: 16, blocks: 300, seqs: 32},
	{name: "in company, chunks of 7", chunk: 7, block: 16, blocks: 300, seqs: 32, anyKernels: true},
	{name: "in company, blocks of 32", chunk: 512, block: 32, blocks: 150, seqs: 32},
	{name: "in company, chunks of 7, blocks of 32", chunk: 7, block: 32, blocks: 150, seqs: 20},
	{name: "preempted", chunk: 512, block: 16, blocks: 20, seqs: 32, preempts: true},
	{name: "begun elsewhere", chunk: 7, block: 16, blocks: 300, seqs: 32, begun: true, anyKernels: true},
	{name: "begun elsewhere, preempted, cached", chunk: 512, block: 16, blocks: 20, seqs: 32, cache: true, preempts: true, begun: true},
	{name: "preempted, chunks of 7, cached", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, preempts: true, anyKernels: true},
	{name: "preempted, blocks of 32", chunk: 7, block: 32, blocks: 7, seqs: 32, preempts: true},
	{name: "priority", chunk: 7, block: 16, blocks: 12, seqs: 32, cache: true, preempts: true, policy: "priority"},
	{name: "shortest prompt", chunk: 512, block: 16, blocks: 12, seqs: 32, preempts: true, policy: "shortest-prompt"},
	{name: "vtc", chunk: 7, block: 16, blocks: 12, seqs: 32, cache: true, preempts: true, policy: "vtc"},
	{name: "edf", chunk: 512, block: 16, blocks: 12, seqs: 32, preempts: true, policy: "edf"},
	{name: "prefill first", chunk: 7, block: 16, blocks: 12, seqs: 32, cache: true, preempts: true, batch: sched.PrefillFirst},
	{name: "decode first", chunk: 7, block: 16, blocks: 12, seqs: 32, preempts: true, policy: "priority", batch: sched.DecodeFirst},
	{name: "static", chunk: 7, block: 16, blocks: 12, seqs: 32, cache: true, preempts: true, batch: sched.Static},
	{name: "interval", chunk: 7, block: 16, blocks: 20, seqs: 32, preempts: true, interval: 3},
	{name: "preallocated", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, allocation: sched.Preallocate},
	{name: "learned", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, allocation: sched.Learned},
	{name: "transferred", chunk: 7, block: 16, blocks: 300, seqs: 32, cache: true, transfer: 900, anyKernels: true},
	{name: "transferred, alone", chunk: 512, block: 16, blocks: 16, seqs: 1, alone: true, cache: true, transfer: 60},
	{name: "transferred, preempted", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, preempts: true, transfer: 900},
	{name: "transferred, little room, host tier", chunk: 512, block: 16, blocks: 20, seqs: 32, cache: true, again: true, preempts: true, host: 400, transfer: 30},
	{name: "transferred, drafts", chunk: 7, block: 16, blocks: 300, seqs: 32, cache: true, drafts: true, transfer: 900},
	{name: "drafts", chunk: 7, block: 16, blocks: 300, seqs: 32, drafts: true, anyKernels: true},
	{name: "drafts, alone", chunk: 512, block: 16, blocks: 16, seqs: 1, alone: true, drafts: true},
	{name: "drafts, preempted, cached", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, preempts: true, drafts: true},
	{name: "drafts, host tier", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, again: true, preempts: true, host: 400, drafts: true},
	{name: "lookup", chunk: 7, block: 16, blocks: 300, seqs: 32, lookup: true, anyKernels: true},
	{name: "lookup, alone", chunk: 512, block: 16, blocks: 16, seqs: 1, alone: true, lookup: true},
	{name: "lookup, preempted, cached", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, preempts: true, lookup: true},
	{name: "lookup, forked, as it pays", chunk: 7, block: 32, blocks: 150, seqs: 32, cache: true, forks: true, lookup: true, thrifty: true},
	{name: "lookup, alone, as it pays", chunk: 512, block: 16, blocks: 16, seqs: 1, alone: true, lookup: true, thrifty: true},
	{name: "trees", chunk: 7, block: 16, blocks: 300, seqs: 32, trees: true, anyKernels: true},
	{name: "trees, alone", chunk: 512, block: 16, blocks: 16, seqs: 1, alone: true, trees: true},
	{name: "trees, preempted, cached", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, preempts: true, trees: true},
	{name: "trees, host tier", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, again: true, preempts: true, host: 400, trees: true},
	{name: "trees, forked", chunk: 7, block: 32, blocks: 150, seqs: 32, cache: true, forks: true, trees: true},
	{name: "forked", chunk: 512, block: 16, blocks: 300, seqs: 32, cache: true, forks: true},
	{name: "forked, no cache", chunk: 7, block: 16, blocks: 300, seqs: 32, forks: true},
	{name: "forked, chunks of 7, preempted", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, preempts: true, forks: true},
	{name: "host tier", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, again: true, preempts: true, host: 400, anyKernels: true},
	{name: "host tier, not pinned", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, again: true, preempts: true, host: 400, unpinned: true},
	{name: "small host tier", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, again: true, preempts: true, host: 60},
	{name: "host tier, damaged", chunk: 512, block: 16, blocks: 20, seqs: 32, cache: true, again: true, preempts: true, host: 400, spoil: true},
	{name: "disk tier", chunk: 512, block: 16, blocks: 20, seqs: 32, cache: true, again: true, preempts: true, disk: 400, preempt: sched.Recompute},
	{name: "host and disk tier, forked", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, again: true, preempts: true, forks: true, host: 30, disk: 400},
	{name: "host, remote and disk tier", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, again: true, preempts: true, host: 30, remote: 100, disk: 400},
	{name: "host tier, swapped", chunk: 7, block: 32, blocks: 7, seqs: 32, cache: true, preempts: true, host: 400, preempt: sched.Swap},
	{name: "disk tier, swapped", chunk: 7, block: 32, blocks: 7, seqs: 32, cache: true, preempts: true, disk: 400, preempt: sched.Swap},
	{name: "tier that answers at once", chunk: 7, block: 16, blocks: 20, seqs: 32, cache: true, again: true, preempts: true, eager: 400},
	{name: "tier that answers at once, alone", chunk: 512, block: 16, blocks: 16, seqs: 1, alone: true, cache: true, again: true, eager: 400},
	{name: "warm prefix", chunk: 512, block: 16, blocks: 300, seqs: 32, cache: true, again: true},
	{name: "warm prefix, alone, chunks of 7, blocks of 32", chunk: 7, block: 32, blocks: 150, seqs: 1, alone: true, cache: true, again: true},
}

// metamorphicRequests are 32 requests, every other one greedy. Half share the start of their prompts. Half want one
// of three adapters.
func metamorphicRequests(vocab int) []Request {
	var out []Request
	for n := range 32 {
		p := sampling.Defaults()
		p.Seed = uint64(n)
		switch n % 4 {
		case 0, 2:
			p.Temperature = 0
		case 1:
			p.Temperature, p.TopP = 0.8, 0.9
		case 3:
			p.TopK, p.MinP, p.RepetitionPenalty, p.FrequencyPenalty = 40, 0.01, 1.2, 0.3
		}
		switch n {
		case 5, 13:
			p.Mirostat, p.MirostatTau = true, 4
		case 7, 15:
			p.DRYMultiplier, p.DRYAllowed, p.XTCProbability, p.XTCThreshold = 0.8, 1, 0.5, 0.001
			p.DRYBreakers = [][]int32{{3}, {5, 7}}
		case 9, 17:
			p.TypicalP, p.DynamicRange, p.BadWords = 0.9, 0.3, [][]int32{{1}, {2, 3}}
		case 11, 19:
			p.TopNSigma, p.Samplers = 2, []sampling.Stage{compute.StageTopNSigma, compute.StageTopK, compute.StageTemperature}
		}
		r := Request{Params: Params{Sampling: p, MaxTokens: 12 + n%17 + n%8/5*20, Logprobs: -1, PromptLogprobs: -1,
			Adapter:  []string{"", "", "a", "b", "", "c"}[n%6],
			Priority: n * 5 % 7, Tenant: string(rune('a' + n%3)), FirstToken: time.Duration(1+n*11%32) * time.Minute * 30}}
		for i := range 1 + n*37%70 {
			own := n
			if n%2 == 0 && i < 35 {
				own = 0
			}
			r.Prompt = append(r.Prompt, int32((own*53+i*i*11+i)%vocab))
		}
		out = append(out, r)
	}
	return out
}

// play runs the requests as a scenario says and returns their tokens. With how few blocks a scenario preempts, and
// yet finds blocks in the cache, depends on the model, so a few numbers of them are tried.
func (sc scenario) play(t *testing.T, m *model.Model, tp *tape) [][]int32 {
	t.Helper()
	for spare := 2; ; spare++ {
		tokens, stats := sc.playWith(t, m, tp, spare)
		if sc.preempts == (stats.Preemptions > 0) && ((sc.cache || sc.forks) && !m.Spec.Recurrent()) == (stats.KV.Hits > 0) && sc.loaded(stats) {
			return tokens
		}
		if !sc.preempts || spare == 5 {
			t.Errorf("%d preemptions and %d cached tokens are not what the scenario is for", stats.Preemptions, stats.KV.Hits)
			return tokens
		}
	}
}

// playWith is play with spare blocks more than the longest request needs alone, if the scenario preempts.
func (sc scenario) playWith(t *testing.T, m *model.Model, tp *tape, spare int) ([][]int32, sched.Stats) {
	t.Helper()
	tp.t = t
	const slots = 2 // so that adapters displace each other
	m.MakeSlots(slots)
	var groups []kv.Group
	for _, w := range m.Spec.KVWindows() {
		groups = append(groups, kv.Group{Window: w})
	}
	requests := metamorphicRequests(m.Spec.Vocab)
	begun := make([][]int32, len(requests))
	for i := range requests {
		if r := &requests[i]; sc.begun && !r.Sampling.Mirostat {
			answer := tp.answers[i][len(r.Prompt):]
			begun[i] = answer[:len(answer)*(i%5)/5]
			r.Prompt, r.Begun = slices.Concat(r.Prompt, begun[i]), len(begun[i])
		}
	}
	probe, err := m.NewRunner(8, len(groups), 16, 1)
	if err != nil {
		t.Fatal(err)
	}
	adapts := probe.PlaceNow(1, randomAdapter(t, m, 0)) == nil
	probe.Close()
	for i := range requests {
		if !adapts {
			requests[i].Adapter = ""
		}
	}
	blocks := sc.blocks * len(groups)
	if sc.preempts {
		// The window of a layer bounds what sequences hold, and if that is less than a prompt all at once, none gives
		// way.
		if slices.ContainsFunc(groups, func(g kv.Group) bool { return g.Window > 0 }) {
			sc.chunk = min(sc.chunk, 7)
		}
		longest := 0
		for _, r := range requests {
			longest = max(longest, len(r.Prompt)+r.MaxTokens)
		}
		blocks = min(blocks, spare+kv.Config{BlockTokens: sc.block, Groups: groups}.Most(longest, sc.chunk))
	}
	runner, err := m.NewRunner(512, blocks, sc.block, sc.seqs)
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	dir := sc.dir
	if sc.disk > 0 && dir == "" {
		dir = t.TempDir()
	}
	begin := make(chan struct{})
	l := &listener{
		Runner: &late{Runner: runner, begin: begin}, tape: tp, blockTokens: int32(sc.block),
		slots: make([]*past, blocks*sc.block), tables: map[int32][]int32{}, placed: map[*compute.LowRank]string{}, heard: map[prefix]bool{}, adapters: make([]string, slots+1),
		packed: tp.packed, pinner: runner, unpinned: sc.unpinned, pinned: map[*byte][]byte{},
	}
	place := func(slot int, a *model.Adapter) (compute.Placement, error) {
		tp.mu.Lock()
		defer tp.mu.Unlock()
		p, err := runner.Place(slot, a)
		if a != nil && err == nil {
			l.placed[&p.Low[0]] = string(a.ID[:])
		}
		return p, err
	}
	var adapters []Adapter
	ids := map[string]string{}
	for i, name := range []string{"a", "b", "c"} {
		if !adapts {
			break
		}
		adapters = append(adapters, Adapter{Name: name, Data: randomAdapter(t, m, uint64(i))})
		ids[name] = string(adapters[i].Data.ID[:])
	}
	var drafts Drafts
	if g := (&guesser{rng: rand.New(rand.NewPCG(3, 4)), vocab: m.Spec.Vocab, answers: tp.answers}); sc.trees {
		drafts = always(g.tree)
	} else if sc.drafts {
		drafts = always(g.draft)
	} else if sc.lookup {
		drafts = Drafts{Lookup: true, Always: !sc.thrifty}
		for n := range requests {
			if r := &requests[n]; n%3 > 0 { // to others, what they say themselves is all there is
				r.Prediction = slices.Clone(tp.answers[n][len(r.Prompt):])
				r.Prediction[len(r.Prediction)/2] = int32(n)
			}
		}
	}
	e, err := New(Config{Drafts: drafts, Runner: l, Vocab: m.Spec.Vocab, Slots: slots, Place: place, Adapters: adapters,
		Tiers: Tiers{List: sc.tiers(runner.BlockBytes(), dir), Model: "metamorphic", Always: true}, Sched: sched.Config{
			BlockTokens: sc.block, Blocks: blocks, Groups: groups, States: runner.Cache().Spec().States, MaxLen: 256, MaxSeqs: sc.seqs, TokenBudget: 512, MaxChunk: sc.chunk, PrefixCache: sc.cache,
			StepTarget: []int64{0, 1, 20_000}[sc.seqs%3], Stairs: []sched.Stair{{Rows: 8, Work: 1}, {Rows: 16, Work: 2}, {Rows: 24, Work: 4}}[:sc.seqs%4], Policy: sc.policy, Batch: sc.batch, Interval: sc.interval, Allocation: sc.allocation, MaxPassed: len(sc.policy), Preempt: sc.preempt,
		}})
	if err != nil {
		t.Fatal(err)
	}
	var other *giver
	if sc.transfer > 0 {
		other = sc.giver(t, m, tp, groups, adapters, slots)
		defer other.close()
	}
	outputs := make([][]int32, len(requests))
	if sc.alone {
		close(begin)
	}
	rounds := 1
	if sc.again {
		rounds = 2
	}
	for round := range rounds {
		var streams, twins []*Stream
		for n, r := range requests {
			release := func() {}
			if other != nil {
				release = other.hand(t, e, r, n)
			}
			s := submit(t, e, t.Context(), r)
			if sc.alone {
				outputs[n], _ = read(t, s)
				release()
			} else {
				defer release()
			}
			streams = append(streams, s)
			if r.Parent = s; sc.forks {
				twins = append(twins, submit(t, e, t.Context(), r))
			}
		}
		if !sc.alone && round == 0 {
			close(begin) // all are there
		}
		for n, s := range streams {
			if !sc.alone {
				outputs[n], _ = read(t, s)
			}
		}
		for n, s := range twins {
			if got, _ := read(t, s); !slices.Equal(got, outputs[n]) {
				t.Errorf("request %d: its twin yields %v; want %v", n, got, outputs[n])
			}
		}
	}
	if tp.answers == nil {
		for n, r := range requests {
			tp.answers = append(tp.answers, slices.Concat(r.Prompt, outputs[n]))
		}
	}
	stats := e.Stats().Sched
	wantIdle(t, e)
	e.Close()
	if (len(l.pinned) > 0) != ((sc.host > 0 && !sc.spoil || sc.transfer > 0) && !sc.unpinned) {
		t.Errorf("%d pieces of the host tier's memory are pinned", len(l.pinned))
	}
	if n := e.Stats().Drafts; (sc.drafts || sc.trees || sc.lookup && !sc.thrifty) && !m.Spec.Recurrent() && (n.Accepted == 0 || n.Accepted == n.Proposed) {
		t.Errorf("of %d tokens proposed, %d were accepted; the test wants both kinds", n.Proposed, n.Accepted)
	}
	if sc.trees && runner.Trees() && l.shifted == 0 {
		t.Error("no token was shifted, so no branch of a tree but the first was accepted")
	}
	for n, r := range requests {
		var p *past
		for i, id := range slices.Concat(r.Prompt, outputs[n]) {
			if out := i - len(r.Prompt); out >= 0 && !l.heard[prefix{ids[r.Adapter], p.name}] {
				t.Fatalf("request %d: the logits of output token %d were not compared", n, out)
			}
			p = p.then(id)
		}
		outputs[n] = slices.Concat(begun[n], outputs[n])
	}
	return outputs, stats
}

// TestSameTokensWhateverTheCompany is the engine's promise: tokens and logits of a request are the same, bit for bit,
// whatever else runs, however prompts are cut, wherever blocks lie, and whichever kernels compute, for every type of
// keys and values. The best kernels run every scenario with every kind of model; the portable ones, which are slow, a
// few with the first. The model package compares all kernels with all goldens.
func TestSameTokensWhateverTheCompany(t *testing.T) {
	for n, c := range []struct {
		name string
		kv   quant.Type
	}{
		{"llama", quant.F32}, {"mistral_swa", quant.F32}, {"qwen3", quant.F32}, {"gemma3", quant.F32},
		{"gpt_oss_mxfp4", quant.F32}, {"deepseek_v2_groups", quant.F32}, {"qwen3_next_heads", quant.F32},
		{"llama", quant.Q8_0}, {"mistral_swa", quant.BF16}, {"qwen3", quant.Q4_0}, {"llama", quant.F16},
	} {
		if testing.Short() && n > 0 || verifying && c.kv != quant.F32 {
			break // the race detector watches the same goroutines with each model, and books are kept of blocks of any type
		}
		t.Run(c.name+", "+c.kv.String(), func(t *testing.T) {
			tp := newTape()
			var want [][]int32
			for i, kernels := range cpu.Kernels() {
				if i > 0 && (kernels == "portable" && n > 0 || testing.Short() || verifying) {
					continue
				}
				threads := 1 + i%2
				if testing.Short() {
					threads = 2
				}
				t.Run(kernels, func(t *testing.T) {
					m := loadGolden(t, c.name, cpu.Options{Kernels: kernels, Threads: threads})
					m.KVType = c.kv
					if want == nil {
						want = reference.play(t, m, tp)
					}
					for _, sc := range scenarios {
						if m.Spec.Recurrent() && len(sc.tiers(1, "")) > 0 {
							continue // refused
						}
						if (i > 0 || c.kv != quant.F32) && !sc.anyKernels {
							continue
						}
						t.Run(sc.name, func(t *testing.T) {
							for n, got := range sc.play(t, m, tp) {
								if !slices.Equal(got, want[n]) {
									t.Errorf("request %d: got %v; want %v", n, got, want[n])
								}
							}
						})
					}
				})
			}
		})
	}
}
