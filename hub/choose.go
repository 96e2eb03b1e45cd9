package hub

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// kind is a format of repositories that are folders of files with config.json.
type kind struct{ format, whole, index, suffix string }

// kinds are preferred in this order.
var kinds = []kind{
	{"safetensors", "model.safetensors", "model.safetensors.index.json", ".safetensors"},
	{"pytorch", "pytorch_model.bin", "pytorch_model.bin.index.json", ".bin"},
}

// The files of a LoRA adapter as PEFT names them.
const adapterConfig, adapterFile = "adapter_config.json", "adapter_model.safetensors"

// choice is the files of a repository that make the model.
type choice struct {
	format  string   // "safetensors", "pytorch", "gguf" or "adapter"
	tag     string   // of a GGUF file
	meta    []string // fetched first: once all weights are there, so is everything they need
	weights []string // empty if the index names them
	index   string   // of meta, "" if there is none
}

var (
	shardRE    = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})$`)
	quantRE    = regexp.MustCompile(`(?i)(?:^|_)(I?Q\d+(?:_[A-Z0-9]+)*|TQ\d_\d|B?F16|FP16|F32|FP32|MXFP4(?:_[A-Z]+)?)$`)
	metadataRE = regexp.MustCompile(`^(config|generation_config|special_tokens_map|added_tokens|vocab|tekken)\.json$|` +
		`^(merges|vocab)\.txt$|^tokenizer[^/]*\.(json|model)$|^[^/]*\.model$|^chat_template[^/]*$|` +
		`^additional_chat_templates/[^/]+$|^modules\.json$|^\d+_Pooling/config\.json$|^[^/]*\.tiktoken$`)
	foreignRE = regexp.MustCompile(`^(consolidated|adapter_)|^model\.(fp16|fp32|bf16|fp8|int8)\b`)
	torchRE   = regexp.MustCompile(`^pytorch_model(-\d{5}-of-\d{5})?\.bin$`)
)

// choose picks files from the names in a repository (or a snapshot). With a tag it picks a GGUF file with all its
// shards. Without one it picks the first that exists of: safetensors, PyTorch files, a LoRA adapter, the GGUF file of
// the first tag present of Q4_K_M, Q4_0 and Q8_0, the only GGUF file.
func choose(names []string, tag string) (choice, error) {
	groups, err := ggufGroups(names)
	if err != nil {
		return choice{}, err
	}
	if tag == "" {
		for _, k := range kinds {
			if c, ok := k.choose(names); ok {
				return c, nil
			}
		}
		if slices.Contains(names, adapterConfig) && slices.Contains(names, adapterFile) {
			return choice{format: "adapter", meta: []string{adapterConfig}, weights: []string{adapterFile}}, nil
		}
		for _, t := range []string{"Q4_K_M", "Q4_0", "Q8_0"} {
			if found := withTag(groups, t); len(found) == 1 {
				return found[0].choice()
			}
		}
		if len(groups) == 1 {
			return groups[0].choice()
		}
		if len(groups) == 0 {
			return choice{}, fmt.Errorf("%w: neither config.json with *.safetensors or pytorch_model.bin nor a *.gguf file", ErrNotFound)
		}
		return choice{}, fmt.Errorf("%w: no default among its GGUF files; name one as :TAG of %s", ErrNotFound, tagList(groups))
	}
	found := withTag(groups, tag)
	switch {
	case len(found) == 1:
		return found[0].choice()
	case len(found) > 1:
		return choice{}, fmt.Errorf("%w: tag %s fits several files, name one of them instead: %s", ErrNotFound, tag, stems(found))
	case len(groups) == 0:
		return choice{}, fmt.Errorf("%w: tag %s asks for a GGUF file and there is none", ErrNotFound, tag)
	}
	return choice{}, fmt.Errorf("%w: no GGUF file has the tag %s; there are %s", ErrNotFound, tag, tagList(groups))
}

// choose picks from the top folder only; a repository without config.json is no such model.
func (k kind) choose(names []string) (choice, bool) {
	c := choice{format: k.format}
	config, whole := false, false
	for _, n := range names {
		switch {
		case n == k.index:
			c.index = n
			c.meta = append(c.meta, n)
		case metadataRE.MatchString(n):
			c.meta = append(c.meta, n)
			config = config || n == "config.json"
		case strings.HasSuffix(n, k.suffix) && !strings.Contains(n, "/") && !foreignRE.MatchString(n) && (k.suffix != ".bin" || torchRE.MatchString(n)):
			c.weights = append(c.weights, n)
			whole = whole || n == k.whole
		}
	}
	if c.index != "" {
		c.weights = nil
	} else if whole {
		c.weights = []string{k.whole}
	}
	return c, config && (c.index != "" || len(c.weights) > 0)
}

// indexed reads the file names out of a sharded checkpoint's index in dir; every one must be among names.
func (c choice) indexed(dir string, names []string) ([]string, error) {
	index, err := readSmall(filepath.Join(dir, c.index))
	if err != nil {
		return nil, err
	}
	var doc struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", c.index, err)
	}
	have := map[string]bool{}
	for _, n := range names {
		have[n] = true
	}
	seen := map[string]bool{}
	var files []string
	for _, f := range doc.WeightMap {
		if seen[f] {
			continue
		}
		if !have[f] {
			return nil, fmt.Errorf("%s: %w: it names the file %q, which is not there", c.index, ErrNotFound, f)
		}
		seen[f] = true
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: %w: weight_map names no file", c.index, ErrNotFound)
	}
	sort.Strings(files)
	return files, nil
}

// group is one GGUF model: a file, or its shards in order.
type group struct {
	stem, tag string // path without shard suffix and .gguf
	files     []string
	shards    int // as the names say; 0 for a single file
}

func (g group) choice() (choice, error) {
	if g.shards != 0 && len(g.files) != g.shards {
		return choice{}, fmt.Errorf("%w: %s.gguf has %d shards and only %d are there", ErrNotFound, g.stem, g.shards, len(g.files))
	}
	tag := g.tag
	if tag == "" {
		tag = path.Base(g.stem)
	}
	return choice{format: "gguf", tag: tag, weights: g.files}, nil
}

func ggufGroups(names []string) ([]group, error) {
	byStem := map[string]*group{}
	for _, n := range names {
		stem, ok := strings.CutSuffix(n, ".gguf")
		base := strings.ToLower(path.Base(stem))
		if !ok || strings.Contains(base, "mmproj") || strings.HasPrefix(base, "imatrix") {
			continue
		}
		shards := 0
		if m := shardRE.FindStringSubmatch(stem); m != nil {
			stem = m[1]
			shards, _ = strconv.Atoi(m[3])
		}
		key := fmt.Sprintf("%s %d", stem, shards)
		g := byStem[key]
		if g == nil {
			g = &group{stem: stem, tag: quantTag(stem), shards: shards}
			byStem[key] = g
		}
		g.files = append(g.files, n)
	}
	var out []group
	for _, g := range byStem {
		sort.Strings(g.files)
		if g.shards != 0 && len(g.files) > g.shards {
			return nil, fmt.Errorf("%s.gguf: %d shards are there and the names say %d", g.stem, len(g.files), g.shards)
		}
		out = append(out, *g)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].stem < out[j].stem })
	return out, nil
}

// quantTag finds the last quant tag in a file name, or else in the folder's; in upper case, as usual.
func quantTag(stem string) string {
	for _, part := range []string{path.Base(stem), path.Base(path.Dir(stem))} {
		words := strings.FieldsFunc(part, func(r rune) bool { return r == '-' || r == '.' })
		for i := len(words) - 1; i >= 0; i-- {
			m := quantRE.FindStringSubmatch(words[i])
			if m == nil {
				continue
			}
			if i > 0 && strings.EqualFold(words[i-1], "UD") {
				return "UD-" + strings.ToUpper(m[1])
			}
			return strings.ToUpper(m[1])
		}
	}
	return ""
}

func withTag(groups []group, tag string) []group {
	var found []group
	want := strings.TrimSuffix(strings.ToLower(tag), ".gguf")
	for _, g := range groups {
		if strings.EqualFold(g.tag, tag) || strings.ToLower(path.Base(g.stem)) == want {
			found = append(found, g)
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, g := range groups {
		if strings.EqualFold(g.tag, "UD-"+tag) {
			found = append(found, g)
		}
	}
	return found
}

func stems(groups []group) string {
	var s []string
	for _, g := range groups {
		s = append(s, path.Base(g.stem))
	}
	return strings.Join(s, ", ")
}

func tagList(groups []group) string {
	seen := map[string]bool{}
	var s []string
	for _, g := range groups {
		t := g.tag
		if t == "" {
			t = path.Base(g.stem)
		}
		if !seen[t] {
			seen[t] = true
			s = append(s, t)
		}
	}
	return strings.Join(s, ", ")
}
