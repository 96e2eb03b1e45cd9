package loader

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/model/family"
)

// peftConfig is how adapter_config.json describes the matrices beside it. Patterns are regular expressions.
type peftConfig struct {
	r               int
	alpha           float64
	rsLoRA          bool
	ranks, alphas   []pattern
	target, exclude func(module string) bool
	layers          []int // layers_to_transform; nil is all
}

// pattern gives a value to the modules whose name, or an end of it at a dot, matches.
type pattern struct {
	expr  *regexp.Regexp
	value float64
}

// peftTraining are keys of adapter_config.json that say how an adapter was trained or stored, not what it computes.
// fan_in_fan_out says how the base stores its weights; the adapter's matrices are the same either way.
var peftTraining = []string{
	"auto_mapping", "base_model_name_or_path", "corda_config", "ensure_weight_tying", "eva_config", "fan_in_fan_out",
	"inference_mode", "loftq_config", "lora_dropout", "lora_ga_config", "megatron_config", "megatron_core", "peft_version",
	"qalora_group_size", "revision", "runtime_config", "task_type",
}

// readPEFT reads an adapter as PEFT writes it: adapter_config.json beside tensors named
// base_model.model.<module>.lora_A.weight and lora_B.weight.
func (r *adapterReader) readPEFT() error {
	data, err := r.ckpt.Config("adapter_config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no adapter_config.json beside it")
	}
	if err != nil {
		return err
	}
	cfg, err := parsePEFT(data)
	if err != nil {
		return fmt.Errorf("adapter_config.json: %w", err)
	}
	r.name(r.layout.Slots, family.PrefixedNames)
	pairs, err := r.pairs(peftName)
	if err != nil {
		return err
	}
	for path, p := range sorted(pairs) {
		if !cfg.targets(path, r.layerOf(path)) {
			return fmt.Errorf("tensor %q: adapter_config.json does not target %s", cmp.Or(p.a.Name, p.b.Name), path)
		}
		rank, alpha := int(lookup(cfg.ranks, path, float64(cfg.r))), lookup(cfg.alphas, path, cfg.alpha)
		if p.a.Name != "" && p.a.Shape[0] != rank {
			return fmt.Errorf("tensor %q has shape %v; adapter_config.json gives %s the rank %d", p.a.Name, p.a.Shape, path, rank)
		}
		scale := alpha / float64(rank)
		if cfg.rsLoRA {
			scale = alpha / math.Sqrt(float64(rank))
		}
		if err := r.add(path, p, scale); err != nil {
			return err
		}
	}
	return nil
}

// peftName splits the name of a tensor. Older files name the adapter too: lora_A.default.weight.
func peftName(name string) (module string, isB, ok bool) {
	name = strings.TrimPrefix(name, "base_model.model.")
	for i, mark := range []string{".lora_A.", ".lora_B."} {
		if module, rest, found := strings.Cut(name, mark); found && (rest == "weight" || rest == "default.weight") {
			return module, i == 1, true
		}
	}
	return "", false, false
}

// name enters the modules by the names that a slot's tensor may have.
func (r *adapterReader) name(slots family.Slots, names func(string) []string) {
	modules := r.m.Modules()
	for i := range modules {
		m := &modules[i]
		if slots[m.Slot] == "" {
			continue
		}
		for _, name := range names(slots.Name(m.Slot, m.Layer)) {
			if !slices.Contains(r.names[name], m) {
				r.names[name] = append(r.names[name], m)
			}
		}
	}
}

// layerOf returns the layer of a module, -1 if the model has none of that name.
func (r *adapterReader) layerOf(path string) int {
	if found := r.names[path]; len(found) > 0 {
		return found[0].Layer
	}
	return -1
}

