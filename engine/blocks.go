package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine/tier"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sched"
)

// Blocks are the full KV blocks of a request's prompt, which one engine has computed and another one wants.
//
// On their way they are named by what they depend on without the request's salt. The engine that receives them makes
// these names of its own prompt, takes no others, and gives what it takes the names with its own request's salt. So a
// block comes only to who has the same tokens, model and adapter.
type Blocks struct {
	engine        *Engine
	prompt        []int32
	adapter, salt string
	long          bool
}

// Blocks returns those of a request's prompt.
func (p *Prepared) Blocks() *Blocks {
	r := &p.req
	q := newSequence(*r, p.engine.maxLen)
	return &Blocks{p.engine, r.Prompt, r.Adapter, r.Salt, p.engine.long(q.prompt + q.req.MaxTokens)}
}

// Send takes blocks out of the cache while no step is under way, at most sendBytes at once, and mostSends calls do so;
// others wait for their turn.
const (
	sendBytes = 16 << 20
	mostSends = 4
)

// errNoLanding is returned by Receive of an engine that has no tier for what comes from others.
var errNoLanding = errors.New("engine: no tier takes blocks from other engines")

// Full returns how many blocks the prompt fills.
func (b *Blocks) Full() int { return len(b.prompt) / b.engine.cfg.Sched.BlockTokens }

// names returns the names under which this engine has the blocks, with their keys, and those under which they travel.
func (b *Blocks) names() (own, plain []kv.Hash, keys kv.Keys, err error) {
	a, err := b.engine.adapters.take(b.adapter)
	if err != nil {
		return nil, nil, keys, err
	}
	if a != nil {
		defer a.live.Add(-1)
	}
	keys = b.engine.keysOf(a, b.salt, b.long)
	own = b.engine.cfg.Sched.Names(b.prompt, keys)
	bare := keys
	bare.Salt = ""
	return own, b.engine.cfg.Sched.Names(b.prompt, bare), keys, nil
}

// Send writes what the cache has of the blocks, without the first ones, in order, and returns how many it wrote.
func (b *Blocks) Send(ctx context.Context, to io.Writer, without int) (sent int, err error) {
	e := b.engine
	select {
	case e.sends <- struct{}{}:
		defer func() { <-e.sends }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	own, plain, keys, err := b.names()
	if err != nil {
		return 0, err
	}
	about := e.blocks
	w, err := tier.NewWriter(to, about)
	if err != nil {
		return 0, err
	}
	groups := max(1, len(e.cfg.Sched.Groups))
	each := max(1, sendBytes/(groups*about.Block))
	buf := make([]byte, min(each, len(own))*groups*about.Block)
	for at := max(0, without); at < len(own); at += each {
		moves, err := inQuiet(ctx, e, func() ([]kv.Move, error) {
			return e.read(e.sched.Read(own, b.prompt, keys, at, at+each), buf)
		})
		if err != nil || len(moves) == 0 {
			return sent, err
		}
		for i, m := range moves {
			name := kv.Name{Hash: plain[at+slices.Index(own[at:], m.Name.Hash)], Group: m.Name.Group}
			if err := w.Write(name, buf[i*about.Block:][:about.Block]); err != nil {
				return sent, err
			}
			sent++
		}
	}
	return sent, nil
}

// read copies blocks of the device one after the other to dst, while no step is under way.
func (e *Engine) read(moves []kv.Move, dst []byte) ([]kv.Move, error) {
	if len(moves) == 0 || e.dead != nil {
		return nil, e.dead
	}
	var b compute.Batch
	size := e.cfg.Runner.BlockBytes()
	for i, m := range moves {
		b.Out = append(b.Out, compute.Transfer{Block: m.From.At, Data: dst[i*size:][:size]})
	}
	step, err := e.cfg.Runner.Start(&b)
	if err == nil {
		err = step.Wait()
	}
	return moves, err
}

// Receive takes blocks from another engine, which the request for the prompt then loads instead of computing them. open
// asks that engine for what its Send writes without the first blocks, which are here. release is to be called once the
// request has ended, whatever err is: if it is not nil, some blocks did not come, and are computed.
func (b *Blocks) Receive(ctx context.Context, open func(without int) (io.ReadCloser, error)) (received int, release func(), err error) {
	e := b.engine
	var landed []kv.Move
	release = func() {
		if len(landed) > 0 {
			e.inbox.post(message{ask: func() { e.tiers.withdraw(e.sched, landed, e.steps) }}) // fails where all ends
		}
	}
	landing := e.tiers.landing()
	if landing == 0 {
		return 0, release, errNoLanding
	}
	own, plain, keys, err := b.names()
	if err != nil {
		return 0, release, err
	}
	tokens := b.prompt[:len(b.prompt)-1] // the last one is computed, whatever comes
	own = own[:len(tokens)/e.cfg.Sched.BlockTokens]
	here, err := inLoop(ctx, e, func() (int, error) { return e.sched.Reach(own, tokens, keys), nil })
	if err != nil || here == len(own) {
		return 0, release, err
	}
	from, err := open(here)
	if err != nil {
		return 0, release, err
	}
	defer from.Close()
	about := e.blocks
	r, err := tier.NewReader(from, about)
	if err != nil {
		return 0, release, err
	}
	number := make(map[kv.Hash]int, len(plain))
	for i, name := range plain {
		number[name] = i
	}
	for data := make([]byte, about.Block); ; {
		name, err := r.Read(data)
		if err == io.EOF {
			return received, release, nil
		}
		if err != nil {
			return received, release, err
		}
		i, ok := number[name.Hash]
		if !ok {
			return received, release, fmt.Errorf("engine: block %v is not one of the prompt's", name)
		}
		if i >= len(own) { // its last token is to be computed
			continue
		}
		m, err := inLoop(ctx, e, func() (kv.Move, error) {
			return e.tiers.land(e.sched, kv.Name{Hash: own[i], Group: name.Group}, landing, data)
		})
		if err != nil {
			return received, release, err
		}
		if received++; m.To.At >= 0 {
			landed = append(landed, m)
		}
	}
}

// errFull says that no slot is free for what comes from another engine.
var errFull = errors.New("engine: there is no more room for blocks from other engines")

// landing returns the tier for what comes from other engines, 0 if there is none.
func (t *tiers) landing() kv.Tier {
	if t == nil {
		return 0
	}
	return kv.Tier(1 + slices.IndexFunc(t.list, func(l level) bool { return l.kind.Landing }))
}

// land puts a block that has come from another engine into a tier. The move's place is -1 if it is there already.
func (t *tiers) land(s *sched.Scheduler, name kv.Name, to kv.Tier, data []byte) (kv.Move, error) {
	at, ok := s.Land(name, to)
	if !ok {
		return kv.Move{}, errFull
	}
	m := kv.Move{Name: name, To: at}
	if at.At >= 0 {
		t.store(m, data)
	}
	return m, nil
}

// withdraw frees the slots of what has come from another engine. What a step under way loads is freed when that is
// done.
func (t *tiers) withdraw(s *sched.Scheduler, landed []kv.Move, steps *stepper) {
	for _, m := range landed {
		if !steps.moves(m.To) {
			s.Withdraw(m.Name, m.To)
		}
	}
}
