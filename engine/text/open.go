package text

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sort"
	"time"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/compute"
	_ "github.com/kvasir-llm/kvasir/compute/devices" // any of which may be asked for
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
	"github.com/kvasir-llm/kvasir/tokenizer"
	"github.com/kvasir-llm/kvasir/weights"
)

// Options say how a model is served. The zero value is good for most. None but Context, which bounds it, and KVType,
// which rounds, changes an answer.
type Options struct {
	Name string // how the model is called; required

	Device  string          // by name (compute.Open); "" is the best
	Compute compute.Options // how it computes; none but Wide changes an answer

	Template string // a chat template in place of the checkpoint's; "" is its own

	System string         // what begins conversations without a system message
	Preset func(*Request) // sets sampling, Stop and MaxTokens of requests that do not say otherwise; nil is as the checkpoint says

	ToolFormat      string // how calls of tools are written: a name of package chat, none, or "", as the template tells
	ReasoningFormat string // the same of reasoning

	Guide GuideLimits // of what a request asks of its answer

	Pooling engine.Pooling // of embeddings; "" is as the checkpoint says

	AllLogprobs bool // Info says that requests may ask for the log probabilities of all tokens

	Profile string // one of Profiles: what the settings below are if they are 0; "" is chat

	Context     int                 // most tokens of a request, prompt and answer; 0 is what the model was made for, or what fits
	BlockTokens int                 // tokens of a KV block; 0 is 16
	KVType      quant.Type          // of keys and values, one of the device's; 0 is bfloat16 if it is among them, but for encoders
	KVBytes     int64               // memory for the KV cache; 0 is half of what nothing else needs, at most MaxSeqs full contexts
	DeviceShare float64             // of a device's memory that may be used, if it is not the host's; 0 is 0.9
	Memory      int64               // most bytes of the device that the model may take in all; 0 is what is free
	MaxSeqs     int                 // sequences computed at once
	TokenBudget int                 // tokens computed in one step
	MaxChunk    int                 // most prompt tokens of one sequence in a step
	MaxWaiting  int                 // requests that may wait; 0 is 1024
	MaxPassed   int                 // requests that one without enough KV blocks lets pass; -1 is none
	Policy      string              // which request comes first, one of sched.Policies
	Batch       sched.Batch         // how prompts and decoding share steps
	Interval    int                 // while anyone decodes, prompts are computed in every so many-th step; 0 is each
	Window      time.Duration       // how long a static batch waits to become full, in milliseconds
	StepTarget  time.Duration       // how long a mixed step may take while anyone decodes; 0 is 50 ms, on a GPU 33, and -1 any time
	MaxQueue    time.Duration       // how long a request may be predicted to wait before it is refused; 0 is any time
	Allocation  sched.Allocation    // what a request must find to be admitted; "" is on demand, or what the profile says
	Evict       string              // which cached KV blocks are forgotten first, one of kv.Policies; "" is lru
	HostKVBytes int64               // memory for KV blocks that the cache has no place for; 0 is none
	DiskKV      string              // directory of a file for them, which outlives the engine; "" is none
	DiskKVBytes int64               // its size
	TakeKVBytes int64               // memory for KV blocks that come from other engines, of models whose blocks are all that is kept; 0 is none
	Preempt     sched.Preempt       // how preempted requests come back from there; "" is auto
	NoPrefix    bool                // do not reuse the KV blocks of earlier requests with the same beginning
	Drafts      string              // what guesses tokens ahead, one of Drafts(); "" is none
	Draft       *weights.Checkpoint // a smaller model with the same tokenizer that guesses tokens ahead; nil is none. It is read like Open's
	DraftTokens int                 // guessed ahead at once; 0 is engine.MostDraft
	DraftAlways bool                // verify all guesses, also those that cost more time than they bring

	Adapters []AdapterFile // that requests may name, beside those loaded later
	Adapter  string        // a file or folder of the one that requests use which name none; "" is none
	MaxLoRAs int           // adapters on the device at once; 0 is 8
	MaxRank  int           // of adapters; 0 is any

	Observer engine.Observer
	Events   func([]kv.Event) // hears of what happens to KV blocks; see engine.Config
	Lost     func(error)      // hears that the device is lost for good; see engine.Config
	Logger   *slog.Logger
	Progress func(done, total int64) // hears of bytes of weights loaded
}

