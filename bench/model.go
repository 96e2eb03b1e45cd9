package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Test is one measurement of a model.
type Test struct {
	Name  string
	Seqs  int // sequences computed together
	Depth int // tokens that each has in the cache already
	Rows  int // prompt tokens to compute; 0 is a decode
	Steps int // of one token a sequence, of a decode
}

const (
	shortPrompt = 16 // the depth of a decode that names none
	batchSteps  = 32 // of a decode of several sequences
	maxTest     = 1 << 20
)

var testForm = regexp.MustCompile(`^(pp|tg|b)([0-9]{1,7})(?:@([0-9]{1,7}))?$`)

// ParseTests reads a list such as "pp512,tg128,b16@1024": a prompt of 512 tokens; 128 tokens decoded by one sequence; 16
// sequences that decode together. @ is how many tokens the cache holds of each sequence before: none for a prompt, 16 for
// the others if not given.
func ParseTests(list string) ([]Test, error) {
	var out []Test
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		m := testForm.FindStringSubmatch(name)
		if m == nil {
			return nil, fmt.Errorf("bench: test %q; want ppN, tgN or bN, and @DEPTH after it if need be, as in pp512,tg128,b16@1024", name)
		}
		n, _ := strconv.Atoi(m[2])
		t := Test{Name: name, Seqs: 1, Depth: shortPrompt}
		switch m[1] {
		case "pp":
			t.Rows, t.Depth = n, 0
		case "tg":
			t.Steps = n
		case "b":
			t.Seqs, t.Steps = n, batchSteps
		}
		if m[3] != "" {
			t.Depth, _ = strconv.Atoi(m[3])
		}
		if n < 1 || t.Seqs*t.length() > maxTest {
			return nil, fmt.Errorf("bench: test %q computes over %d tokens; want 1 to %d", name, t.Seqs*t.length(), maxTest)
		}
		out = append(out, t)
	}
	return out, nil
}

// length returns the tokens that a sequence has at the end.
func (t Test) length() int { return t.Depth + t.Rows + t.Steps }

// tokens returns the tokens that a run computes.
func (t Test) tokens() int { return t.Seqs * (t.Rows + t.Steps) }

// ModelOptions say how a model is measured.
type ModelOptions struct {
	Name        string // of the model
	Device      cpu.Options
	Chunk       int // prompt tokens computed in one step
	Repetitions int // runs of each test, after one that warms up; the median counts
	BlockTokens int // tokens of a block of the KV cache
	KVType      quant.Type
}

