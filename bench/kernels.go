package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// KernelRow is the speed of one operation with one implementation. Rates count the operation's indispensable Work;
// Share is the floor of that work over the measured time, at the peaks of the implementation's own instructions; 0 if
// the device has no meter.
type KernelRow struct {
	Kernels   string  `json:"kernels"` // the implementation, or the kind of device if it has one only
	Kernel    string  `json:"kernel"`  // the operation
	Type      string  `json:"type"`    // of the weights or of the input
	Shape     string  `json:"shape"`
	Rows      int     `json:"rows"`
	Threads   int     `json:"threads,omitempty"` // of the host; 0 if the device is not the host
	Bandwidth float64 `json:"gb_per_second"`
	Rate      float64 `json:"gop_per_second"`
	Share     float64 `json:"share,omitempty"`
	Refused   string  `json:"refused,omitempty"` // why the device has no such operation; nothing was measured then
}

// KernelOptions selects the kernels and configures the measurement.
type KernelOptions struct {
	Device  string          // by name (compute.Open)
	Compute compute.Options // Kernels is one implementation, or "" for all of the device
	Filter  *regexp.Regexp  // of "kernels/kernel/type/rows"; nil is all
	Time    time.Duration   // spent on each
	Size    int             // width of rows, and of square matrices; a multiple of 256
	Memory  int             // bytes of operands that operations use in turn; more than the caches hold measures memory
	Rows    []int           // of products; nil is 1, 8, 32 and 256, or 1 and 8 for portable Go, which is slow
}

// productTypes are the weight types that kernels multiply by.
var productTypes = []quant.Type{
	quant.F32, quant.F16, quant.BF16, quant.F8_E4M3, quant.Q8_0, quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1,
	quant.Q2_K, quant.Q3_K, quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.IQ4_NL, quant.IQ4_XS, quant.MXFP4, quant.U4_32, quant.U4_128, quant.U8_128,
}

// maxRows bounds the rows of an operation.
const maxRows = 1 << 15

// Kernels measures the operations of every implementation on data from memory: products of each weight type, attention
// by type of the cache, and the operations on rows. It calls found with each implementation's peaks, zero if the device
// has no meter, and then with each of its rows.
func Kernels(ctx context.Context, o KernelOptions, found func(name string, p compute.Peaks, row *KernelRow)) error {
	if o.Size < 256 || o.Size%256 != 0 || o.Size > maxRows || o.Memory < 0 {
		return fmt.Errorf("bench: kernels of size %d and %d bytes of memory; want a multiple of 256 up to %d, and at least 0 bytes", o.Size, o.Memory, maxRows)
	}
	for _, rows := range o.Rows {
		if rows < 1 || rows > maxRows {
			return fmt.Errorf("bench: products of %d rows; want 1 to %d", rows, maxRows)
		}
	}
	kind, which, err := compute.KindOf(o.Device)
	if err != nil {
		return err
	}
	var names []string
	if kind.Implementations != nil && o.Compute.Kernels == "" {
		names = kind.Implementations()
	} else {
		names = []string{o.Compute.Kernels}
	}
	periods := map[quant.Type][]byte{}
	for _, name := range names {
		s := kernelSet{KernelOptions: o, kind: kind, which: which, name: name, periods: periods, found: found}
		if s.Compute.Kernels = name; name == "" {
			s.name = kind.Name
		}
		if err := s.measure(ctx); err != nil {
			return fmt.Errorf("bench: kernels %s: %w", s.name, err)
		}
	}
	return nil
}

// peaksLast is how long measured peaks stay valid; other work on the machine changes them.
const peaksLast = 10 * time.Second

// kernelSet is one implementation under measurement.
type kernelSet struct {
	KernelOptions
	kind    compute.Kind
	which   string
	name    string // of the implementation, or of the kind
	periods map[quant.Type][]byte
	found   func(name string, p compute.Peaks, row *KernelRow)

	meter compute.Meter // nil if there is none
	peaks compute.Peaks
	at    time.Time // when they were measured
}

