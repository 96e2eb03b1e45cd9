package text

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/sampling"
)

// verify returns an error if the books are wrong, or the bound is passed.
func (f *finds) verify() error {
	sum := int64(0)
	for _, x := range f.all {
		if sum += x.bytes; x.over || x.answers < 0 {
			return fmt.Errorf("%+v is counted", x)
		}
	}
	if sum != f.bytes || f.bytes > f.most {
		return fmt.Errorf("%d bytes are counted as %d, of at most %d", sum, f.bytes, f.most)
	}
	return nil
}

// greedyRequest asks for an answer by a grammar that finds much, one of eight.
func greedyRequest(i int) Request {
	r := asking(fmt.Sprintf("Tell me a story about %d foxes.", i))
	r.Sampling, r.MaxTokens = sampling.Defaults(), 48
	r.Sampling.Seed = uint64(i)
	kind := i % 8
	spec := grammar.Spec{Regex: fmt.Sprintf(`[a-z ,.]*[aeiou ][a-z ,.]{%d}[.!]`, 9+kind)}
	if kind%3 == 0 {
		spec = grammar.Spec{Schema: fmt.Appendf(nil, `{"type": "object", "minProperties": 1, "properties":
			{"a%d": {"type": "string", "pattern": "^[a-m]*x?.{%d}[n-z ]"}, "b": {"type": "array", "items": {"$ref": "#"}}}}`, kind, 5+kind)}
	}
	r.Answer.Form = &Form{Spec: spec, Field: "form"}
	return r
}

// TestGrammarsTogether follows many answers by turns, with bounds for all they find: what may come next is the same as
// without a lack of memory, unless an answer ends for that. The bound holds after each call, and what no answer uses is
// free in the end.
func TestGrammarsTogether(t *testing.T) {
	free := openMini(t, Options{})
	for _, c := range []struct {
		most int64
		ends bool
	}{{4 << 20, false}, {64 << 10, true}} {
		m := openMini(t, Options{Guide: GuideLimits{Found: c.most}})
		f := &m.guides.found
		rng := rand.New(rand.NewPCG(1, uint64(c.most)))
		words := (m.Spec.Vocab + 31) / 32
		type pair struct {
			tight, free engine.Constraint
			left        int
		}
		var live []*pair
		ended, reclaimed, compared, last := 0, 0, 0, int64(0)
		for turn := range 800 {
			if len(live) < 12 {
				r := greedyRequest(turn)
				p := &pair{left: r.MaxTokens}
				for of, c := range map[*Model]*engine.Constraint{m: &p.tight, free: &p.free} {
					made, err := of.constraint(t.Context(), &r, "", 200)
					if err != nil {
						t.Fatal(err)
					}
					*c = made()
				}
				live = append(live, p)
			}
			i := rng.IntN(len(live))
			p := live[i]
			masks := [2][]uint32{make([]uint32, words), make([]uint32, words)}
			p.free.Mask(masks[1])
			p.tight.Mask(masks[0])
			forced, want := p.tight.Forced(), p.free.Forced()
			var may []int32
			for id := range int32(m.Spec.Vocab) {
				if masks[1][id/32]>>(id%32)&1 != 0 {
					may = append(may, id)
				}
			}
			id := may[rng.IntN(len(may))]
			if len(want) > 0 {
				id = want[0]
			}
			err := p.tight.Accept(id)
			switch lack := err != nil && strings.Contains(err.Error(), "memory"); {
			case lack:
				ended++
			case err != nil || p.free.Accept(id) != nil:
				t.Fatalf("token %d is refused: %v", id, err)
			case !slices.Equal(masks[0], masks[1]) || !slices.Equal(forced, want):
				t.Fatal("other tokens may come where memory is scarce")
			default:
				compared++
			}
			if p.left--; err != nil || p.left == 0 || slices.Contains(m.stops, id) {
				p.tight.Close()
				p.free.Close()
				live = slices.Delete(live, i, i+1)
			}
			if err := f.verify(); err != nil {
				t.Fatal(err)
			}
			if f.bytes < last*9/10 {
				reclaimed++
			}
			last = f.bytes
		}
		t.Logf("%d KiB: %d masks are the same, %d answers ended, %d times much was freed", c.most>>10, compared, ended, reclaimed)
		if compared < 100 || reclaimed == 0 || ended > 0 != c.ends {
			t.Errorf("%d KiB: %d masks are the same, %d answers ended", c.most>>10, compared, ended)
		}
		for _, p := range live {
			p.tight.Close()
			p.free.Close()
		}
		f.drop(func(*find) bool { return true })
		if f.bytes != 0 || len(f.all) != 0 {
			t.Errorf("%d bytes of %d grammars are left", f.bytes, len(f.all))
		}
	}
}

// TestAnswersWithinGrammarMemory holds that answers together have the same tokens where there is little memory for what
// they find of their grammars.
func TestAnswersWithinGrammarMemory(t *testing.T) {
	const n = 16
	var answers [2][n][]int32
	for k, most := range []int64{0, 24 << 20} {
		m := openMini(t, Options{MaxSeqs: n, Guide: GuideLimits{Found: most}})
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				g, err := generate(t.Context(), m, greedyRequest(i))
				if err != nil {
					t.Error(err)
					return
				}
				answers[k][i] = listen(t, g).ids
			})
		}
		wg.Wait()
	}
	for i := range n {
		if a, b := answers[0][i], answers[1][i]; len(a) == 0 || !slices.Equal(a, b) {
			t.Errorf("%d: %d, and with less memory %d", i, a, b)
		}
	}
}
