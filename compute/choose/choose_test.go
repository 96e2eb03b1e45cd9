package choose

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kvasir-llm/kvasir/compute"
)

var nan = float32(math.NaN())

// plain draws from the model's own distribution.
func plain() compute.Choosing { return compute.Choosing{Temperature: 1, TopP: 1, Repetition: 1} }

// bias makes biases of tokens and what is added to them, in turn.
func bias(v ...float32) (out []compute.TokenBias) {
	for i := 0; i < len(v); i += 2 {
		out = append(out, compute.TokenBias{Token: int32(v[i]), Add: v[i+1]})
	}
	return out
}

// stateOf returns a state that chooses by p.
func stateOf(p compute.Choosing) *State {
	s := new(State)
	s.Reset(&p)
	return s
}

// maskedOnes is 65 logits of which tokens 1 and 63 are left.
func maskedOnes() []float32 {
	l := slices.Repeat([]float32{negInf}, 65)
	l[1], l[63] = 1, 1
	return l
}

// next asks for token n of an output with top alternatives.
func next(n, top int) compute.Choice {
	return compute.Choice{N: uint64(n), Given: -1, Top: int32(top), After: -1, Mask: -1}
}

// TestAdjust follows vLLM: the repetition penalty covers prompt and output, the other two the output alone.
func TestAdjust(t *testing.T) {
	tests := []struct {
		name           string
		params         compute.Choosing
		prompt, output []int32
		banned         []int32
		mask           []uint32
		logits, want   []float32
	}{
		{"off", plain(), []int32{0}, []int32{1}, nil, nil, []float32{1, 2}, []float32{1, 2}},
		{"repetition", compute.Choosing{Repetition: 2}, []int32{0, 0}, []int32{1, 1}, nil, nil, []float32{4, -4, 4}, []float32{2, -8, 4}},
		{"presence", compute.Choosing{Repetition: 1, Presence: 0.5}, []int32{0}, []int32{1, 1}, nil, nil, []float32{1, 1, 1}, []float32{1, 0.5, 1}},
		{"frequency", compute.Choosing{Repetition: 1, Frequency: 0.5}, []int32{0}, []int32{1, 1, 2}, nil, nil, []float32{1, 1, 1}, []float32{1, 0, 0.5}},
		{"negative frequency", compute.Choosing{Repetition: 1, Frequency: -1}, nil, []int32{1}, nil, nil, []float32{1, 1}, []float32{1, 2}},
		{"all three", compute.Choosing{Repetition: 2, Presence: 1, Frequency: 0.25}, []int32{0}, []int32{2, 2, 1}, nil, nil,
			[]float32{8, -1, 8}, []float32{4, -3.25, 2.5}},
		{"bias", compute.Choosing{Repetition: 1, Bias: bias(0, 1.5, 2, -3)}, nil, nil, nil, nil, []float32{1, 1, 1}, []float32{2.5, 1, -2}},
		{"bias, then penalty", compute.Choosing{Repetition: 2, Bias: bias(0, 4)}, []int32{0}, nil, nil, nil, []float32{-2}, []float32{1}},
		{"banned", plain(), nil, nil, []int32{1}, nil, []float32{1, 2}, []float32{1, negInf}},
		{"masked", plain(), nil, nil, nil, []uint32{1 << 1, 1 << 31, 0},
			slices.Repeat([]float32{1}, 65), maskedOnes()},
		{"forbidden stays", compute.Choosing{Repetition: 2, Presence: -2, Bias: bias(0, 100)}, nil, []int32{0}, nil, nil,
			[]float32{negInf}, []float32{negInf}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.params.Prompt, tt.params.Output, tt.params.Banned = tt.prompt, tt.output, tt.banned
			stateOf(tt.params).adjust(tt.logits, true, tt.mask)
			if d := cmp.Diff(tt.want, tt.logits); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestGreedy(t *testing.T) {
	tests := []struct {
		logits []float32
		want   int32
		err    error
	}{
		{[]float32{1, 3, 2}, 1, nil},
		{[]float32{1, 3, 3}, 1, nil},
		{[]float32{negInf, -1e38, negInf}, 1, nil},
		{[]float32{negInf, negInf}, 0, ErrForbidden},
		{nil, 0, ErrForbidden},
		{[]float32{1, nan, 2}, 0, ErrNaN},
		{[]float32{nan, nan}, 0, ErrNaN},
		{[]float32{5, 1, nan}, 0, ErrNaN},
		{[]float32{1, float32(math.Inf(1))}, 0, ErrNaN},
	}
	for _, temperature := range []float32{0, 1e-20} {
		for _, top := range []int{-1, 2} {
			for _, tt := range tests {
				var s Sampler
				p := plain()
				p.Temperature = temperature
				p.TopP = 1e-9 // of a tie, the first
				c := s.Choose(stateOf(p), append([]float32(nil), tt.logits...), next(0, top), nil)
				if !errors.Is(c.Err, tt.err) || c.Err == nil && c.Token != tt.want {
					t.Errorf("%v: token %d, error %v; want %d, %v", tt.logits, c.Token, c.Err, tt.want, tt.err)
				}
			}
		}
	}
}

// TestNaNNamed makes sure that the error says which token is at fault.
func TestNaNNamed(t *testing.T) {
	var s Sampler
	c := s.Choose(stateOf(plain()), []float32{1, 2, nan}, next(0, -1), nil)
	if c.Err == nil || !strings.Contains(c.Err.Error(), "token 2") {
		t.Errorf("error %v; want one about token 2", c.Err)
	}
}

// TestPhilox checks the known answers that the authors of the generator publish.
func TestPhilox(t *testing.T) {
	const all = 0xffffffff
	tests := []struct {
		ctr  [4]uint32
		key  [2]uint32
		want [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{all, all, all, all}, [2]uint32{all, all}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	}
	for _, tt := range tests {
		if got := philox(tt.ctr, tt.key); got != tt.want {
			t.Errorf("philox(%x, %x) = %x; want %x", tt.ctr, tt.key, got, tt.want)
		}
	}
}

// TestSeed makes sure that a token is a function of seed and index: not of what a Sampler did before.
func TestSeed(t *testing.T) {
	logits := func() []float32 { return make([]float32, 1000) }
	draw := func(s *Sampler, seed uint64, skip int) int32 {
		p := plain()
		p.Seed = seed
		c := s.Choose(stateOf(p), logits(), next(skip, -1), nil)
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		return c.Token
	}
	var used Sampler
	drawn := map[int32]bool{}
	for i := range 50 {
		seed, index := uint64(i/10), i%10
		var fresh Sampler
		a, b := draw(&used, seed, index), draw(&fresh, seed, index)
		if a != b {
			t.Errorf("seed %d, token %d: a used Sampler draws %d, a fresh one %d", seed, index, a, b)
		}
		drawn[a] = true
	}
	if len(drawn) < 40 {
		t.Errorf("50 draws from 1000 tokens gave only %d different ones", len(drawn))
	}
}
