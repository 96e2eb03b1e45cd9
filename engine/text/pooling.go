package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/weights"
)

// Purpose says in a few words what a model of a Spec is for.
func Purpose(s *model.Spec) string {
	switch {
	case s.Generates():
		return "generates and embeds"
	case s.Classes > 0:
		return "scores pairs of texts"
	}
	return "embeds"
}

// Purpose is that of the model's Spec.
func (m *Model) Purpose() string { return Purpose(m.Spec) }

// readPooling decides how embeddings are made: as asked, as sentence-transformers' files beside the checkpoint say, or
// a GGUF, or else as most models of the kind do. If the files ask for something unsupported, it sets m.pooling.
func (m *Model) readPooling(ckpt *weights.Checkpoint, asked engine.Pooling) error {
	m.Pooling, m.Normalise, m.scores = engine.PoolLast, true, "sigmoid"
	if m.embedder = m.Spec.Encoder || m.Spec.NoHead; m.Spec.Encoder {
		m.Pooling = engine.PoolCLS
	}
	if ckpt.Format() == weights.GGUF {
		m.ggufPooling(ckpt)
	} else {
		m.pooling = m.sentencePooling(ckpt)
		if err := m.readScores(ckpt); err != nil {
			return err
		}
	}
	if m.Spec.Classes > 0 {
		m.pooling = fmt.Errorf("%s %s; it makes no embeddings", m.Name, m.Purpose())
	}
	if asked != "" {
		if !slices.Contains(Poolings(), asked) {
			return fmt.Errorf("text: pooling is %q; want one of %v", asked, Poolings())
		}
		m.Pooling = asked
	}
	return nil
}

// openPooling reads how embeddings are made, and refuses what cannot be served.
func (m *Model) openPooling(ckpt *weights.Checkpoint, o Options) error {
	if err := m.readPooling(ckpt, o.Pooling); err != nil {
		return err
	}
	return m.checkPooling(o.Logger)
}

// checkPooling refuses a model whose only use is embeddings that it cannot make. A decoder still generates, so that is
// only logged.
func (m *Model) checkPooling(log *slog.Logger) error {
	switch {
	case m.pooling == nil || m.Spec.Classes > 0:
		return nil
	case !m.Spec.Generates():
		return fmt.Errorf("text: %s is for embeddings, which cannot be made: %w", m.Name, m.pooling)
	case log != nil:
		log.Warn("requests for embeddings will be refused", "model", m.Name, "reason", m.pooling)
	}
	return nil
}

// Poolings returns what Options.Pooling may be.
func Poolings() []engine.Pooling {
	return []engine.Pooling{engine.PoolMean, engine.PoolCLS, engine.PoolLast}
}

// ggufPooling reads llama.cpp's numbers of ways to pool: 0 is none, 4 the classes of a reranker.
func (m *Model) ggufPooling(ckpt *weights.Checkpoint) {
	arch, _ := ckpt.Metadata()["general.architecture"].(string)
	kinds := map[any]engine.Pooling{uint32(1): engine.PoolMean, uint32(2): engine.PoolCLS, uint32(3): engine.PoolLast}
	if kind, ok := kinds[ckpt.Metadata()[arch+".pooling_type"]]; ok {
		m.Pooling, m.embedder = kind, true
	}
}

// GGUFPooling returns the number by which a GGUF tells how embeddings are made of a checkpoint in safetensors: 0 where
// it is a way that has none.
func GGUFPooling(ckpt *weights.Checkpoint, spec *model.Spec) (uint32, error) {
	m := &Model{Spec: spec}
	err := m.readPooling(ckpt, "")
	switch {
	case err != nil:
		return 0, err
	case spec.Classes > 0:
		return 4, nil
	case m.pooling != nil:
		return 0, nil
	}
	return map[engine.Pooling]uint32{engine.PoolMean: 1, engine.PoolCLS: 2, engine.PoolLast: 3}[m.Pooling], nil
}

// sentencePooling reads modules.json and the configuration of the pooling that it names.
func (m *Model) sentencePooling(ckpt *weights.Checkpoint) error {
	var modules []struct{ Type, Path string }
	if ok, err := readJSON(ckpt, "modules.json", &modules); !ok {
		return err
	}
	m.Normalise, m.embedder = false, true
	for _, module := range modules {
		switch kind := module.Type[strings.LastIndexByte(module.Type, '.')+1:]; kind {
		case "Transformer":
		case "Normalize":
			m.Normalise = true
		case "Pooling":
			var c map[string]any
			name := path.Join(module.Path, "config.json")
			if ok, err := readJSON(ckpt, name, &c); err != nil {
				return err
			} else if !ok {
				return fmt.Errorf("modules.json names %s, which is missing", name)
			}
			if err := m.setPooling(name, c); err != nil {
				return err
			}
		default:
			return fmt.Errorf("modules.json: a module of type %q is not supported in embeddings", module.Type)
		}
	}
	return nil
}

func (m *Model) setPooling(name string, c map[string]any) error {
	modes := map[string]engine.Pooling{
		"pooling_mode_cls_token": engine.PoolCLS, "pooling_mode_mean_tokens": engine.PoolMean,
		"pooling_mode_lasttoken": engine.PoolLast,
		"cls":                    engine.PoolCLS, "mean": engine.PoolMean, "lasttoken": engine.PoolLast,
	}
	var on []string
	if mode, ok := c["pooling_mode"].(string); ok {
		on = append(on, mode)
	}
	for key, v := range c {
		if strings.HasPrefix(key, "pooling_mode_") && v == true {
			on = append(on, key)
		}
	}
	slices.Sort(on)
	if len(on) != 1 || modes[on[0]] == "" {
		return fmt.Errorf("%s: a pooling of %v is not supported; known are the first token, the last, and the mean of all",
			name, on)
	}
	m.Pooling = modes[on[0]]
	return nil
}

// readScores reads what a cross-encoder's logit goes through, a sigmoid if config.json does not say, and the names of
// its classes.
func (m *Model) readScores(ckpt *weights.Checkpoint) error {
	var c struct {
		Old string `json:"sbert_ce_default_activation_function"`
		New struct {
			Activation string `json:"activation_fn"`
		} `json:"sentence_transformers"`
		Labels map[string]string `json:"id2label"`
	}
	if _, err := readJSON(ckpt, "config.json", &c); err != nil {
		return err
	}
	for i := range m.Spec.Classes {
		m.labels = append(m.labels, c.Labels[strconv.Itoa(i)])
	}
	name := c.New.Activation
	if name == "" {
		name = c.Old
	}
	switch kind := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:]); kind {
	case "", "sigmoid":
	case "identity":
		m.scores = kind
	default:
		return fmt.Errorf("text: config.json: an activation of %q is not supported; known are Sigmoid and Identity", name)
	}
	return nil
}

// readJSON reads a file beside a checkpoint, if it is there.
func readJSON(ckpt *weights.Checkpoint, name string, into any) (found bool, err error) {
	data, err := ckpt.Config(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return false, fmt.Errorf("text: %s: %w", name, err)
	}
	return true, nil
}