// ModelRow is the result of a test. Tokens are those of all sequences together. The floor is what the machine would allow at
// its measured peaks (see Work.Floor and cost); the share is how much of it was reached, 1 being all.
type ModelRow struct {
	Model           string  `json:"model"`
	Quant           string  `json:"quant"` // the type that most of the weights have
	Threads         int     `json:"threads"`
	Test            string  `json:"test"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	Floor           float64 `json:"floor_tokens_per_second"`
	Share           float64 `json:"share"`

	Slowest float64 `json:"-"` // tokens per second of the slowest and the fastest repetition
	Fastest float64 `json:"-"`
}

// Model runs the tests on a checkpoint's forward pass: no engine, no sampling. Logits are computed for the last token of a
// prompt and for every decoded token. found, if not nil, hears of the peaks, then of each row.
func Model(ctx context.Context, ckpt *weights.Checkpoint, o ModelOptions, tests []Test, found func(cpu.Peaks, *ModelRow)) ([]ModelRow, error) {
	if o.Chunk < 1 || o.Repetitions < 1 || o.BlockTokens < 1 {
		return nil, fmt.Errorf("bench: chunks of %d tokens, %d repetitions, blocks of %d tokens; want at least 1 of each", o.Chunk, o.Repetitions, o.BlockTokens)
	}
	if o.Device.Threads == 0 {
		o.Device.Threads = runtime.GOMAXPROCS(0)
	}
	peaks, err := cpu.MeasurePeaks(o.Device)
	if err != nil {
		return nil, err
	}
	if found != nil {
		found(peaks, nil)
	}
	dev, err := cpu.New(o.Device)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	loaded, err := model.Load(ckpt, dev, nil)
	if err != nil {
		return nil, err
	}
	loaded.KVType = o.KVType
	m := modelRun{dev: dev, model: loaded, chunk: o.Chunk, blockTokens: o.BlockTokens, cost: costOf(ckpt, loaded.Spec, o.KVType)}
	var rows []ModelRow
	for _, t := range tests {
		speeds, err := m.measure(ctx, t, o.Repetitions)
		if err != nil {
			return rows, fmt.Errorf("bench: test %s: %w", t.Name, err)
		}
		row := ModelRow{
			Model: o.Name, Quant: m.cost.quant, Threads: o.Device.Threads, Test: t.Name, TokensPerSecond: median(speeds),
			Floor: float64(t.tokens()) / m.floor(t, peaks), Slowest: speeds[0], Fastest: speeds[len(speeds)-1],
		}
		row.Share = row.TokensPerSecond / row.Floor
		if rows = append(rows, row); found != nil {
			found(peaks, &row)
		}
	}
	return rows, nil
}

// modelRun is a model under measurement.
type modelRun struct {
	dev         *cpu.Device
	model       *model.Model
	chunk       int
	blockTokens int
	cost        cost

	runner *model.Runner
	tables [][][]int32 // blocks of each sequence, by group of layers
	ids    []int32     // random tokens
	batch  compute.Batch
}

// measure returns the tokens per second of each repetition.
func (m *modelRun) measure(ctx context.Context, t Test, repetitions int) ([]float64, error) {
	blocks := (t.length() + m.blockTokens - 1) / m.blockTokens
	var err error
	spec := compute.CacheSpec{Layers: m.model.Spec.KVLayers()}
	if m.runner, err = m.model.NewRunner(max(m.chunk, t.Seqs), max(1, spec.Groups())*blocks*t.Seqs, m.blockTokens, t.Seqs); err != nil {
		return nil, err
	}
	m.tables = m.tables[:0]
	for s := range t.Seqs {
		table := make([]int32, blocks)
		for i := range table {
			table[i] = int32(s*blocks + i)
		}
		m.tables = append(m.tables, spec.Spread(table))
	}
	r := rand.New(rand.NewPCG(1, uint64(t.tokens())))
	m.ids = make([]int32, max(t.Rows, t.Seqs))
	for i := range m.ids {
		m.ids[i] = r.Int32N(int32(m.model.Spec.Vocab))
	}
	if err := m.fill(t); err != nil {
		return nil, err
	}
	var speeds []float64
	for i := range repetitions + 1 {
		start := time.Now()
		if err := m.run(ctx, t); err != nil {
			return nil, err
		}
		if i > 0 {
			speeds = append(speeds, float64(t.tokens())/time.Since(start).Seconds())
		}
	}
	slices.Sort(speeds)
	return speeds, nil
}

// run does the test once.
func (m *modelRun) run(ctx context.Context, t Test) error {
	for at := 0; at < t.Rows; at += m.chunk {
		end := min(at+m.chunk, t.Rows)
		m.batch.Reset()
		m.batch.Append(m.ids[at:end], t.Depth+at, end == t.Rows, m.tables[0]...)
		if err := m.forward(ctx); err != nil {
			return err
		}
	}
	for i := range t.Steps {
		m.batch.Reset()
		for s, table := range m.tables {
			m.batch.Append(m.ids[s:s+1], t.Depth+i, true, table...)
		}
		if err := m.forward(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (m *modelRun) forward(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return m.runner.Forward(&m.batch)
}

// fill puts random keys and values of t.Depth tokens of each sequence into the cache.
func (m *modelRun) fill(t Test) error {
	rows := min(m.chunk, t.Depth)
	if rows == 0 {
		return nil
	}
	spec := m.model.Spec
	for i, l := range spec.Layers {
		k, err := m.random(rows, l.Attn.KVHeads*l.Attn.HeadDim)
		if err != nil {
			return err
		}
		v, err := m.random(rows, l.Attn.KVHeads*l.Attn.ValueDim)
		if err != nil {
			return err
		}
		for _, table := range m.tables {
			for at := 0; at < t.Depth; at += rows {
				m.batch.Reset()
				m.batch.Append(make([]int32, min(rows, t.Depth-at)), at, false, table...)
				m.dev.Begin(&m.batch)
				m.dev.Store(m.runner.Cache(), i, k, v)
			}
		}
	}
	return m.dev.Sync()
}

func (m *modelRun) random(rows, cols int) (compute.Tensor, error) {
	t, err := m.dev.Tensor(rows, cols)
	r := rand.New(rand.NewPCG(2, uint64(cols)))
	for i := range t.Host {
		t.Host[i] = float32(r.NormFloat64())
	}
	return t, err
}

// floor returns the seconds that a test takes at least.
func (m *modelRun) floor(t Test, p cpu.Peaks) float64 {
	seconds := 0.0
	for at := 0; at < t.Rows; at += m.chunk {
		end := min(at+m.chunk, t.Rows)
		logits := 0
		if end == t.Rows {
			logits = 1
		}
		seconds += m.cost.step(1, end-at, t.Depth+at, logits).Floor(p)
	}
	for i := range t.Steps {
		seconds += m.cost.step(t.Seqs, 1, t.Depth+i, t.Seqs).Floor(p)
	}
	return seconds
}
