package text

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/weights"
)

// maxReserve is the most memory that a plan leaves free, for requests (server.Config.RequestMemory, workBytes) and
// garbage. A small machine leaves an eighth.
const maxReserve = 512 << 20

// memory is what a model takes of a device, in bytes.
type memory struct {
	weights, steps, logits, kv, host, found, reserve int64 // those that are not yet taken
	free, total                                      int64
}

// needs returns what is planned beside weights and KV cache.
func (m *Model) needs(o Options, dev compute.Device) (memory, error) {
	free, total, err := dev.Memory()
	if err != nil {
		return memory{}, err
	}
	if o.onHost() {
		free = hostPlans.left(free, m.Bytes)
	}
	n := memory{free: free, total: total, steps: m.loaded.Load().Workspace(o.TokenBudget, o.MaxSeqs), kv: o.KVBytes, host: o.host(),
		reserve: reserveOf(total)}
	if m.Spec.Generates() { // of all rows of two steps, for log probabilities of prompts
		n.logits = 8 * int64(o.TokenBudget) * int64(m.Spec.Vocab)
		if o.Guide.Found == 0 { // a small machine has less for it
			m.guides.found.most = min(m.guides.limits.Found, total/16)
		}
	}
	guesses := m.draft.bytes()
	if o.onHost() { // whose memory is taken as it is used
		n.steps, guesses = n.steps+guesses, 0
		if m.Spec.Generates() {
			n.found = m.guides.found.most
		}
	} else {
		if err := m.measure(&n, o, dev); err != nil {
			return n, err
		}
	}
	n.bound(o, m.Bytes)
	m.working = n.steps + n.logits + n.found + guesses
	return n, n.check(o)
}

// bound leaves no more than Options.Memory free, of which the model has taken some. What models may not take is no part
// of that.
func (n *memory) bound(o Options, taken int64) {
	if o.Memory > 0 {
		n.free, n.reserve, n.total = min(n.free-n.kept(o), o.Memory-taken), 0, 0
	}
}

// kept returns what models may not take of a device.
func (n memory) kept(o Options) int64 {
	if o.onHost() {
		return n.reserve
	}
	return n.reserve + int64((1-cmp.Or(o.DeviceShare, defaultShare))*float64(n.total))
}

// Size returns the memory that the model takes of its device, in bytes, once all of its KV cache is used.
func (m *Model) Size() int64 { return m.Bytes + m.KVBytes + m.working }

// Room returns how many bytes models may take of a device together: what is free, without what is kept for requests.
func Room(o Options) (int64, error) {
	dev, err := compute.Open(o.Device, o.Compute)
	if err != nil {
		return 0, err
	}
	defer dev.Close()
	free, total, err := dev.Memory()
	if err != nil {
		return 0, err
	}
	return max(0, free-memory{total: total, reserve: reserveOf(total)}.kept(o)), nil
}

// usualNeed is how many tokens of KV cache Need counts, of models with a larger context.
const usualNeed = 8192

// Need returns about how many bytes Open takes at least for a model, before anything of it is loaded: its weights, a
// step, and the KV cache that the options ask for, or one of a request of the context, or of usualNeed tokens.
func Need(spec *model.Spec, weights int64, o Options) int64 {
	budget := int64(o.TokenBudget)
	if p, err := findProfile(o.Profile); err == nil && budget == 0 {
		budget = int64(p.TokenBudget)
	}
	need := weights + 4*budget*int64(8*spec.Hidden+3*spec.Layers[0].FFN.Width)
	if spec.Generates() {
		need += 8 * budget * int64(spec.Vocab)
		if o.onHost() {
			need += cmp.Or(o.Guide.Found, guideDefaults.Found)
		}
	}
	if o.KVBytes > 0 {
		return need + o.KVBytes
	}
	tokens := int64(min(cmp.Or(o.Context, usualNeed), spec.Context))
	return need + tokens*spec.KVTokenBytes()/2 // of float32; that of bfloat16 is half
}

func reserveOf(total int64) int64 { return min(maxReserve, total/8) }

// ofHost returns how much of the host's memory an open model may come to take.
func (n memory) ofHost(m *Model, o Options) int64 {
	if !o.onHost() {
		return o.inHost() + m.guides.found.most
	}
	return m.Bytes + m.KVBytes + n.steps + n.logits + n.host + n.found
}

