package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// companions are specs whose automata grow with their outputs.
func companions() []Spec {
	return []Spec{
		{JSON: true},
		{Regex: `(?=.*\d)(?!.*xx)[a-z0-9]{3,50}|[0-9]{2}|q(a|b)c`},
		{Grammar: "root ::= \"y\" p | \"z\" q | \"x\" p | \"x\" q\np ::= [ab]{9} \"?\" | \"(\" p \")\"\nq ::= [ac]{9} \"!\" | \"(\" q \")\""},
		{Schema: []byte(`{"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"v": {"enum": ["b", "a", 1, 2]}, "w": {"type": "integer",
			"minimum": 10}, "c": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "required": ["v", "c"], "minProperties": 3}}}`)},
		{Schema: []byte(`{"type": "object", "patternProperties": {"^x": {"type": "string", "pattern": "[0-9a-f]{2}$"}}, "minProperties": 1}`)},
	}
}

// TestForget follows several outputs together, and forgets at any time what they have found: masks, forced tokens and
// endings are those of a matcher that is alone and forgets nothing.
func TestForget(t *testing.T) {
	v := byteVocab()
	type output struct {
		with, alone *Matcher
		text        string
	}
	for _, spec := range companions() {
		g, err := Compile(spec, v, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(3, 4))
		origin, outputs, forgot := g.Start(), []*output{}, 0
		for range 600 {
			if len(outputs) < 4 {
				outputs = append(outputs, &output{with: origin.Clone(), alone: g.Start()})
			}
			i := rng.IntN(len(outputs))
			o := outputs[i]
			if rng.IntN(5) == 0 {
				before := origin.Bytes()
				origin.Forget()
				if after := origin.Bytes(); after > before+1<<10 {
					t.Errorf("%v: %d bytes, and %d after they were forgotten", spec, before, after)
				}
				forgot++
			}
			masks := [2][9]uint32{}
			o.with.Mask(masks[0][:])
			o.alone.Mask(masks[1][:])
			if masks[0] != masks[1] || o.with.Complete() != o.alone.Complete() {
				t.Fatalf("%v: after %q the mask is %x; alone %x", spec, o.text, masks[0], masks[1])
			}
			if a, b := o.with.Forced(), o.alone.Forced(); !slices.Equal(a, b) {
				t.Fatalf("%v: after %q %q must come; alone %q", spec, o.text, bytesOf(a), bytesOf(b))
			}
			a, _ := o.with.Ending(500)
			if b, _ := o.alone.Ending(500); !slices.Equal(a, b) {
				t.Fatalf("%v: %q ends with %q; alone with %q", spec, o.text, bytesOf(a), bytesOf(b))
			}
			var may []int32
			for id := range int32(256) {
				if masks[0][id/32]>>(id%32)&1 != 0 {
					may = append(may, id)
				}
			}
			if len(may) == 0 || len(o.text) > 60 {
				o.with.Release()
				outputs = slices.Delete(outputs, i, i+1)
				continue
			}
			id := may[rng.IntN(len(may))]
			if len(a) > 0 && rng.IntN(3) > 0 {
				id = a[0]
			}
			if o.with.Accept(id) != nil || o.alone.Accept(id) != nil {
				t.Fatalf("%v: after %q token %d is refused", spec, o.text, id)
			}
			o.text += string(rune(id))
		}
		if forgot == 0 || len(origin.users) != 1+len(outputs) {
			t.Errorf("%v: forgotten %d times; %d matchers for %d outputs", spec, forgot, len(origin.users), len(outputs))
		}
	}
}

// TestLimitOfAnother holds that an output that passes a limit in the middle of finding something leaves nothing wrong
// for its clones.
func TestLimitOfAnother(t *testing.T) {
	v := byteVocab()
	ended, compared := 0, 0
	for _, spec := range companions() {
		for work := 200; work < 6000; work += 97 {
			limits := DefaultLimits
			limits.Work = work
			g, err := Compile(spec, v, limits)
			if err != nil {
				t.Fatal(err)
			}
			limits.Work = DefaultLimits.Work
			free, err := Compile(spec, v, limits)
			if err != nil {
				t.Fatal(err)
			}
			origin := g.Start()
			for seed := range uint64(6) {
				m, alone, text := origin.Clone(), free.Start(), ""
				rng := rand.New(rand.NewPCG(seed, uint64(work)))
				for range 20 {
					masks := [2][9]uint32{}
					m.Mask(masks[0][:])
					alone.Mask(masks[1][:])
					forced := m.Forced()
					m.Ending(100)
					if m.Err() != nil {
						ended++
						break
					}
					compared++
					if masks[0] != masks[1] {
						t.Fatalf("%v with %d: after %q the mask is %x; without a limit %x", spec, work, text, masks[0], masks[1])
					}
					if b := alone.Forced(); !slices.Equal(forced, b) {
						t.Fatalf("%v with %d: after %q %q must come; without a limit %q", spec, work, text, bytesOf(forced), bytesOf(b))
					}
					var may []int32
					for id := range int32(256) {
						if masks[1][id/32]>>(id%32)&1 != 0 {
							may = append(may, id)
						}
					}
					if len(may) == 0 {
						break
					}
					id := may[rng.IntN(len(may))]
					if err := m.Accept(id); errors.Is(err, errLimit) {
						ended++
						break
					} else if err != nil || alone.Accept(id) != nil {
						t.Fatalf("%v with %d: after %q token %d is refused: %v", spec, work, text, id, err)
					}
					text += string(rune(id))
				}
				m.Release()
			}
		}
	}
	if ended < 100 || compared < 100 {
		t.Errorf("%d outputs passed a limit, %d masks were compared", ended, compared)
	}
}

// TestEnd holds that outputs for which there is no memory end with an error that says so, and hold nothing.
func TestEnd(t *testing.T) {
	g, err := Compile(Spec{JSON: true}, byteVocab(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	origin := g.Start()
	m := origin.Clone()
	m.Accept('{')
	m.Mask(make([]uint32, 9))
	before := m.Bytes()
	origin.End()
	mask := make([]uint32, 9)
	m.Mask(mask)
	if err := m.Accept('"'); !errors.Is(err, errMemory) || mask[8] != 1 || m.Complete() || m.Forced() != nil || m.Large() {
		t.Errorf("it may go on with %x, and %v", mask, err)
	}
	if _, ok := m.Ending(9); ok || before < 1<<10 {
		t.Errorf("an output that has ended has an end; it had %d bytes", before)
	}
}

// TestMemoryOfEndings holds that the endings of long literals take no more memory than the literals do: each of their
// thousands of parts has one.
func TestMemoryOfEndings(t *testing.T) {
	var list []string
	for i := range 60 {
		list = append(list, fmt.Sprintf("%q", fmt.Sprint(i)+strings.Repeat(string(rune('a'+i%26)), 4000)))
	}
	g, err := Compile(Spec{Schema: []byte(`{"enum":[` + strings.Join(list, ",") + `]}`)}, byteVocab(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	m := g.Start()
	ids, ok := m.Ending(5000)
	took := int64(heap() - before)
	if !ok || ends(m, ids) != nil || len(ids) != 4003 {
		t.Errorf("it ends with %d tokens, %v", len(ids), ok)
	}
	if took > 64<<20 || m.Bytes() < took/2 || m.Bytes() > 4*took {
		t.Errorf("the endings take %d bytes, and are said to take %d; the grammar takes %d", took, m.Bytes(), g.Bytes())
	}
}
