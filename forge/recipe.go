package forge

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
)

// A recipe says which type each weight of a model is quantised to. The mixes of K-quants and their names are those of
// llama.cpp, so that files of one name are of one size.
type recipe struct {
	name string
	base quant.Type
	// fileType is the number of general.file_type.
	fileType uint32
	// attnV, attnO, qkv and down are what these weights are, in layer i of n; 0 is the base.
	attnV, attnO, qkv, down func(s shape, i, n int) quant.Type
}

// shape is what recipes ask of a model.
type shape struct {
	sharing int  // query heads for each KV head
	experts int  // of a mixture, else 0
	weighed bool // there is an importance
}

func shapeOf(spec *model.Spec, weighed bool) shape {
	a := spec.Attention()
	return shape{sharing: a.Heads / max(a.KVHeads, 1), experts: spec.Layers[len(spec.Layers)-1].FFN.Experts.Count, weighed: weighed}
}

// always is one type in every layer.
func always(t quant.Type) func(shape, int, int) quant.Type {
	return func(shape, int, int) quant.Type { return t }
}

// more is a type in the layers that matter most: the first and the last eighth, and every third between.
func more(t quant.Type) func(shape, int, int) quant.Type {
	return func(_ shape, i, n int) quant.Type {
		if i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 {
			return t
		}
		return 0
	}
}

// first is a type in the first layers, as many as until says of n.
func first(t quant.Type, until func(n int) int) func(shape, int, int) quant.Type {
	return func(_ shape, i, n int) quant.Type {
		if i < until(n) {
			return t
		}
		return 0
	}
}

func eighth(n int) int { return n / 8 }

// shared is a type where four query heads or more share a KV head, and another elsewhere.
func shared(yes, no quant.Type) func(shape, int, int) quant.Type {
	return func(s shape, _, _ int) quant.Type {
		if s.sharing >= 4 {
			return yes
		}
		return no
	}
}

var recipes = []recipe{
	{name: "f32", base: quant.F32, fileType: 0}, {name: "f16", base: quant.F16, fileType: 1}, {name: "bf16", base: quant.BF16, fileType: 32},
	{name: "q8_0", base: quant.Q8_0, fileType: 7},
	{name: "q4_0", base: quant.Q4_0, fileType: 2, down: weighed(quant.Q4_1)}, {name: "q4_1", base: quant.Q4_1, fileType: 3},
	{name: "q5_0", base: quant.Q5_0, fileType: 8, down: weighed(quant.Q5_1)}, {name: "q5_1", base: quant.Q5_1, fileType: 9},
	{name: "q2_k", base: quant.Q2_K, fileType: 10, attnV: shared(quant.Q4_K, quant.Q3_K), attnO: always(quant.Q3_K), down: always(quant.Q3_K)},
	{name: "q2_k_s", base: quant.Q2_K, fileType: 21, attnV: shared(quant.Q4_K, 0), down: first(quant.Q4_K, eighth)},
	{name: "q3_k_s", base: quant.Q3_K, fileType: 11},
	{name: "q3_k_m", base: quant.Q3_K, fileType: 12, qkv: always(quant.Q4_K), attnO: always(quant.Q4_K),
		attnV: func(_ shape, i, _ int) quant.Type {
			if i < 2 {
				return quant.Q5_K
			}
			return quant.Q4_K
		},
		down: func(_ shape, i, n int) quant.Type {
			if i < n/16 {
				return quant.Q5_K
			}
			return quant.Q4_K
		}},
	{name: "q3_k_l", base: quant.Q3_K, fileType: 13, qkv: always(quant.Q4_K), attnO: always(quant.Q5_K), attnV: always(quant.Q5_K), down: always(quant.Q5_K)},
	{name: "q4_k_s", base: quant.Q4_K, fileType: 14, attnV: first(quant.Q5_K, func(int) int { return 4 }), down: first(quant.Q5_K, eighth)},
	{name: "q4_k_m", base: quant.Q4_K, fileType: 15, qkv: always(quant.Q5_K), attnV: more(quant.Q6_K), down: more(quant.Q6_K)},
	{name: "q5_k_s", base: quant.Q5_K, fileType: 16},
	{name: "q5_k_m", base: quant.Q5_K, fileType: 17, qkv: always(quant.Q6_K), attnV: more(quant.Q6_K), down: more(quant.Q6_K)},
	{name: "q6_k", base: quant.Q6_K, fileType: 18},
	{name: "iq4_nl", base: quant.IQ4_NL, fileType: 25, attnV: shared(quant.Q5_K, 0), down: unweighed(first(quant.Q5_K, eighth))},
	{name: "iq4_xs", base: quant.IQ4_XS, fileType: 30, attnV: shared(quant.Q5_K, 0), down: unweighed(first(quant.Q5_K, eighth))},
	{name: "mxfp4", base: quant.MXFP4, fileType: 38},
}

// aliases are other names of recipes.
var aliases = map[string]string{"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m"}

// weighed is a type in the first eighth of the layers, if there is an importance.
func weighed(t quant.Type) func(shape, int, int) quant.Type {
	return func(s shape, i, n int) quant.Type {
		if s.weighed && i < n/8 {
			return t
		}
		return 0
	}
}