// measure runs all cases.
func (s *kernelSet) measure(ctx context.Context) error {
	if s.kind.Meter != nil {
		var err error
		if s.meter, err = s.kind.Meter(s.which, s.Compute); err != nil {
			return err
		}
		defer s.meter.Close()
	}
	if err := s.measurePeaks(); err != nil {
		return err
	}
	s.found(s.name, s.peaks, nil)
	for _, group := range s.cases() {
		if err := s.group(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// wantedCase is an operation that the options may select, and what builds it.
type wantedCase struct {
	kernel, typ string
	rows        int
	build       func(k *kernelBench) (kernelCase, error)
}

// cases returns the cases in groups. Those of a group share a device and what they keep on it.
func (s *kernelSet) cases() [][]wantedCase {
	counts := s.Rows
	if counts == nil {
		if counts = []int{1, 8, 32, 256}; s.name == "portable" {
			counts = counts[:2]
		}
	}
	var groups [][]wantedCase
	for _, t := range productTypes {
		var group []wantedCase
		for _, rows := range counts {
			group = append(group, wantedCase{"matmul", t.String(), rows, func(k *kernelBench) (kernelCase, error) { return k.product(t, rows) }})
		}
		groups = append(groups, group)
	}
	for _, t := range []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q8_0, quant.Q4_0} {
		groups = append(groups, []wantedCase{
			{"decode", t.String(), 8, func(k *kernelBench) (kernelCase, error) { return k.attention(t, 8, 1, k.size) }},
			{"prefill", t.String(), 256, func(k *kernelBench) (kernelCase, error) { return k.attention(t, 1, 256, 512) }},
		})
	}
	for _, op := range rowOperations {
		groups = append(groups, []wantedCase{{op.name, "F32", s.Size, op.build}})
	}
	return groups
}

// group runs the cases of a group that the filter selects, on a device of their own, which frees what they load.
func (s *kernelSet) group(ctx context.Context, group []wantedCase) (err error) {
	var k *kernelBench
	for _, w := range group {
		label := fmt.Sprintf("%s/%s/%s/%d", s.name, w.kernel, w.typ, w.rows)
		if s.Filter != nil && !s.Filter.MatchString(label) {
			continue
		}
		if k == nil {
			var dev compute.Device
			if dev, err = s.kind.Open(s.which, s.Compute); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, dev.Close()) }()
			if k, err = newKernelBench(dev, s.Size, max(s.Memory, 1), s.periods); err != nil {
				return err
			}
		}
		if err := s.run(ctx, k, w); err != nil {
			return fmt.Errorf("%s: %w", label, err)
		}
	}
	return nil
}

// run measures a case. If the device cannot load its operands or compile it, the row says so.
func (s *kernelSet) run(ctx context.Context, k *kernelBench, w wantedCase) error {
	c, err := w.build(k)
	if err == nil && time.Since(s.at) > peaksLast {
		if err := s.measurePeaks(); err != nil {
			return err
		}
	}
	row := KernelRow{Kernels: s.name, Kernel: w.kernel, Type: w.typ, Shape: c.shape, Rows: w.rows, Threads: threads(k.dev)}
	var seconds float64
	if err == nil {
		seconds, err = k.time(ctx, s.Time, c)
	}
	if refused := (refusal{}); errors.As(err, &refused) {
		row.Refused = refused.Error()
		s.found(s.name, s.peaks, &row)
		return nil
	}
	if err != nil {
		return err
	}
	row.Bandwidth, row.Rate = c.work.Bytes/seconds/1e9, (c.work.FloatOps+c.work.PairOps+c.work.ByteOps)/seconds/1e9
	if s.meter != nil {
		row.Share = c.work.Floor(s.peaks) / seconds
	}
	s.found(s.name, s.peaks, &row)
	return nil
}

func (s *kernelSet) measurePeaks() (err error) {
	if s.meter != nil {
		s.peaks, err = s.meter.Peaks()
		s.at = time.Now()
	}
	return err
}