func (o *Options) defaults() error {
	p, err := findProfile(o.Profile)
	if err != nil {
		return err
	}
	o.BlockTokens = cmp.Or(o.BlockTokens, 16)
	o.MaxLoRAs = cmp.Or(o.MaxLoRAs, 8)
	o.TokenBudget = cmp.Or(o.TokenBudget, max(p.TokenBudget, o.MaxSeqs))
	if o.TokenBudget > 0 && o.MaxSeqs > o.TokenBudget {
		return fmt.Errorf("text: max-seqs is %d; want at most the token-budget, which is %d", o.MaxSeqs, o.TokenBudget)
	}
	o.MaxSeqs = cmp.Or(o.MaxSeqs, p.MaxSeqs)
	o.MaxChunk = cmp.Or(o.MaxChunk, p.MaxChunk)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 1024)
	if o.MaxPassed = cmp.Or(o.MaxPassed, p.MaxPassed); o.MaxPassed == -1 {
		o.MaxPassed = 0
	}
	o.Policy = cmp.Or(o.Policy, p.Policy)
	o.Batch = cmp.Or(o.Batch, p.Batch)
	o.Allocation = cmp.Or(o.Allocation, p.Allocation)
	if o.StepTarget = cmp.Or(o.StepTarget, 50*time.Millisecond); o.StepTarget == -1 {
		o.StepTarget = 0
	}
	return nil
}

// check refuses settings that cannot be meant, by the names of their flags.
func (o *Options) check() error {
	if o.MaxLoRAs < 0 || o.MaxLoRAs > 1024 || o.MaxRank < 0 {
		return fmt.Errorf("text: max-loras is %d and max-lora-rank %d; want 1 to 1024, and at least 0", o.MaxLoRAs, o.MaxRank)
	}
	for _, n := range []struct {
		name string
		v    int
	}{
		{"context", o.Context}, {"max-seqs", o.MaxSeqs}, {"token-budget", o.TokenBudget}, {"max-chunk", o.MaxChunk},
		{"max-waiting", o.MaxWaiting}, {"max-passed", o.MaxPassed}, {"block-tokens", o.BlockTokens}, {"interval", o.Interval},
	} {
		if n.v < 0 || n.v > 1<<24 {
			return fmt.Errorf("text: %s is %d; want 0 to %d", n.name, n.v, 1<<24)
		}
	}
	if !slices.Contains(sched.Policies(), o.Policy) || !slices.Contains(sched.Batches(), string(o.Batch)) {
		return fmt.Errorf("text: policy is %q and batch is %q; want one of %v and one of %v",
			o.Policy, o.Batch, sched.Policies(), sched.Batches())
	}
	if o.Allocation != "" && !slices.Contains(sched.Allocations(), string(o.Allocation)) {
		return fmt.Errorf("text: allocation is %q; want one of %v", o.Allocation, sched.Allocations())
	}
	if o.Evict != "" && !slices.Contains(kv.Policies(), o.Evict) {
		return fmt.Errorf("text: eviction is %q; want one of %v", o.Evict, kv.Policies())
	}
	if err := errors.Join(o.checkTiers(), o.checkDrafts()); err != nil {
		return err
	}
	if o.Window < 0 || o.Window > time.Minute || o.Window > 0 && o.Batch != sched.Static {
		return fmt.Errorf("text: window is %v with batch %q; want 0 to 1m, and more than 0 only with %q", o.Window, o.Batch, sched.Static)
	}
	if o.StepTarget < 0 || o.StepTarget > time.Minute || o.MaxQueue < 0 || o.MaxQueue > 24*time.Hour {
		return fmt.Errorf("text: step-target is %v and max-queue-time %v; want 0 to 1m, and 0 to 24h", o.StepTarget, o.MaxQueue)
	}
	if !(o.DeviceShare >= 0 && o.DeviceShare <= 1) {
		return fmt.Errorf("text: gpu-memory is %v; want more than 0 and at most 1", o.DeviceShare)
	}
	if o.KVBytes < 0 {
		return fmt.Errorf("text: kv-bytes is %d; want at least 0", o.KVBytes)
	}
	return nil
}

