package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// ModelOptions configures the measurement of a model.
type ModelOptions struct {
	Name        string // of the model
	Device      string // by name (compute.Open)
	Compute     compute.Options
	Chunk       int        // prompt tokens computed in one step; 0 is the device's StepRows
	Repetitions int        // runs of each test after a warm-up, whose median counts; 0 only tells floors
	Choose      bool       // the likeliest token is chosen on the device, as in serving
	Adapters    int        // random ones of rank 16, which sequences have in turn; 0 is none
	BlockTokens int        // tokens of a block of the KV cache
	KVType      quant.Type // 0 is the device's default
}

// ModelRow is the result of a test. Tokens are those of all sequences together. The floor is the speed that the machine
// would allow at its measured peaks (see Work.Floor and cost). Share is the measured speed over the floor; 1 is the
// limit. Floor, Share and the peaks are 0 if the device has no meter.
type ModelRow struct {
	Model           string  `json:"model"`
	Quant           string  `json:"quant"` // the file's own mix, or the type of most of its weights
	Device          string  `json:"device"`
	Threads         int     `json:"threads,omitempty"` // of the host; 0 if the device is not the host
	Test            string  `json:"test"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	Floor           float64 `json:"floor_tokens_per_second,omitempty"`
	Share           float64 `json:"share,omitempty"`
	// The work that the floor counts, of all tokens of the test.
	Tokens     int     `json:"tokens"`
	FloorBytes float64 `json:"floor_gigabytes"`
	FloorOps   float64 `json:"floor_gigaoperations"`

	Slowest float64 `json:"slowest_tokens_per_second"` // of the repetitions
	Fastest float64 `json:"fastest_tokens_per_second"`
	// The peaks behind the floor: the greater of those right before and right after the test.
	Read   float64 `json:"peak_gb_per_second,omitempty"`
	Floats float64 `json:"peak_float_gop_per_second,omitempty"`
	Pairs  float64 `json:"peak_bfloat16_gop_per_second,omitempty"`
	Bytes  float64 `json:"peak_byte_gop_per_second,omitempty"`
	Float8 float64 `json:"peak_float8_gop_per_second,omitempty"`
}

// ModelInfo describes a model before its tests.
type ModelInfo struct {
	Name, Quant string
	Device      string        // what it is, for people
	Size        int64         // bytes of weights, as stored
	Parameters  int64         // weights
	Load        time.Duration // time to load them
	Peaks       compute.Peaks // of the device; zero if it has no meter
}

// ModelBench measures a model's forward pass: no engine, no sampling. Logits are computed for the last token of a
// prompt and for every decoded token.
type ModelBench struct {
	ModelInfo
	o     ModelOptions
	run   modelRun
	meter compute.Meter // nil if there is none
	at    time.Time     // when the peaks were measured
}

// freshPeaks is how long measured peaks stay valid.
const freshPeaks = time.Second

// OpenModel loads a checkpoint and measures the device's peaks.
func OpenModel(ckpt *weights.Checkpoint, o ModelOptions) (*ModelBench, error) {
	if o.Chunk < 0 || o.Repetitions < 0 || o.Adapters < 0 || o.BlockTokens < 1 {
		return nil, fmt.Errorf("bench: chunks of %d tokens, %d repetitions, blocks of %d tokens; want at least 0, 0 and 1", o.Chunk, o.Repetitions, o.BlockTokens)
	}
	kind, which, err := compute.KindOf(o.Device)
	if err != nil {
		return nil, err
	}
	dev, err := kind.Open(which, o.Compute)
	if err != nil {
		return nil, err
	}
	o.Chunk = cmp.Or(o.Chunk, dev.StepRows())
	o.KVType = cmp.Or(o.KVType, compute.ServedKV(dev.KVTypes()))
	m := &ModelBench{
		o: o, ModelInfo: ModelInfo{Name: o.Name, Device: dev.Name()},
		run: modelRun{dev: dev, chunk: o.Chunk, blockTokens: o.BlockTokens, choose: o.Choose, adapters: o.Adapters},
	}
	start := time.Now()
	if m.run.model, err = loader.Model(ckpt, dev, nil); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	m.Load = time.Since(start)
	m.run.model.KVType = o.KVType
	m.run.model.MakeSlots(o.Adapters)
	m.run.cost = costOf(ckpt, m.run.model.Spec, o.KVType)
	m.run.cost.adapters, m.run.cost.adapter = o.Adapters, adapterWork(m.run.model)
	m.Quant = m.run.cost.quant
	for _, t := range ckpt.Tensors() {
		m.Size, m.Parameters = m.Size+t.Size, m.Parameters+int64(t.Values())
	}
	if kind.Meter != nil {
		if m.meter, err = kind.Meter(which, o.Compute); err == nil {
			err = m.measurePeaks()
		}
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

// threads returns the threads of the host that a device computes with; 0 if the device is not the host.
func threads(dev compute.Device) int {
	if host, ok := dev.(interface{ Threads() int }); ok {
		return host.Threads()
	}
	return 0
}

func (m *ModelBench) measurePeaks() (err error) {
	if m.meter == nil {
		return nil
	}
	m.Peaks, err = m.meter.Peaks()
	m.at = time.Now()
	return err
}

// Run runs a test. It measures the peaks of the machine before and after the test: other work and other users of the
// memory change them within minutes.
func (m *ModelBench) Run(ctx context.Context, t Test) (ModelRow, error) {
	if time.Since(m.at) > freshPeaks {
		if err := m.measurePeaks(); err != nil {
			return ModelRow{}, err
		}
	}
	before, speeds := m.Peaks, []float64{0}
	var err error
	if m.o.Repetitions > 0 {
		if speeds, err = m.run.measure(ctx, t, m.o.Repetitions); err == nil {
			err = m.measurePeaks()
		}
	}
	if err != nil {
		return ModelRow{}, fmt.Errorf("bench: test %s: %w", t.Name, err)
	}
	p := before.Max(m.Peaks)
	row := ModelRow{
		Model: m.Name, Quant: m.Quant, Device: m.Device, Threads: threads(m.run.dev), Test: t.Name,
		TokensPerSecond: median(speeds), Slowest: speeds[0], Fastest: speeds[len(speeds)-1],
		Read: p.Read / 1e9, Floats: p.Floats / 1e9, Pairs: p.Pairs / 1e9, Bytes: p.Bytes / 1e9, Float8: p.Float8 / 1e9,
		Tokens: t.tokens(),
	}
	floor, work := m.run.floor(t, p)
	row.FloorBytes, row.FloorOps = work.Bytes/1e9, work.operations()/1e9
	if m.meter != nil {
		row.Floor = float64(t.tokens()) / floor
		row.Share = row.TokensPerSecond / row.Floor
	}
	return row, nil
}

// Model runs the tests on a checkpoint. It calls found, if not nil, with each row.
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
