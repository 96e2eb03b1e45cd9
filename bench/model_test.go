package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
)

var tiny = llama("tiny", 2, 64, 128, 4, 2, 16, 256)

func TestParseTests(t *testing.T) {
	got, err := ParseTests("pp512, tg128,b16@1024,pp7@3,pp8x4@2")
	want := []Test{
		{"pp512", 1, 0, 512, 0}, {"tg128", 1, 16, 0, 128}, {"b16@1024", 16, 1024, 0, 32}, {"pp7@3", 1, 3, 7, 0}, {"pp8x4@2", 4, 2, 8, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, %v", diff, err)
	}
	for _, bad := range []string{"", "pp", "pp0", "tg-1", "b16@", "xx5", "b8x2", "pp8x0", "pp512,,tg1", "b9999999@9999999", "pp99999999"} {
		if got, err := ParseTests(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

// TestPlan packs prompts into steps of 10 rows.
func TestPlan(t *testing.T) {
	tests, err := ParseTests("pp8x3@2,b3")
	if err != nil {
		t.Fatal(err)
	}
	var got [][]span
	for step := range tests[0].plan(10) {
		got = append(got, slices.Clone(step))
	}
	want := [][]span{{{0, 1, 8, 2}, {1, 1, 2, 2}}, {{1, 1, 6, 4}, {2, 1, 4, 2}}, {{2, 1, 4, 6}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	if a, b := tests[0].logits(want[0][0]), tests[0].logits(want[0][1]); a != 1 || b != 0 {
		t.Errorf("%d and %d logits; want 1 of the whole prompt and 0 of a part", a, b)
	}
	for step := range tests[1].plan(10) {
		if !reflect.DeepEqual(step, []span{{0, 3, 1, 16}}) || tests[1].logits(step[0]) != 3 {
			t.Errorf("the first step is %v", step)
		}
		break
	}
}

// TestCost counts the tiny model by hand: 2 layers of q, o [64, 64], k, v [32, 64], gate, up [128, 64], down [64, 128]
// and two norms of 64; a last norm; a head and an embedding of [256, 64].
func TestCost(t *testing.T) {
	ckpt, err := Random(tiny, "q8_0")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := family.Read(ckpt)
	if err != nil {
		t.Fatal(err)
	}
	c := costOf(ckpt, spec, 0)
	const values, norms, head, kv = 2 * (2*64*64 + 2*32*64 + 3*64*128), (2*2 + 1) * 64 * 4, 256 * 64, 2 * 2 * 32 * 4
	const last, lastNorm = 64*64 + 3*64*128, 64 * 4 // the output and the feed-forward of the last layer
	for _, tt := range []struct {
		name                      string
		seqs, rows, start, logits int
		want                      Work
	}{
		{"3 sequences decode at 10", 3, 1, 10, 3, Work{
			Bytes:    (values+head)/32*34 + norms + 3*64/32*34 + 3*11*kv,
			ByteOps:  3 * 2 * (values + head),
			FloatOps: 2 * 3 * 11 * 2 * 4 * 32, // a multiply-add for each of 16 key and 16 value numbers of each head
		}},
		{"a prompt of 4 tokens", 1, 4, 0, 1, Work{
			Bytes:    (values+head)/32*34 + norms + 4*64/32*34 + 4*kv,
			ByteOps:  4*2*(values-last) + 2*(last+head),
			FloatOps: 2 * (1 + 2 + 3 + 4) * 2 * 4 * 32,
		}},
		{"4 tokens of a prompt at 5, no logits", 1, 4, 5, 0, Work{
			Bytes:    (values-last)/32*34 + norms - lastNorm + 4*64/32*34 + 9*kv,
			ByteOps:  4 * 2 * (values - last),
			FloatOps: 2 * (6 + 7 + 8 + 9) * 2 * 4 * 32,
		}},
	} {
		if got := c.step([]span{{0, tt.seqs, tt.rows, tt.start}}, func(span) int { return tt.logits }); got != tt.want {
			t.Errorf("%s: %+v; want %+v", tt.name, got, tt.want)
		}
	}
	for i := range 2 {
		a := spec.Layers[i].Mixer.(model.GQA)
		a.Window = 4
		spec.Layers[i].Mixer = a
	}
	w := c.step([]span{{0, 1, 1, 10}}, func(span) int { return 0 })
	if want := 2.0 * 4 * 2 * 4 * 32; w.FloatOps != want {
		t.Errorf("a window of 4: %v operations; want %v", w.FloatOps, want)
	}
	if c.quant != "Q8_0" {
		t.Errorf("quant is %q", c.quant)
	}
	floor := Work{Bytes: 10, FloatOps: 6, PairOps: 9, ByteOps: 8}.Floor(compute.Peaks{Read: 5, Floats: 2, Pairs: 3, Bytes: 4})
	if floor != 8 {
		t.Errorf("floor %v; want 6/2 + 9/3 + 8/4, which is more than 10/5", floor)
	}
}

func TestModelRows(t *testing.T) {
	ckpt, err := Random(tiny, "q4_0")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := ParseTests("pp20@7,tg3,b2")
	if err != nil {
		t.Fatal(err)
	}
	o := ModelOptions{Name: "tiny", Device: "cpu", Compute: compute.Options{Threads: 2}, Chunk: 8, Repetitions: 2, BlockTokens: 16}
	heard := 0
	rows, err := Model(t.Context(), ckpt, o, tests, func(ModelInfo, *ModelRow) { heard++ })
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 || heard != 4 {
		t.Fatalf("%d rows, heard of %d", len(rows), heard)
	}
	for i, r := range rows {
		if r.Test != tests[i].Name || r.Quant != "Q4_0" || r.Slowest > r.TokensPerSecond || r.TokensPerSecond > r.Fastest ||
			r.Slowest <= 0 || math.Abs(r.Share*r.Floor-r.TokensPerSecond) > 1e-6*r.TokensPerSecond {
			t.Errorf("row %+v", r)
		}
	}
	got, _ := json.Marshal(ModelRow{"m", "Q8_0", "cpu", 2, "pp1", 3, 4, 0.75, 1, 0.5, 0.25, 1, 2, 5, 6, 7, 8, 9})
	if want := `{"model":"m","quant":"Q8_0","device":"cpu","threads":2,"test":"pp1","tokens_per_second":3,"floor_tokens_per_second":4,"share":0.75,` +
		`"tokens":1,"floor_gigabytes":0.5,"floor_gigaoperations":0.25,"slowest_tokens_per_second":1,"fastest_tokens_per_second":2,"peak_gb_per_second":5,"peak_float_gop_per_second":6,"peak_bfloat16_gop_per_second":7,"peak_byte_gop_per_second":8,"peak_float8_gop_per_second":9}`; string(got) != want {
		t.Errorf("JSON %s; want %s", got, want)
	}
	alone := rows[2].FloorBytes
	o.Choose, o.Adapters = true, 2
	if rows, err = Model(t.Context(), ckpt, o, tests, nil); err != nil || rows[2].TokensPerSecond <= 0 {
		t.Errorf("with choices and adapters: %+v, %v", rows, err)
	}
	// A and B of 2 adapters, of q, o [64, 64], k, v [32, 64], gate, up [128, 64], down [64, 128], in 2 layers and 32
	// steps.
	if more, want := rows[2].FloorBytes-alone, 2*2*32*2e-9*16*(2*128+2*96+3*192); math.Abs(more-want) > 1e-9 {
		t.Errorf("adapters count %v GB; want %v", more, want)
	}
	o.Repetitions = 0
	if rows, err = Model(t.Context(), ckpt, o, tests, nil); err != nil || rows[2].TokensPerSecond != 0 || rows[2].Floor <= 0 {
		t.Errorf("floors alone: %+v, %v", rows, err)
	}
	o.Repetitions = 1
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Model(ctx, ckpt, o, tests, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Model(t.Context(), ckpt, ModelOptions{}, tests, nil); err == nil {
		t.Error("chunks of no tokens were taken")
	}
}
