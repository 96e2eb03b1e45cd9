package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/tokenizer"
	"github.com/kvasir-llm/kvasir/weights"
)

// metadata returns all that a GGUF says beside its tensors. Of a checkpoint that is a GGUF, it is what that says.
func metadata(ckpt *weights.Checkpoint, t *Translation, name string) ([]weights.KV, error) {
	var meta []weights.KV
	if ckpt.Format() == weights.GGUF {
		values := ckpt.Metadata()
		for _, key := range ckpt.MetadataKeys() {
			if !strings.HasPrefix(key, "split.") && key != "general.alignment" {
				meta = append(meta, weights.KV{Key: key, Value: values[key]})
			}
		}
		return meta, nil
	}
	meta = append(t.Meta, weights.KV{Key: "general.type", Value: "model"})
	if name != "" {
		meta = append(meta, weights.KV{Key: "general.name", Value: name})
	}
	if t.Spec.Encoder {
		pooling, err := text.GGUFPooling(ckpt, t.Spec)
		if err != nil {
			return nil, err
		}
		meta = append(meta, weights.KV{Key: t.Meta[0].Value.(string) + ".pooling_type", Value: pooling})
	}
	sampling, err := ggufSampling(ckpt)
	if err != nil {
		return nil, err
	}
	meta = append(meta, sampling...)
	keys, err := tokenizer.ToGGUF(ckpt.Dir(), t.Spec.Vocab)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, key := range sortedKeys(keys) {
		meta = append(meta, weights.KV{Key: key, Value: keys[key]})
	}
	template, err := text.TemplateSource(ckpt)
	if template != "" {
		meta = append(meta, weights.KV{Key: "tokenizer.chat_template", Value: template})
	}
	return meta, err
}

// samplingKeys are the names of recommended sampling in a GGUF, after general.sampling., and in generation_config.json.
var samplingKeys = map[string]string{
	"temp": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "penalty_repeat": "repetition_penalty",
}

// ggufSampling reads generation_config.json.
func ggufSampling(ckpt *weights.Checkpoint) (meta []weights.KV, err error) {
	data, err := ckpt.Config("generation_config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var values map[string]any
	if err == nil {
		err = json.Unmarshal(data, &values)
	}
	if err != nil {
		return nil, fmt.Errorf("forge: generation_config.json: %w", err)
	}
	for _, key := range sortedKeys(samplingKeys) {
		v, ok := values[samplingKeys[key]].(float64)
		if values["do_sample"] == false && key == "temp" {
			v, ok = 0, true
		}
		switch {
		case !ok:
		case key == "top_k":
			meta = append(meta, weights.KV{Key: "general.sampling.top_k", Value: int32(v)})
		default:
			meta = append(meta, weights.KV{Key: "general.sampling." + key, Value: float32(v)})
		}
	}
	return meta, nil
}

// folder returns config.json and the other files that stand beside safetensors.
func folder(ckpt *weights.Checkpoint, t *Translation) (config map[string]any, files map[string][]byte, err error) {
	if ckpt.Format() != weights.GGUF {
		return copied(ckpt)
	}
	meta := ckpt.Metadata()
	config, files = t.Config, map[string][]byte{}
	generation := map[string]any{}
	for key, name := range samplingKeys {
		if v := meta["general.sampling."+key]; v != nil {
			generation[name], generation["do_sample"] = v, true
		}
	}
	if meta["general.sampling.temp"] == float32(0) {
		delete(generation, "temperature")
		generation["do_sample"] = false
	}
	if meta["tokenizer.ggml.model"] != nil {
		tok, err := tokenizer.FromGGUF(meta)
		if err != nil {
			return nil, nil, err
		}
		data, said, err := tokenizer.ToHF(meta)
		if err != nil {
			return nil, nil, err
		}
		if template, ok := meta["tokenizer.chat_template"].(string); ok {
			said["chat_template"] = template
		}
		said["model_max_length"] = t.Spec.Context
		files["tokenizer.json"] = data
		if files["tokenizer_config.json"], err = indented(said); err != nil {
			return nil, nil, err
		}
		generation["eos_token_id"], config["eos_token_id"] = tok.EOS(), tok.EOS()
		if id, ok := tok.BOS(); ok {
			generation["bos_token_id"], config["bos_token_id"] = id, id
		}
	}
	files["generation_config.json"], err = indented(generation)
	return config, files, err
}

// copied returns the files of a folder that are not weights, and config.json read.
func copied(ckpt *weights.Checkpoint) (config map[string]any, files map[string][]byte, err error) {
	entries, err := os.ReadDir(ckpt.Dir())
	if err != nil {
		return nil, nil, err
	}
	files = map[string][]byte{}
	for _, e := range entries {
		name := e.Name()
		kept := slices.Contains([]string{".json", ".model", ".jinja", ".txt", ".tiktoken", ".md"}, filepath.Ext(name)) &&
			!strings.HasSuffix(name, ".index.json") && !strings.HasPrefix(name, ".")
		if e.IsDir() || !kept {
			continue
		}
		if files[name], err = ckpt.Config(name); err != nil {
			return nil, nil, err
		}
	}
	err = json.Unmarshal(files["config.json"], &config)
	return config, files, err
}

func indented(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(data, '\n'), err
}