// rest returns what is left for what is not counted.
func (n memory) rest() int64 {
	rest := n.free
	for _, x := range []int64{n.weights, n.steps, n.logits, n.kv, n.host, n.found, n.reserve} {
		rest -= min(x, rest) // so that no sum overflows
	}
	return rest
}

// check says what does not fit.
func (n memory) check(o Options) error {
	if n.rest() > 0 {
		return nil
	}
	return fullError(fmt.Sprintf("text: %s does not fit: of %s that are free, %s are for weights still to be loaded, %s for a token-budget of %d and %s for its logits, %s are what kv-bytes asks for, %s host-kv-bytes and kv-take-bytes, %s are for grammars, and %s are kept for requests",
		o.Name, size10(n.free), size10(n.weights), size10(n.steps), o.TokenBudget, size10(n.logits), size10(n.kv), size10(n.host), size10(n.found), size10(n.reserve)))
}

// fullError says that a device has too little memory.
type fullError string

func (e fullError) Error() string { return string(e) }

// defaultShare is how much of a device's memory is used, if it is not the host's.
const defaultShare = 0.9

// cache returns the most memory for the KV cache: half of what is left of the host's, and all that is left of the share
// that may be used of another device's.
func (n memory) cache(o Options) int64 {
	if o.onHost() {
		return n.rest() / 2
	}
	return max(0, n.rest()-int64((1-cmp.Or(o.DeviceShare, defaultShare))*float64(n.total)))
}

// onHost reports whether the device's memory is the host's.
func (o *Options) onHost() bool {
	k, _, err := compute.KindOf(o.Device)
	return err == nil && k.Host
}

// inHost returns the memory of the host for KV blocks that are not in the cache.
func (o *Options) inHost() int64 { return o.HostKVBytes + o.TakeKVBytes }

// host returns what of inHost is the device's.
func (o *Options) host() int64 {
	if o.onHost() {
		return o.inHost()
	}
	return 0
}

// size10 writes a number of bytes as people do.
func size10(n int64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// fits decides the type of keys and values, and refuses weights that do not fit before they are loaded. On the device
// they take about what they take in the files.
func (o *Options) fits(ckpt *weights.Checkpoint, dev compute.Device) error {
	if types := dev.KVTypes(); o.KVType == 0 {
		o.KVType = compute.ServedKV(types)
	} else if !slices.Contains(types, o.KVType) {
		return fmt.Errorf("text: kv-type is %v; %s has %v", o.KVType, dev.Name(), types)
	}
	free, total, err := dev.Memory()
	if err != nil {
		return err
	}
	if o.onHost() {
		free = hostPlans.left(free, 0)
	}
	n := memory{weights: ckpt.Size(), kv: o.KVBytes, host: o.host(), reserve: reserveOf(total), free: free, total: total}
	n.bound(*o, 0)
	return errors.Join(n.check(*o), o.hostFits())
}

// hostFits refuses a tier in the host's memory that does not fit there, if the model is on another device.
func (o *Options) hostFits() error {
	if o.inHost() == 0 || o.onHost() {
		return nil
	}
	host, err := compute.Open("cpu", compute.Options{Threads: 1})
	if err != nil {
		return err
	}
	defer host.Close()
	free, total, err := host.Memory()
	if err != nil {
		return err
	}
	n := memory{host: o.inHost(), reserve: reserveOf(total), free: hostPlans.left(free, 0), total: total}
	return n.check(*o)
}

// hostPlans are the plans of this process's models for the host's memory. What is free says nothing of what they will
// take: a KV cache takes its pages as they are written.
var hostPlans plans

// plans are what models may come to take.
type plans struct {
	mu   sync.Mutex
	free int64 // before the first of them was loaded
	of   map[*Model]int64
}

// left returns how much of what is free the plans leave to a model, of which so many bytes are loaded.
func (p *plans) left(free, loaded int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.of) == 0 {
		p.free = max(free, min(p.free, free+loaded))
		return free
	}
	rest := p.free - loaded
	for _, n := range p.of {
		rest -= n
	}
	return max(0, min(free, rest))
}

// add notes a model's plan, and drop forgets it.
func (p *plans) add(m *Model, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[*Model]int64{}
	}
	p.of[m] = bytes
}

func (p *plans) drop(m *Model) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, m)
}
