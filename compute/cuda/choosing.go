package cuda

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/choose"
)

// chooser is what a slot's tokens are chosen by.
type chooser struct {
	by     *compute.Choosing
	counts pointer // [vocab] how often each token came, if a penalty is on
	onHost bool
	state  choose.State // of the host, if it chooses
	step   int          // the last one in which run is
	run    int32        // of more.runOf: that of the slot's choices
}

// choosers are the parts of a program that choose tokens. What takes more than a draw is a list of moreArgs for each
// step, in runs: choices that depend on each other.
type choosers struct {
	slots    []chooser
	spare    []pointer // counts that no slot has
	tokens   pointer   // on their way to counts
	list     pointer   // what choose_more reads
	said     pointer   // what it writes
	adjusted pointer   // [adjustedRows, vocab] logits
	room     [4]int    // bytes of these four
	steps    int
	sampler  choose.Sampler
}

// adjustedRows is how many rows of logits are adjusted at a time.
const adjustedRows = 128

// saidBytes and candidateBytes are what choose_more writes of a choice and of each alternative.
const saidBytes, candidateBytes = int(unsafe.Sizeof(said{})), int(unsafe.Sizeof(compute.Candidate{}))

// more is what one step asks of choose_more.
type more struct {
	entries []int32    // of Batch.Choose, run by run
	runs    [][2]int32 // the first of entries, and how many
	runOf   []int32    // of each entry of Batch.Choose; -1: it is not in entries
	list    []moreArgs // of entries
	words   []uint32   // masks, biases and bans, which list names
	tops    int        // alternatives of all
	top     []compute.Candidate
}

func (m *more) reset() { m.entries, m.runs, m.tops = m.entries[:0], m.runs[:0], 0 }

