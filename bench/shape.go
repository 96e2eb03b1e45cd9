package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shape is the size of a decoder: Llama's, unless it has a mixture or is of another family.
type Shape struct {
	Name                                                  string
	Layers, Hidden, Width, Heads, KVHeads, HeadDim, Vocab int

	Mixture Mixture
	// Family is gpt-oss or deepseek2; "" is Llama, or Qwen3 with a mixture.
	Family string
}

// Mixture is the experts of a shape; the zero Mixture is none.
type Mixture struct {
	Experts, Chosen, Width int
	Shared                 int // experts of that width that every token goes to
	Dense                  int // first layers without experts
}

// llama returns a shape of Llama's family.
func llama(name string, layers, hidden, width, heads, kv, head, vocab int) Shape {
	return Shape{Name: name, Layers: layers, Hidden: hidden, Width: width, Heads: heads, KVHeads: kv, HeadDim: head, Vocab: vocab}
}

// mixed returns a shape with a mixture.
func (s Shape) mixed(family string, m Mixture) Shape {
	s.Family, s.Mixture = family, m
	return s
}

// Shapes are the named models of Random. Their heads are not tied to their embeddings.
var Shapes = []Shape{
	llama("mini", 8, 512, 1280, 8, 2, 64, 8192),
	llama("125m", 12, 768, 2048, 12, 4, 64, 32000),
	llama("0.5b", 24, 896, 4864, 14, 2, 64, 151936),
	llama("1.1b", 22, 2048, 5632, 32, 4, 64, 32000),
	llama("3b", 28, 3072, 8192, 24, 8, 128, 128256),
	llama("8b", 32, 4096, 14336, 32, 8, 128, 128256),
	llama("14b", 40, 5120, 13824, 40, 8, 128, 152064),
	llama("32b", 64, 5120, 27648, 40, 8, 128, 152064),
	llama("70b", 80, 8192, 28672, 64, 8, 128, 128256),
	llama("30b-a3b", 48, 2048, 6144, 32, 4, 128, 151936).mixed("", Mixture{Experts: 128, Chosen: 8, Width: 768}),
	llama("gpt-oss-20b", 24, 2880, 2880, 64, 8, 64, 201088).mixed("gpt-oss", Mixture{Experts: 32, Chosen: 4, Width: 2880}),
	llama("v2-lite", 27, 2048, 10944, 16, 1, 192, 102400).mixed("deepseek2",
		Mixture{Experts: 64, Chosen: 6, Width: 1408, Shared: 2, Dense: 1}),
}

// What latents of a deepseek2 shape have: their numbers, those that rotate, and those of a head's values.
const latentRank, latentRope, latentValue = 512, 64, 128

// ShapeNames are the names of Shapes.
func ShapeNames() []string {
	var names []string
	for _, s := range Shapes {
		names = append(names, s.Name)
	}
	return names
}

// shapeKey is a number of a spelled-out shape and its destination.
type shapeKey struct {
	key  string
	most int
	of   func(*Shape) *int
}

// shapeKeys are the keys of a spelled-out shape, of which the first are required.
var shapeKeys = []shapeKey{
	{"layers", 1000, func(s *Shape) *int { return &s.Layers }},
	{"width", 1 << 17, func(s *Shape) *int { return &s.Hidden }},
	{"ff", 1 << 19, func(s *Shape) *int { return &s.Width }},
	{"heads", 1 << 10, func(s *Shape) *int { return &s.Heads }},
	{"kv", 1 << 10, func(s *Shape) *int { return &s.KVHeads }},
	{"vocab", 1 << 20, func(s *Shape) *int { return &s.Vocab }},
	{"head", 1 << 10, func(s *Shape) *int { return &s.HeadDim }},
	{"experts", 1 << 10, func(s *Shape) *int { return &s.Mixture.Experts }},
	{"chosen", 1 << 7, func(s *Shape) *int { return &s.Mixture.Chosen }},
	{"expert", 1 << 17, func(s *Shape) *int { return &s.Mixture.Width }},
}

// requiredKeys is the number of those that are required.
const requiredKeys = 6

// ParseShape returns the shape with a name, or one spelled out as in
// "layers=22,width=2048,ff=5632,heads=32,kv=4,vocab=32000". "head=64" sets the size of a head if it is not width/heads;
// "experts=128,chosen=8,expert=768" replaces the feed-forward by a mixture, of experts of that width.
func ParseShape(text string) (Shape, error) {
	if !strings.Contains(text, "=") {
		for _, s := range Shapes {
			if strings.EqualFold(s.Name, text) {
				return s, nil
			}
		}
		return Shape{}, fmt.Errorf("bench: no shape %q; there are %s, and layers=N,width=N,ff=N,heads=N,kv=N,vocab=N", text, strings.Join(ShapeNames(), ", "))
	}
	s := Shape{Name: text}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		i := slices.IndexFunc(shapeKeys, func(k shapeKey) bool { return k.key == key })
		if i < 0 {
			return s, fmt.Errorf("bench: shape %q: %q is not one of layers, width, ff, heads, kv, vocab, head, experts, chosen and expert", text, key)
		}
		to, most := shapeKeys[i].of(&s), shapeKeys[i].most
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > most {
			return s, fmt.Errorf("bench: shape %q: %s is %q; want a number from 1 to %d", text, key, value, most)
		}
		if *to != 0 {
			return s, fmt.Errorf("bench: shape %q: %s is there twice", text, key)
		}
		*to = n
	}
	return s, s.complete()
}

// complete sets the default head size, and refuses impossible shapes.
func (s *Shape) complete() error {
	for _, k := range shapeKeys[:requiredKeys] {
		if *k.of(s) == 0 {
			return fmt.Errorf("bench: shape %q: %s is missing", s.Name, k.key)
		}
	}
	switch {
	case s.Heads%s.KVHeads != 0:
		return fmt.Errorf("bench: shape %q: %d heads cannot share %d kv heads evenly", s.Name, s.Heads, s.KVHeads)
	case s.HeadDim == 0 && s.Hidden%s.Heads != 0:
		return fmt.Errorf("bench: shape %q: a width of %d is not a multiple of %d heads; head=N says how large one is", s.Name, s.Hidden, s.Heads)
	case s.HeadDim == 0:
		s.HeadDim = s.Hidden / s.Heads
	}
	if m := s.Mixture; m != (Mixture{}) && (m.Width == 0 || m.Chosen == 0 || m.Chosen > m.Experts) {
		return fmt.Errorf("bench: shape %q: %d of %d experts of width %d; want experts, chosen and expert", s.Name, m.Chosen, m.Experts, m.Width)
	}
	if s.HeadDim%2 != 0 {
		return fmt.Errorf("bench: shape %q: heads of %d; want an even number", s.Name, s.HeadDim)
	}
	return nil
}
