package cuda

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
)

// small makes a program of a small decoder on a driver that computes nothing: all of its logits are 0.
func small(t *testing.T) (*fake, compute.Program) {
	f := newFake(t)
	d, err := newDevice(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	g := llama(t, d, 1, 128, 256, 4, 2, 64, 1000, func(out, in int) compute.Matrix {
		return weight(t, d, bell(r, out*in, 1), out, in)
	})
	p, err := d.Compile(g, oneLayer(t, d, 100, compute.CacheLayer{KVHeads: 2, KDim: 64, VDim: 64}), compute.Limits{Rows: 64, Slots: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Mu.Lock()
		clear(f.refuse)
		f.Mu.Unlock()
		if err := errors.Join(p.Close(), d.Close()); err != nil {
			t.Error(err)
		}
		f.leaks()
	})
	return f, p
}

// token returns a batch of one sequence's token at a position, which chooses by c.
func token(at int, c compute.Choice) *compute.Batch {
	b := &compute.Batch{}
	b.AppendSeq(compute.Seq{Start: int32(at)}, []int32{1}, 1)
	b.Edits = []compute.TableEdit{{At: int32(at / 16), Block: int32(at / 16)}}
	b.Choosers = []compute.Chooser{{Choosing: &compute.Choosing{TopP: 1, Repetition: 1}}}
	b.Logits, b.Choose = []int32{0}, []compute.Choice{c}
	return b
}

var plainChoice = compute.Choice{Given: -1, Top: -1, After: -1, Mask: -1}

// TestFaults checks what a refused call ends: the step and those that were started meanwhile, or the device.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		refuse entry
		code   code
		lost   bool
	}{{cuGraphLaunch, 1, false}, {cuGraphLaunch, 700, true}, {cuEventSynchronize, 719, true}} {
		f, p := small(t)
		f.Mu.Lock()
		f.refuse[c.refuse] = c.code
		f.Mu.Unlock()
		first, err := p.Start(token(0, plainChoice))
		if err != nil {
			t.Fatal(err)
		}
		second, err := p.Start(token(1, plainChoice))
		if err != nil {
			t.Fatal(err)
		}
		var fault *compute.Fault
		if err := first.Wait(); !errors.As(err, &fault) || fault.Lost != c.lost || fault.Skipped {
			t.Errorf("code %d: the first step: %+v", c.code, err)
		}
		<-second.Done()
		if err := second.Wait(); !errors.As(err, &fault) || fault.Lost != c.lost || !c.lost && !fault.Skipped {
			t.Errorf("code %d: the second step: %+v", c.code, err)
		}
		f.Mu.Lock()
		clear(f.refuse)
		f.Mu.Unlock()
		third, err := p.Start(token(0, plainChoice))
		if err != nil {
			t.Fatal(err)
		}
		if err := third.Wait(); (err != nil) != c.lost {
			t.Errorf("code %d: a step after it was reported: %v", c.code, err)
		}
	}
}

// TestHostChooses checks the choices that the host makes, as only it knows DRY: from logits of 0, all of which are the
// best.
func TestHostChooses(t *testing.T) {
	_, p := small(t)
	b := token(0, plainChoice)
	b.Choosers[0].Choosing.DRY = &compute.DRY{Multiplier: 1, Base: 2, Allowed: 2}
	b.AppendSeq(compute.Seq{Start: 0, Slot: 1}, []int32{1, 5}, 2)
	b.Logits = []int32{0, 1, 2}
	masked, top, after := plainChoice, plainChoice, plainChoice
	masked.Mask, top.Top, top.Row = 0, 2, 1
	after.Row, after.After = 2, 1
	b.Choose = []compute.Choice{masked, top, after}
	b.Masks, b.Hold = make([]uint32, compute.MaskWords(1000)), true
	s, err := p.Start(b)
	if err != nil {
		t.Fatal(err)
	}
	b.Masks[3] = 1 << 4
	s.Choose()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if c := s.Chosen(0); c.Token != 3*32+4 {
		t.Errorf("under a mask of one token: %+v", c)
	}
	if c := s.Chosen(1); c.Token != 0 || len(c.Top) != 2 {
		t.Errorf("with alternatives: %+v", c)
	}
	if c := s.Chosen(2); c.Token != -1 {
		t.Errorf("after a choice of another token: %+v", c)
	}
}