// setChoosers makes slots choose by what a batch says: counts of tokens go to the device.
func (p *program) setChoosers(s *step) error {
	total := 0
	for _, c := range s.b.Choosers {
		p.setChooser(&p.choosers.slots[c.Slot], c.Choosing)
		if p.choosers.slots[c.Slot].counts != 0 {
			total += len(c.Choosing.Prompt) + len(c.Choosing.Output)
		}
	}
	if total == 0 {
		return p.clearCounts(s.b.Choosers)
	}
	if err := errors.Join(p.widenPinned(&s.r.tokens, 4*total, "tokens so far"), p.widenTo(&p.choosers.tokens, &p.choosers.room[0], 4*total, "tokens so far")); err != nil {
		return err
	}
	to, at := view[int32](s.r.tokens, 0, total), 0
	for _, c := range s.b.Choosers {
		if p.choosers.slots[c.Slot].counts != 0 {
			at += copy(to[at:], c.Choosing.Prompt)
			at += copy(to[at:], c.Choosing.Output)
		}
	}
	if err := errors.Join(p.clearCounts(s.b.Choosers), p.s.toDevice(p.choosers.tokens, s.r.tokens, 0, 4*total)); err != nil {
		return err
	}
	at = 0
	for _, c := range s.b.Choosers {
		counts, n := p.choosers.slots[c.Slot].counts, len(c.Choosing.Prompt)+len(c.Choosing.Output)
		if counts == 0 || n == 0 {
			continue
		}
		a := countArgs{counts: counts, tokens: p.choosers.tokens.at(int64(4 * at)), prompt: int32(len(c.Choosing.Prompt)), n: int32(n), vocab: p.vocab()}
		if err := run(p, "count_tokens", grid{uint32(min(blocksOf(n, 256), 64)), 1, 1}, 256, &a); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// setChooser makes a slot choose by c: on the host what only it can, or if there is no memory for counts.
func (p *program) setChooser(slot *chooser, c *compute.Choosing) {
	slot.by = c
	slot.onHost = c.DRY != nil || len(c.BadWords) > 0 || c.Chain != nil
	if penalties := c.Penalties() && !slot.onHost; !penalties && slot.counts != 0 {
		p.choosers.spare, slot.counts = append(p.choosers.spare, slot.counts), 0
	} else if penalties && slot.counts == 0 {
		if n := len(p.choosers.spare); n > 0 {
			slot.counts, p.choosers.spare = p.choosers.spare[n-1], p.choosers.spare[:n-1]
		} else {
			counts, err := p.g.alloc(4*int64(p.vocab()), "counts of tokens")
			slot.counts, slot.onHost = counts, err != nil
		}
	}
	if slot.onHost {
		slot.state.Reset(c)
	}
}

// clearCounts sets the counts of slots to 0.
func (p *program) clearCounts(all []compute.Chooser) error {
	for _, c := range all {
		if counts := p.choosers.slots[c.Slot].counts; counts != 0 {
			if err := p.s.fill(counts, 0, 4*int64(p.vocab())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *program) vocab() int32 { return int32(p.choose.Logits.Cols) }

// widenTo makes memory of the device at least n bytes long. What it held is lost.
func (p *program) widenTo(at *pointer, room *int, n int, what string) error {
	if n <= *room {
		return nil
	}
	if *at != 0 {
		if err := errors.Join(p.s.wait(), p.g.free(*at)); err != nil {
			return err
		}
	}
	n = max(n, *room*3/2)
	*at, *room = 0, 0
	made, err := p.g.alloc(int64(n), what)
	if err == nil {
		*at, *room = made, n
	}
	return err
}

// memory lists what is on the device.
func (c *choosers) memory() []pointer {
	all := append([]pointer{c.tokens, c.list, c.said, c.adjusted}, c.spare...)
	for i := range c.slots {
		all = append(all, c.slots[i].counts)
	}
	return all
}

// fillChoices writes what the device chooses with the graph, and sorts out what takes more and what the host does.
func (p *program) fillChoices(s *step, sh *shape) {
	to := view[choiceArgs](s.r.in, int(sh.choose-sh.base), sh.choices)
	clear(to)
	s.results = slices.Grow(s.results[:0], len(s.b.Choose))[:len(s.b.Choose)]
	m := &s.more
	p.choosers.steps++
	m.runOf = slices.Grow(m.runOf[:0], len(s.b.Choose))[:len(s.b.Choose)]
	for i := range s.b.Choose {
		c := &s.b.Choose[i]
		s.results[i] = compute.Chosen{Token: pending}
		slot := &p.choosers.slots[max(c.Slot, 0)]
		m.runOf[i] = -1
		switch {
		case c.Given < 0 && (slot.by == nil || slot.onHost), c.After >= 0 && slices.Contains(s.onHost, int(c.After)):
			s.onHost = append(s.onHost, i)
		case c.Given >= 0 || c.Top >= 0 || c.After >= 0 || c.Mask >= 0 || !slot.by.Plain() || c.Ban && len(slot.by.Banned) > 0:
			p.addMore(m, c, i)
		default:
			to[i] = drawOf(c, slot.by)
		}
	}
	slices.SortStableFunc(m.entries, func(a, b int32) int { return int(m.runOf[a] - m.runOf[b]) })
	for k, i := range m.entries {
		if k == 0 || m.runOf[i] != m.runOf[m.entries[k-1]] {
			m.runs = append(m.runs, [2]int32{int32(k), 0})
		}
		m.runs[len(m.runs)-1][1]++
	}
}

// addMore puts choice i into the run of what it depends on: the choice that it comes after, or with counts those of
// its slot; else into a new run.
func (p *program) addMore(m *more, c *compute.Choice, i int) {
	run := int32(i)
	if c.After >= 0 && m.runOf[c.After] >= 0 {
		run = m.runOf[c.After]
	}
	if slot := &p.choosers.slots[max(c.Slot, 0)]; c.Given < 0 && slot.counts != 0 {
		if slot.step == p.choosers.steps {
			run = slot.run
		}
		slot.step, slot.run = p.choosers.steps, run
	}
	m.runOf[i], m.entries = run, append(m.entries, int32(i))
	m.tops += max(0, int(c.Top))
}

// drawOf returns a choice as the device reads it.
func drawOf(c *compute.Choice, by *compute.Choosing) choiceArgs {
	a := choiceArgs{row: c.Row, mode: 1, temperature: by.Temperature, topP: by.TopP, minP: by.MinP, topK: int32(by.TopK), seed: by.Seed, n: c.N}
	if by.Temperature > 0 {
		a.mode = 2
	}
	return a
}

// chooseMore queues the choices that take more than a draw.
func (p *program) chooseMore(s *step) error {
	m := &s.more
	if len(m.entries) == 0 {
		return nil
	}
	if slices.ContainsFunc(m.entries, func(i int32) bool { return s.b.Choose[i].Mask >= 0 }) {
		if err := p.held(s); err != nil {
			return err
		}
	}
	p.listMore(s)
	runsAt := len(m.list) * int(unsafe.Sizeof(moreArgs{}))
	wordsAt := runsAt + 8*len(m.runs)
	n, out := wordsAt+4*len(m.words), len(m.list)*saidBytes+m.tops*candidateBytes
	if err := p.roomForMore(&s.r.list, &s.r.said, n, out, len(m.runs)); err != nil {
		return err
	}
	copy(view[moreArgs](s.r.list, 0, len(m.list)), m.list)
	copy(view[[2]int32](s.r.list, runsAt, len(m.runs)), m.runs)
	copy(view[uint32](s.r.list, wordsAt, len(m.words)), m.words)
	if err := p.s.toDevice(p.choosers.list, s.r.list, 0, n); err != nil {
		return err
	}
	logits := p.view(p.choose.Logits)
	for first := 0; first < len(m.runs); first += adjustedRows {
		a := chooseMoreArgs{logits: logits.at, adjusted: p.choosers.adjusted, more: p.choosers.list,
			runs: p.choosers.list.at(int64(runsAt + 8*first)), words: p.choosers.list.at(int64(wordsAt)), chosen: p.chosen,
			said: p.choosers.said, candidates: p.choosers.said.at(int64(len(m.list) * saidBytes)),
			ld: logits.ld, vocab: p.vocab(), maskWords: int32(compute.MaskWords(p.graph.Vocab))}
		if err := run(p, "choose_more", grid{uint32(min(len(m.runs)-first, adjustedRows)), 1, 1}, 1024, &a); err != nil {
			return err
		}
	}
	return p.s.toHost(s.r.said, 0, p.choosers.said, out)
}

// roomForMore makes room for a list of n bytes, for what is said, out bytes, and for the logits that runs adjust.
func (p *program) roomForMore(list, said *pinned, n, out, runs int) error {
	c := &p.choosers
	rows := min(1<<bits.Len(uint(runs-1)), adjustedRows)
	return errors.Join(p.widenPinned(list, n, "choices"), p.widenPinned(said, out, "what is said of tokens"),
		p.widenTo(&c.list, &c.room[1], n, "choices"), p.widenTo(&c.said, &c.room[2], out, "what is said of tokens"),
		p.widenTo(&c.adjusted, &c.room[3], 4*int(p.vocab())*rows, "logits to choose from"))
}

// listMore writes what choose_more reads: the choices, and the words that they name.
func (p *program) listMore(s *step) {
	m := &s.more
	m.list, m.words = m.list[:0], m.words[:0]
	tops, width := int32(0), compute.MaskWords(p.graph.Vocab)
	mask, maskAt := int32(-1), int32(-1) // the last one listed: rows of a sequence share it
	for _, i := range m.entries {
		c := &s.b.Choose[i]
		a := moreArgs{entry: i, after: c.After, given: c.Given, top: c.Top, tops: tops, mask: -1}
		a.by.row = c.Row
		tops += max(0, c.Top)
		if c.After >= 0 {
			a.id = s.b.IDs[s.b.Logits[c.Row]]
		}
		if c.Rank {
			a.rank = 1
		}
		if c.Given < 0 {
			if c.Mask >= 0 && c.Mask != mask {
				mask, maskAt = c.Mask, int32(len(m.words))
				m.words = append(m.words, s.b.Masks[int(mask)*width:][:width]...)
			}
			if c.Mask >= 0 {
				a.mask = maskAt
			}
			p.listChoice(m, &a, c)
		}
		m.list = append(m.list, a)
	}
}

// listChoice adds what a slot's tokens are chosen by.
func (p *program) listChoice(m *more, a *moreArgs, c *compute.Choice) {
	slot := &p.choosers.slots[c.Slot]
	by := slot.by
	a.by, a.counts = drawOf(c, by), slot.counts
	a.repetition, a.presence, a.frequency = by.Repetition, by.Presence, by.Frequency
	a.bias, a.biases = int32(len(m.words)), int32(len(by.Bias))
	for _, b := range by.Bias {
		m.words = append(m.words, uint32(b.Token), math.Float32bits(b.Add))
	}
	if c.Ban {
		a.bans, a.banned = int32(len(m.words)), int32(len(by.Banned))
		for _, id := range by.Banned {
			m.words = append(m.words, uint32(id))
		}
	}
	if a.mask >= 0 || a.biases > 0 || a.banned > 0 || a.counts != 0 {
		a.adjusts = 1
	}
}

// errBehind ends a step that was held when one before it failed.
var errBehind = errors.New("cuda: a step before this one failed")

// held waits until a step may choose: its masks are there.
func (p *program) held(s *step) error {
	for {
		select {
		case <-s.choose:
			return nil
		case <-p.alarm:
			p.mu.Lock()
			behind := p.failed >= s.epoch
			p.mu.Unlock()
			if behind {
				return errBehind
			}
		}
	}
}

// collectMore makes results of what choose_more wrote to pinned memory.
func (s *step) collectMore() {
	m := &s.more
	n := len(m.entries)
	m.top = append(m.top[:0], view[compute.Candidate](s.r.said, n*saidBytes, m.tops)...)
	at := 0
	for k, x := range view[said](s.r.said, 0, n) {
		i := m.entries[k]
		chosen := chosenOf(x.token)
		if chosen.Token >= 0 {
			chosen.Logprob, chosen.Rank, chosen.Top = x.logprob, x.rank, m.top[at:at+int(x.tops):at+int(x.tops)]
		}
		s.results[i] = chosen
		at += max(0, int(s.b.Choose[i].Top))
	}
}