// unweighed is f unless there is an importance.
func unweighed(f func(shape, int, int) quant.Type) func(shape, int, int) quant.Type {
	return func(s shape, i, n int) quant.Type {
		if s.weighed {
			return 0
		}
		return f(s, i, n)
	}
}

// Recipes are the names that QuantizeOptions.Recipe may have.
func Recipes() []string {
	var names []string
	for _, r := range recipes {
		names = append(names, r.name)
	}
	return names
}

// RecipeName returns the name under which Recipes has a recipe, which may be given in capitals or by another name.
func RecipeName(name string) (string, error) {
	r, err := recipeNamed(name)
	return r.name, err
}

func recipeNamed(name string) (recipe, error) {
	name = strings.ToLower(name)
	if other, ok := aliases[name]; ok {
		name = other
	}
	i := slices.IndexFunc(recipes, func(r recipe) bool { return r.name == name })
	if i < 0 {
		return recipe{}, fmt.Errorf("forge: type %q is not known; known are %s", name, strings.Join(Recipes(), ", "))
	}
	return recipes[i], nil
}

// RecipeTypes returns the types that a recipe gives the weights of a model, without importance, and its number of
// general.file_type. Of the weights it asks for slot, layer, name and shape.
func RecipeTypes(name string, spec *model.Spec, weights []Translated) ([]quant.Type, uint32, error) {
	r, err := recipeNamed(name)
	if err != nil {
		return nil, 0, err
	}
	types := make([]quant.Type, len(weights))
	for i, t := range weights {
		if types[i] = quant.F32; quantisable(t) {
			types[i] = r.typeOf(t, shapeOf(spec, false), spec.TiedHead, len(spec.Layers))
		}
	}
	return types, r.fileType, nil
}

// RecipeOf returns the name of the recipe with a number of general.file_type, "" if there is none.
func RecipeOf(fileType uint32) string {
	for _, r := range recipes {
		if r.fileType == fileType {
			return r.name
		}
	}
	return ""
}

// Override gives the tensors whose names in the written file match a pattern a type of their own.
type Override struct {
	Pattern *regexp.Regexp
	Type    quant.Type
}

// ParseOverride reads PATTERN=TYPE.
func ParseOverride(s string) (Override, error) {
	i := strings.LastIndexByte(s, '=')
	if i < 1 {
		return Override{}, fmt.Errorf("forge: %q is not PATTERN=TYPE", s)
	}
	re, err := regexp.Compile(s[:i])
	if err != nil {
		return Override{}, fmt.Errorf("forge: %q: %w", s, err)
	}
	t, err := quant.Parse(strings.ToUpper(s[i+1:]))
	if err == nil && !slices.ContainsFunc(recipes, func(r recipe) bool { return r.base == t }) {
		err = fmt.Errorf("forge: %v is no type to quantise to", t)
	}
	return Override{re, t}, err
}

// unquantised are slots whose matrices stay as they are: small, or not multiplied with.
var unquantised = []string{"positions", "router", "shared.factor", "delta.conv", "delta.ba", "k.up", "v.up"}

// quantisable reports whether a tensor is a weight that may be quantised.
func quantisable(t Translated) bool {
	return len(t.Shape) > 1 && strings.HasSuffix(t.Name, ".weight") && !slices.Contains(unquantised, t.Slot) && !strings.HasSuffix(t.Slot, "norm")
}

// typeOf returns the type of a weight by the recipe. The head is Q6_K at least, as is an embedding table that stands
// for it.
func (r recipe) typeOf(t Translated, s shape, tied bool, layers int) quant.Type {
	want := r.base
	if r.base.BlockValues() == 1 {
		return r.base
	}
	pick := func(f func(shape, int, int) quant.Type) {
		if f != nil {
			if t := f(s, t.Layer, layers); t != 0 {
				want = t
			}
		}
	}
	switch slot := strings.TrimPrefix(strings.TrimPrefix(t.Slot, "experts."), "shared."); {
	case t.Slot == "head" || t.Slot == "embed" && tied:
		switch {
		case r.base == quant.MXFP4:
			want = quant.Q8_0
		case r.base != quant.Q8_0:
			want = quant.Q6_K
		}
	case t.Slot == "v":
		if pick(r.attnV); s.experts == 8 {
			want = quant.Q8_0
		}
	case t.Slot == "k" && s.experts == 8:
		want = quant.Q8_0
	case t.Slot == "qkv":
		pick(r.qkv)
	case t.Slot == "o":
		pick(r.attnO)
	case slot == "down":
		pick(r.down)
	}
	return fitting(want, t.Shape[len(t.Shape)-1])
}

// fitting returns the type, or the next better one whose blocks a row of so many values fills.
func fitting(t quant.Type, row int) quant.Type {
	for row%t.BlockValues() != 0 {
		switch t {
		case quant.Q2_K, quant.Q3_K, quant.IQ4_XS:
			t = quant.IQ4_NL
		case quant.Q4_K:
			t = quant.Q5_0
		case quant.Q5_K:
			t = quant.Q5_1
		case quant.Q6_K:
			t = quant.Q8_0
		default:
			t = quant.F16
		}
	}
	return t
}