// TestMore checks what is asked of choose_more: choices in runs that depend on each other, and the words they name.
func TestMore(t *testing.T) {
	f, p := small(t)
	b := token(0, plainChoice)
	by := b.Choosers[0].Choosing
	by.Presence, by.Prompt, by.Output = 1, []int32{1, 2}, []int32{3}
	by.Bias, by.Banned = []compute.TokenBias{{Token: 7, Add: 2}}, []int32{9, 8}
	b.Choosers = append(b.Choosers, compute.Chooser{Slot: 1, Choosing: &compute.Choosing{TopP: 1, Repetition: 1}})
	b.AppendSeq(compute.Seq{Start: 0, Slot: 1}, []int32{1, 5}, 2)
	b.Logits = []int32{0, 1, 2}
	counted, given, plain, after, again := plainChoice, plainChoice, plainChoice, plainChoice, plainChoice
	counted.Mask, counted.Ban, counted.Top = 0, true, 3
	given.Given, given.Slot, given.Rank, given.Row = 7, -1, true, 1
	plain.Slot, plain.Row = 1, 1
	after.Slot, after.Row, after.After, after.Top = 1, 2, 2, 5
	again.Mask = 0
	b.Choose = []compute.Choice{counted, given, plain, after, again}
	b.Masks = slices.Repeat([]uint32{6}, compute.MaskWords(1000))
	s, err := p.Start(b)
	if err == nil {
		err = s.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &s.(*step).more
	if want := []int32{0, 4, 1, 3}; !slices.Equal(m.entries, want) {
		t.Errorf("entries %v; want %v", m.entries, want)
	}
	if want := [][2]int32{{0, 2}, {2, 1}, {3, 1}}; !slices.Equal(m.runs, want) {
		t.Errorf("runs %v; want %v", m.runs, want)
	}
	words := append(slices.Clone(b.Masks), 7, 0x40000000, 9, 8, 7, 0x40000000)
	if !slices.Equal(m.words, words) {
		t.Errorf("words %v; want %v", m.words, words)
	}
	n := int32(len(b.Masks))
	c, a := m.list[0], m.list[3]
	if c.mask != 0 || c.bias != n || c.biases != 1 || c.bans != n+2 || c.banned != 2 || c.counts == 0 || c.adjusts != 1 || c.tops != 0 {
		t.Errorf("with everything: %+v", c)
	}
	if a.after != 2 || a.id != 5 || a.counts != 0 || a.adjusts != 0 || a.tops != 3 || m.list[1].mask != 0 {
		t.Errorf("after another one: %+v", a)
	}
	if g := m.list[2]; g.given != 7 || g.rank != 1 || g.by.row != 1 || g.by.mode != 0 {
		t.Errorf("of a given token: %+v", g)
	}
	if got := view[int32](s.(*step).r.tokens, 0, 3); !slices.Equal(got, []int32{1, 2, 3}) {
		t.Errorf("tokens to count are %v", got)
	}
	f.Mu.Lock() // the next slot with a penalty finds no memory for counts: the host chooses
	f.refuse[cuMemAlloc] = outOfMemory
	f.Mu.Unlock()
	b = token(1, plainChoice)
	b.Seqs[0].Slot, b.Choose[0].Slot, b.Edits[0].Slot = 2, 2, 2
	b.Choosers = []compute.Chooser{{Slot: 2, Choosing: by}}
	if s, err = p.Start(b); err == nil {
		err = s.Wait()
	}
	if err != nil || len(s.(*step).onHost) != 1 || s.Chosen(0).Token != 7 {
		t.Errorf("without memory for counts: %v, %+v", err, s.Chosen(0))
	}
	b.Choose = []compute.Choice{plainChoice, after}
	b.Choose[1].After, b.Choose[1].Row = 0, 0
	if _, err := p.Start(b); err == nil || !strings.Contains(err.Error(), "choice 1 by slot 1 comes after one by slot 0") {
		t.Error(err)
	}
}

// TestHeld checks that a step that waits for its masks goes on with them, and ends when one before it fails.
func TestHeld(t *testing.T) {
	_, c := small(t)
	p := c.(*program)
	s := &step{p: p, choose: make(chan struct{})}
	p.alarm <- struct{}{} // of a failure that was reported
	close(s.choose)
	if err := p.held(s); err != nil {
		t.Error(err)
	}
	s.choose = make(chan struct{})
	go p.fail(&step{p: p})
	if err := p.held(s); !errors.Is(err, errBehind) {
		t.Errorf("behind a step that failed: %v", err)
	}
}

// TestMoves moves blocks both ways: a few without waiting for the device, and more than there is room for.
func TestMoves(t *testing.T) {
	f, c := small(t)
	p := c.(*program)
	n := p.BlockBytes()
	transfers := func(count int) []compute.Transfer {
		all, memory := make([]compute.Transfer, count), make([]byte, count*n) // blocks move in the order of their memory
		for i := range all {
			all[i] = compute.Transfer{Block: int32(i % 100), Data: memory[i*n:][:n:n]}
		}
		return all
	}
	for _, count := range []int{1, 3, 1500, 5000, 2} {
		b := token(0, plainChoice)
		b.Out, b.In, b.Copies = transfers(count), transfers(count), [][2]int32{{1, 2}, {2, 3}}
		r := &p.rings[p.started%2].transit
		if count < 10 && r.in.half >= count*n { // no room is made: nothing waits
			f.Mu.Lock()
			f.refuse[cuStreamSynchronize] = 1
			f.Mu.Unlock()
		}
		for i := range b.In {
			b.In[i].Data[0] = byte(i)
		}
		s, err := p.Start(b)
		if err == nil {
			err = s.Wait()
		}
		if err != nil {
			t.Fatal(count, err)
		}
		f.Mu.Lock()
		clear(f.refuse)
		f.Mu.Unlock()
		last := (count - 1) % (r.in.half / n) // whose place is that of the last one
		if got := view[byte](r.in.host, r.in.next*r.in.half+last*n, 1)[0]; got == 0 && count > 1 || r.in.half > halfBytes {
			t.Errorf("%d blocks: the last of a half of %d bytes has block %d", count, r.in.half, got)
		}
		if r.under || len(r.out.pending[0].blocks)+len(r.out.pending[1].blocks) > 0 {
			t.Errorf("of %d blocks some were not taken", count)
		}
	}
}

// TestMovesThatFail moves blocks with a step that fails: those of the next one do not wait for it.
func TestMovesThatFail(t *testing.T) {
	f, c := small(t)
	p := c.(*program)
	for _, refused := range []entry{cuMemcpyDtoHAsync, cuMemcpyHtoDAsync, cuEventSynchronize, cuStreamWaitEvent} {
		for _, want := range []bool{false, false, true, true} {
			f.Mu.Lock()
			if clear(f.refuse); !want {
				f.refuse[refused] = 1
			}
			f.Mu.Unlock()
			data := make([]byte, p.BlockBytes())
			b := token(0, plainChoice)
			b.In, b.Out = []compute.Transfer{{Block: 1, Data: data}}, []compute.Transfer{{Block: 2, Data: make([]byte, p.BlockBytes())}}
			s, err := p.Start(b)
			if err == nil {
				err = s.Wait()
			}
			if (err == nil) != want {
				t.Errorf("%s is refused: %v; then: %v", symbols[refused], !want, err)
			}
			if m := &s.(*step).r.transit; want && (m.under || len(m.out.pending[0].blocks)+len(m.out.pending[1].blocks) > 0) {
				t.Error("a block is still on its way")
			}
		}
	}
}

// TestPinnedMoves moves blocks in pinned memory both ways, the program's and a caller's, which are copied where they
// are, beside others, which are not; all at once, and each layer by itself.
func TestPinnedMoves(t *testing.T) {
	f, c := small(t)
	p := c.(*program)
	n := p.BlockBytes()
	b := token(0, plainChoice)
	for i := range 4 {
		data := make([]byte, n)
		switch i {
		case 0:
			data = p.Pinned(n)
		case 2:
			own := make([]byte, 3*n)
			if err := p.Pin(own); err != nil {
				t.Fatal(err)
			}
			data = own[n : 2*n]
		}
		for k := range data {
			data[k] = byte(i + 1)
		}
		b.Out = append(b.Out, compute.Transfer{Block: int32(i), Data: data})
		b.In = append(b.In, compute.Transfer{Block: int32(10 + i), Data: data})
	}
	out := b.Out
	s, err := p.Start(b)
	if err == nil {
		err = s.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &s.(*step).r.transit.in
	var through []byte
	for i := range 4 { // of blocks that come, those in other memory pass through the step's
		through = append(through, view[byte](m.host, m.next*m.half+i*n, n)[n-1])
		want := byte(i+1) * byte(1-i%2) // the fake copies nothing, so that what passes through the step's memory is 0
		if got := out[i].Data[n-1]; got != want {
			t.Errorf("block %d that leaves is %d; want %d", i, got, want)
		}
	}
	if slices.Sort(through); !slices.Equal(through, []byte{0, 0, 2, 4}) {
		t.Errorf("of blocks that come %v are in the step's memory", through)
	}
	f.Mu.Lock()
	f.refuse[cuMemHostRegister] = outOfMemory
	f.Mu.Unlock()
	refused := make([]byte, 1<<20)
	if err := p.Pin(refused); err == nil || err.Error() != "cuda: pinning 1.0 MB: FAKE_2 (FAKE_2)" {
		t.Error(err)
	}
	if _, _, there := p.pool.find(refused); there {
		t.Error("memory that could not be pinned is in the pool")
	}
	taken := 0
	for p.Pinned(1<<20) != nil {
		taken++
	}
	if got := p.pool.bytes; got > poolBytes || got < poolBytes-poolPiece || taken < 200 {
		t.Errorf("the pool has %d bytes after %d MiB; want nearly %d", got, taken, poolBytes)
	}
}