// Open loads a checkpoint with its tokenizer and chat template and starts an engine for it. The checkpoint may be
// closed afterwards.
//
// If no device is asked for by name and the best one does not support the model, or has too little memory for it, the
// processor serves it.
func Open(ckpt *weights.Checkpoint, o Options) (*Model, error) {
	m, err := open(ckpt, o)
	if auto := o.Device == "" || o.Device == "auto"; !auto || !errors.Is(err, compute.ErrUnsupported) && (!errors.As(err, new(fullError)) || o.onHost()) {
		return m, err
	}
	if o.Logger != nil {
		o.Logger.Warn("the model runs on the processor", "because", err)
	}
	o.Device = "cpu"
	return open(ckpt, o)
}

func open(ckpt *weights.Checkpoint, o Options) (_ *Model, err error) {
	said, auto := o, o.KVType == 0
	if err := o.defaults(); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	var dev compute.Device
	var opening guard.Group // a driver takes a while
	name, kind := o.Device, o.Compute
	opening.Start(func() (err error) { dev, err = compute.Open(name, kind); return err })
	m, err := openText(ckpt, &o)
	if failed := opening.Wait(); err != nil || failed != nil {
		if failed == nil {
			failed = dev.Close()
		}
		return nil, cmp.Or(err, failed)
	}
	defer func() {
		if err != nil {
			dev.Close()
		}
	}()
	o.widen(said, dev.StepRows())
	adapters, err := m.load(ckpt, dev, &o)
	if err != nil {
		return nil, err
	}
	m.wholePrompts(&o, said.TokenBudget, auto, dev)
	if err := m.start(ckpt, dev, o, adapters); err != nil {
		return nil, err
	}
	return m, nil
}

// openText reads what turns text into tokens and back, and how a model wants them chosen.
func openText(ckpt *weights.Checkpoint, o *Options) (m *Model, err error) {
	m = &Model{Name: o.Name, Opened: time.Now(), work: guard.NewBudget(workBytes, guard.AtOnce)}
	if m.Tokenizer, err = OpenTokenizer(ckpt); err != nil {
		return nil, err
	}
	if m.Template, err = o.OpenTemplate(ckpt); err != nil {
		return nil, err
	}
	return m, errors.Join(m.readGeneration(ckpt), m.preset(o), m.openFormats(o))
}

// load loads the weights to a device, and returns the adapters that are there from the start.
func (m *Model) load(ckpt *weights.Checkpoint, dev compute.Device, o *Options) ([]engine.Adapter, error) {
	if err := o.fits(ckpt, dev); err != nil {
		return nil, err
	}
	loaded, err := loader.Model(ckpt, dev, o.Progress)
	if err != nil {
		return nil, err
	}
	m.loaded.Store(loaded)
	m.maxRank, m.MaxLoRAs = o.MaxRank, o.MaxLoRAs
	loaded.MakeSlots(o.MaxLoRAs)
	if o.Adapter != "" {
		m.ownAdapter = o.Name
		o.Adapters = append(slices.Clone(o.Adapters), AdapterFile{Name: o.Name, Path: o.Adapter, Pinned: true})
	}
	adapters, err := m.readAdapters(o.Adapters)
	if err != nil {
		return nil, err
	}
	m.Spec, m.Bytes, m.Device, m.BlockTokens = loaded.Spec, loaded.Bytes, dev.Name(), o.BlockTokens
	m.KVGroups = groups(m.Spec)
	if err := o.drafted(m.Spec); err != nil {
		return nil, err
	}
	if err := m.checkTokens(); err != nil {
		return nil, err
	}
	if err := m.loadDraft(dev, o); err != nil {
		return nil, err
	}
	return adapters, m.openPooling(ckpt, *o)
}

