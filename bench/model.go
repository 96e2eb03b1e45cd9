package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

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
	Quant           string  `json:"quant"` // the mix that the file says it has, or the type of most of its weights
	Threads         int     `json:"threads"`
	Test            string  `json:"test"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	Floor           float64 `json:"floor_tokens_per_second"`
	Share           float64 `json:"share"`

	Slowest float64 `json:"slowest_tokens_per_second"` // of the repetitions
	Fastest float64 `json:"fastest_tokens_per_second"`
	// The peaks that the floor is by: the greater of those right before and right after the test.
	Read   float64 `json:"peak_gb_per_second"`
	Floats float64 `json:"peak_float_gop_per_second"`
	Pairs  float64 `json:"peak_bfloat16_gop_per_second"`
	Bytes  float64 `json:"peak_byte_gop_per_second"`
}

// ModelInfo is what is known of a model before it is tested.
type ModelInfo struct {
	Name, Quant string
	Kernels     string        // the implementation
	Size        int64         // bytes of weights, as stored
	Parameters  int64         // weights
	Load        time.Duration // what it took to load them
	Peaks       cpu.Peaks     // of the machine
}

// ModelBench measures a model's forward pass: no engine, no sampling. Logits are computed for the last token of a prompt and
// for every decoded token.
type ModelBench struct {
	ModelInfo
	o     ModelOptions
	run   modelRun
	meter *cpu.Meter
	at    time.Time // when the peaks were measured
}

// freshPeaks is how long peaks count as those of now.
const freshPeaks = time.Second

// OpenModel loads a checkpoint and measures the machine's peaks.
func OpenModel(ckpt *weights.Checkpoint, o ModelOptions) (*ModelBench, error) {
	if o.Chunk < 1 || o.Repetitions < 1 || o.BlockTokens < 1 {
		return nil, fmt.Errorf("bench: chunks of %d tokens, %d repetitions, blocks of %d tokens; want at least 1 of each", o.Chunk, o.Repetitions, o.BlockTokens)
	}
	if o.Device.Threads == 0 {
		o.Device.Threads = cpu.DefaultThreads()
	}
	dev, err := cpu.New(o.Device)
	if err != nil {
		return nil, err
	}
	m := &ModelBench{o: o, ModelInfo: ModelInfo{Name: o.Name, Kernels: dev.Name()}, run: modelRun{dev: dev, chunk: o.Chunk, blockTokens: o.BlockTokens}}
	start := time.Now()
	if m.run.model, err = model.Load(ckpt, dev, nil); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	m.Load = time.Since(start)
	m.run.model.KVType = o.KVType
	m.run.cost = costOf(ckpt, m.run.model.Spec, o.KVType)
	m.Quant = m.run.cost.quant
	for _, t := range ckpt.Tensors() {
		m.Size, m.Parameters = m.Size+t.Size, m.Parameters+int64(t.Values())
	}
	if m.meter, err = cpu.NewMeter(o.Device); err == nil {
		err = m.measurePeaks()
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Close ends the measurements.
func (m *ModelBench) Close() error {
	err := m.run.dev.Close()
	if m.meter != nil {
		err = errors.Join(err, m.meter.Close())
	}
	return err
}

func (m *ModelBench) measurePeaks() (err error) {
	m.Peaks, err = m.meter.Peaks()
	m.at = time.Now()
	return err
}

// Run does a test. The peaks of the machine are measured before and after it: other work, and what shares the memory, change
// them within minutes.
func (m *ModelBench) Run(ctx context.Context, t Test) (ModelRow, error) {
	if time.Since(m.at) > freshPeaks {
		if err := m.measurePeaks(); err != nil {
			return ModelRow{}, err
		}
	}
	before := m.Peaks
	speeds, err := m.run.measure(ctx, t, m.o.Repetitions)
	if err == nil {
		err = m.measurePeaks()
	}
	if err != nil {
		return ModelRow{}, fmt.Errorf("bench: test %s: %w", t.Name, err)
	}
	p := before.Max(m.Peaks)
	row := ModelRow{
		Model: m.Name, Quant: m.Quant, Threads: m.o.Device.Threads, Test: t.Name, TokensPerSecond: median(speeds),
		Floor: float64(t.tokens()) / m.run.floor(t, p), Slowest: speeds[0], Fastest: speeds[len(speeds)-1],
		Read: p.Read / 1e9, Floats: p.Floats / 1e9, Pairs: p.Pairs / 1e9, Bytes: p.Bytes / 1e9,
	}
	row.Share = row.TokensPerSecond / row.Floor
	return row, nil
}

// Model runs the tests on a checkpoint. found, if not nil, hears of each row.
func Model(ctx context.Context, ckpt *weights.Checkpoint, o ModelOptions, tests []Test, found func(ModelInfo, *ModelRow)) ([]ModelRow, error) {
	m, err := OpenModel(ckpt, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if found != nil {
		found(m.ModelInfo, nil)
	}
	var rows []ModelRow
	for _, t := range tests {
		row, err := m.Run(ctx, t)
		if err != nil {
			return rows, err
		}
		if rows = append(rows, row); found != nil {
			found(m.ModelInfo, &row)
		}
	}
	return rows, nil
}