// parsePEFT reads an adapter_config.json and refuses what would change the adapter's meaning.
func parsePEFT(data []byte) (*peftConfig, error) {
	var values map[string]any
	if err := json.Unmarshal(data, &values); err != nil {
		return nil, err
	}
	c := family.NewConfig("adapter_config.json", values)
	if kind := c.Text("peft_type"); kind != "LORA" {
		c.Fail("\"peft_type\" is %q, which is not supported; want \"LORA\"", kind)
	}
	c.Refuse("bias", "none")
	out := &peftConfig{r: c.IntOr("r", 8), alpha: c.FloatOr("lora_alpha", 8), rsLoRA: c.BoolOr("use_rslora", false)}
	if out.r < 1 || out.r > 1<<20 {
		c.Fail("\"r\" is %d; want 1 to %d", out.r, 1<<20)
	}
	out.ranks, out.alphas = patterns(c, "rank_pattern"), patterns(c, "alpha_pattern")
	for _, p := range out.ranks {
		if p.value != math.Trunc(p.value) || p.value < 1 || p.value > 1<<20 {
			c.Fail("\"rank_pattern\" gives a rank of %v; want a whole number from 1 on", p.value)
		}
	}
	if init, ok := c.Get("init_lora_weights").(string); ok && !slices.Contains([]string{"gaussian", "eva", "orthogonal"}, init) {
		c.Fail("\"init_lora_weights\" is %q, which changes the base weights too and is not supported; convert the adapter to plain LoRA", init)
	}
	out.target, out.exclude = modules(c, "target_modules"), modules(c, "exclude_modules")
	if _, isList := c.Get("layers_to_transform").([]any); isList || !c.Has("layers_to_transform") {
		out.layers = c.Ints("layers_to_transform")
	} else {
		out.layers = []int{c.Int("layers_to_transform")}
	}
	c.Get("layers_pattern") // names the list of layers in module names, of which there is one
	for _, key := range c.Unread() {
		if !slices.Contains(peftTraining, key) && !empty(c.Get(key)) {
			c.Refuse(key)
		}
	}
	return out, c.Err()
}

// empty reports whether a value means that something is not used.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// patterns reads an object of numbers by regular expressions. The longest expression comes first, so that the order,
// which JSON objects lack, is fixed.
func patterns(c *family.Config, key string) []pattern {
	object, _ := c.Sub(key)
	keys := slices.SortedFunc(slices.Values(object.Unread()), func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var out []pattern
	for _, k := range keys {
		expr, err := regexp.Compile(`^(.*\.)?(` + k + `)$`)
		if err != nil {
			c.Fail("%q: %v", key, err)
			return nil
		}
		out = append(out, pattern{expr, object.FloatOr(k, 0)})
	}
	return out
}

// lookup returns the value of the first pattern that matches a module.
func lookup(patterns []pattern, module string, otherwise float64) float64 {
	for _, p := range patterns {
		if p.expr.MatchString(module) {
			return p.value
		}
	}
	return otherwise
}

// modules reads which modules a key names: a list of ends of names, a regular expression, or "all-linear".
func modules(c *family.Config, key string) func(module string) bool {
	v := c.Get(key)
	if text, ok := v.(string); ok && text == "all-linear" {
		return func(string) bool { return true }
	} else if ok {
		expr, err := regexp.Compile(`^(?:` + text + `)$`)
		if err != nil {
			c.Fail("%q: %v", key, err)
			return nil
		}
		return expr.MatchString
	}
	if v == nil {
		return nil
	}
	ends := c.Texts(key)
	return func(module string) bool {
		return slices.ContainsFunc(ends, func(end string) bool { return module == end || strings.HasSuffix(module, "."+end) })
	}
}

// targets reports whether the configuration names a module, which belongs to a layer. Without target_modules it names
// all that there are.
func (c *peftConfig) targets(module string, layer int) bool {
	return (c.target == nil || c.target(module)) && (c.exclude == nil || !c.exclude(module)) &&
		(c.layers == nil || layer < 0 || slices.Contains(c.layers, layer))
}

// sorted iterates over pairs by name, so that errors are deterministic.
func sorted(pairs map[string]*pair) iter.Seq2[string, *pair] {
	return func(yield func(string, *pair) bool) {
		for _, path := range slices.Sorted(maps.Keys(pairs)) {
			if !yield(path, pairs[path]) {
				return
			}
		}
	}
}