// start makes the KV cache and starts the engine. Closing the model closes the device, too.
func (m *Model) start(ckpt *weights.Checkpoint, dev compute.Device, o Options, adapters []engine.Adapter) error {
	m.loaded.Load().KVType = o.KVType
	if err := m.draft.open(&o); err != nil {
		return err
	}
	b := &base{m: m, o: o, again: ckpt.Reopen, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), dev: dev}
	needs, err := m.needs(o, dev)
	if err == nil {
		b.blocks, err = m.plan(o, dev, needs)
	}
	if err == nil {
		b.o.Device, err = single(o.Device)
	}
	if err == nil {
		b.sum, err = fingerprint(ckpt, m.Spec, o.Compute.Wide)
	}
	if err == nil {
		_, err = b.newRunner()
	}
	if err != nil {
		return errors.Join(err, b.closeRunner())
	}
	cache := b.runner.Cache()
	m.KVBytes = cache.Bytes()
	kvModel, tiers, err := o.tiers(b.sum, m.Spec, cache)
	if err != nil {
		return errors.Join(err, b.closeRunner())
	}
	m.Engine, err = engine.New(engine.Config{
		Model: kvModel, Tiers: tiers, Runner: b.runner, Base: b, Slots: o.MaxLoRAs, Place: b.place, Adapters: adapters,
		Vocab: m.Spec.Vocab, Long: m.Spec.Long, Observer: o.Observer, Events: o.Events, Lost: o.Lost, Logger: o.Logger,
		Drafts: m.drafts(&o),
		Sched: sched.Config{
			BlockTokens: o.BlockTokens, Blocks: b.blocks, Groups: m.KVGroups, States: cache.Spec().States,
			MaxSeqs: o.MaxSeqs, TokenBudget: o.TokenBudget, MaxChunk: o.MaxChunk, MaxLen: m.longestSequence(),
			Whole: m.Spec.Encoder, MaxWaiting: o.MaxWaiting, PrefixCache: !o.NoPrefix, Evict: o.Evict, Preempt: o.Preempt,
			MaxPassed: o.MaxPassed, Policy: o.Policy, Batch: o.Batch, Interval: o.Interval,
			Window: o.Window.Milliseconds(), Allocation: o.Allocation, StepTarget: o.StepTarget.Microseconds(),
			MaxQueueTime: o.MaxQueue.Milliseconds(),
		},
	})
	if err != nil {
		return errors.Join(err, b.closeRunner())
	}
	m.base = b
	hostPlans.add(m, needs.ofHost(m, o))
	m.closer = func() error {
		hostPlans.drop(m)
		return b.unload()
	}
	return nil
}

// wholePrompts sets the options of an encoder, which computes a prompt in one step, once. budget is what was asked for,
// and auto whether no type of keys and values was.
func (m *Model) wholePrompts(o *Options, budget int, auto bool, dev compute.Device) {
	if !m.Spec.Encoder {
		return
	}
	o.MaxChunk, o.NoPrefix = 0, true
	if auto { // keys and values live for one step
		o.KVType = dev.KVTypes()[0]
	}
	if budget == 0 {
		o.TokenBudget = max(o.TokenBudget, cmp.Or(o.Context, m.Spec.Context))
	}
}

// readAdapters reads the adapters that are there from the start.
func (m *Model) readAdapters(files []AdapterFile) (all []engine.Adapter, err error) {
	for _, f := range files {
		a, err := m.readAdapter(f)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// longestSequence returns the most tokens of a sequence. What an encoder is given may fill the context: the token that
// it is counted to generate is none.
func (m *Model) longestSequence() int {
	if m.Spec.Encoder {
		return m.Context + 1
	}
	return m.Context
}

// Close ends the engine and frees the device.
func (m *Model) Close() error {
	return errors.Join(m.Engine.Close(), m.closer())
}

// checkTokens refuses a tokenizer that does not belong to the weights, and measures its longest token.
func (m *Model) checkTokens() error {
	if n := m.Tokenizer.VocabSize(); n > m.Spec.Vocab {
		return fmt.Errorf("text: the tokenizer has %d tokens; the model's vocabulary has %d", n, m.Spec.Vocab)
	}
	for _, id := range m.stops {
		if id < 0 || int(id) >= m.Spec.Vocab {
			return fmt.Errorf("text: eos_token_id %d is outside the model's vocabulary of %d", id, m.Spec.Vocab)
		}
	}
	for id := range m.Tokenizer.VocabSize() {
		m.longest = max(m.longest, len(m.Tokenizer.Bytes(int32(id))))
	}
	return nil
}

// plan decides the context and the number of KV blocks.
func (m *Model) plan(o Options, dev compute.Device, needs memory) (blocks int, err error) {
	one := compute.CacheSpec{Blocks: 1, BlockTokens: o.BlockTokens, Type: o.KVType, Layers: m.Spec.KVLayers()}
	block := dev.CacheBytes(one)
	if block == 0 {
		_, err := dev.Cache(one) // says why the device cannot have it
		return 0, err
	}
	shape := kv.Config{BlockTokens: o.BlockTokens, Groups: groups(m.Spec)}
	perContext := func(tokens int) int64 { return int64(shape.Most(tokens, cmp.Or(o.MaxChunk, o.TokenBudget))) }
	m.Context = o.Context
	if m.Context == 0 {
		m.Context = m.Spec.Context
	}
	if m.Spec.Encoder {
		m.Context = min(m.Context, o.TokenBudget)
	}
	if m.Context > m.Spec.Context {
		return 0, fmt.Errorf("text: context of %d tokens; %s was made for %d", m.Context, o.Name, m.Spec.Context)
	}
	recurrent := m.Spec.Cache(0, o.BlockTokens, o.MaxSeqs)
	recurrent.Type = o.KVType
	states := dev.CacheBytes(recurrent)
	budget := o.KVBytes
	if budget == 0 {
		budget = min(needs.cache(o), states+perContext(m.Context)*block*int64(o.MaxSeqs))
	}
	n := (budget - states) / block
	if need := perContext(m.Context); n < need {
		if o.Context != 0 || n < perContext(1) {
			return 0, fmt.Errorf("text: a context of %d tokens needs %d bytes of KV cache; there are %d bytes (see --context and --kv-bytes)", m.Context, states+need*block, budget)
		}
		m.Context = sort.Search(m.Context, func(tokens int) bool { return perContext(tokens+1) > n })
	}
	return int(min(n, 1<<30)), nil
}

// groups returns the groups of layers that have block tables of their own.
func groups(spec *model.Spec) []kv.Group {
	var all []kv.Group
	for _, w := range spec.KVWindows() {
		all = append(all, kv.Group{Window: w})
	}
	return all
}

// OpenTokenizer reads the tokenizer of a checkpoint.
func OpenTokenizer(ckpt *weights.Checkpoint) (*tokenizer.Tokenizer, error) {
	if ckpt.Format() == weights.GGUF {
		return tokenizer.FromGGUF(ckpt.Metadata())
	}
	return tokenizer.Load(ckpt.Dir())
}

// OpenTemplate reads the chat template that the options give, or the checkpoint's.
func (o *Options) OpenTemplate(ckpt *weights.Checkpoint) (*chat.Template, error) {
	if o.Template != "" {
		return chat.Parse("the given chat template", o.Template)
	}
	return OpenTemplate(ckpt)
}

// OpenTemplate reads the chat template of a checkpoint, nil if it has none.
func OpenTemplate(ckpt *weights.Checkpoint) (*chat.Template, error) {
	source, err := TemplateSource(ckpt)
	if err != nil || source == "" {
		return nil, err
	}
	return chat.Parse(ckpt.Files()[0], source)
}

// TemplateSource returns the text of a checkpoint's chat template, "" if it has none.
func TemplateSource(ckpt *weights.Checkpoint) (string, error) {
	if ckpt.Format() == weights.GGUF {
		source, _ := ckpt.Metadata()["tokenizer.chat_template"].(string)
		return source, nil
	}
	var files [3][]byte
	for i, name := range []string{"tokenizer_config.json", "chat_template.jinja", "chat_template.json"} {
		data, err := ckpt.Config(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		files[i] = data
	}
	source, err := chat.FromConfig(files[0], files[1], files[2])
	if errors.Is(err, chat.ErrNoTemplate) {
		return "", nil
	}
	return source, err
}

// readGeneration sets the tokens that end an answer and the recommended sampling: from the tokenizer and, where they
// exist, from config.json and generation_config.json, or from a GGUF's general.sampling keys.
func (m *Model) readGeneration(ckpt *weights.Checkpoint) error {
	m.stops = append(m.stops, m.Tokenizer.EOS()...)
	m.Defaults = sampling.Params{Temperature: 1, TopP: 1, RepetitionPenalty: 1}
	p := &m.Defaults
	if ckpt.Format() == weights.GGUF {
		meta := ckpt.Metadata()
		for key, dst := range map[string]*float32{"temp": &p.Temperature, "top_p": &p.TopP, "min_p": &p.MinP, "penalty_repeat": &p.RepetitionPenalty} {
			if v, ok := meta["general.sampling."+key].(float32); ok {
				*dst = v
			}
		}
		if k, ok := meta["general.sampling.top_k"].(int32); ok {
			p.TopK = int(k)
		}
		return p.Check(m.Tokenizer.VocabSize())
	}
	for _, name := range []string{"config.json", "generation_config.json"} {
		data, err := ckpt.Config(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var c struct {
			EOS         json.RawMessage `json:"eos_token_id"`
			DoSample    *bool           `json:"do_sample"`
			Temperature *float32        `json:"temperature"`
			TopP        *float32        `json:"top_p"`
			TopK        *int            `json:"top_k"`
			MinP        *float32        `json:"min_p"`
			Repetition  *float32        `json:"repetition_penalty"`
		}
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("text: %s: %w", name, err)
		}
		if err := m.addStops(name, c.EOS); err != nil {
			return err
		}
		if name == "config.json" {
			continue
		}
		assign(&p.Temperature, c.Temperature)
		assign(&p.TopP, c.TopP)
		assign(&p.TopK, c.TopK)
		assign(&p.MinP, c.MinP)
		assign(&p.RepetitionPenalty, c.Repetition)
		if c.DoSample != nil && !*c.DoSample {
			p.Temperature = 0
		}
	}
	if err := p.Check(m.Tokenizer.VocabSize()); err != nil {
		return fmt.Errorf("text: generation_config.json: %w", err)
	}
	return nil
}

// preset sets what requests are that do not say otherwise.
func (m *Model) preset(o *Options) error {
	m.system, m.allLogprobs = o.System, o.AllLogprobs
	if o.System != "" && m.Template == nil {
		return fmt.Errorf("text: %s has no chat template, and takes no system message", o.Name)
	}
	if o.Preset == nil {
		return nil
	}
	r := Request{Params: engine.Params{Sampling: m.Defaults}}
	o.Preset(&r)
	m.Defaults, m.stop, m.usual = r.Sampling, r.Stop, r.MaxTokens
	return m.Defaults.Check(m.Tokenizer.VocabSize())
}

func assign[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}

// addStops reads eos_token_id: a number, a list of numbers, or nothing.
func (m *Model) addStops(name string, data json.RawMessage) error {
	if len(data) == 0 || string(data) == "null" {
		return nil
	}
	ids := []int32{0}
	if data[0] != '[' {
		if err := json.Unmarshal(data, &ids[0]); err != nil {
			return fmt.Errorf("text: %s: eos_token_id: %w", name, err)
		}
	} else if err := json.Unmarshal(data, &ids); err != nil {
		return fmt.Errorf("text: %s: eos_token_id: %w", name, err)
	}
	for _, id := range ids {
		if !slices.Contains(m.stops, id) {
			m.stops = append(m.stops, id)
		}
	}
	return nil
}
