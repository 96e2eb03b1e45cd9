package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// An index, model.safetensors.index.json or pytorch_model.bin.index.json, maps the names of tensors to the files that
// hold them: {"metadata": {…}, "weight_map": {"tensor": "model-00001-of-00002.safetensors", …}}.

// A placed tensor is one entry of a weight_map.
type placed struct{ tensor, shard string }

// openIndex opens the shards that an index names, which must end in suffix. All their tensors belong to the checkpoint,
// and each tensor of the index must be in the shard that it names.
func openIndex(path, suffix string) (*Checkpoint, error) {
	data, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	entries, err := parseIndex(data, suffix)
	if err != nil {
		return nil, fmt.Errorf("weights: %s: %w", path, err)
	}
	first := map[string]string{} // shard to the first tensor that it is said to hold
	var shards []string
	for _, e := range entries {
		if _, ok := first[e.shard]; !ok {
			first[e.shard] = e.tensor
			shards = append(shards, e.shard)
		}
	}
	slices.Sort(shards)
	dir := filepath.Dir(path)
	var parts []part
	for _, shard := range shards {
		p, err := openPart(filepath.Join(dir, shard))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("weights: %s: shard %q, named for tensor %q, is missing: %w",
				path, shard, first[shard], fs.ErrNotExist)
		}
		if err != nil {
			closeAll(parts)
			return nil, err
		}
		parts = append(parts, p)
	}
	c, err := assemble(dir, parts)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		want := filepath.Join(dir, e.shard)
		i, ok := c.byName[e.tensor]
		if !ok || c.infos[i].File != want {
			c.Close()
			return nil, fmt.Errorf("weights: %s: tensor %q is not in the shard %q that the index names",
				path, e.tensor, e.shard)
		}
	}
	return c, nil
}

func readIndex(path string) ([]byte, error) {
	m, err := openMapping(path)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if len(m.data) > maxHeader {
		return nil, fmt.Errorf("weights: %s: an index of %d bytes, more than the %d allowed", path, len(m.data), maxHeader)
	}
	return slices.Clone(m.data), nil
}

// parseIndex returns the weight_map of an index in its order.
func parseIndex(data []byte, suffix string) ([]placed, error) {
	var index struct {
		WeightMap json.RawMessage `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("not an index of shards: %w", err)
	}
	if index.WeightMap == nil {
		return nil, fmt.Errorf("not an index of shards: it has no weight_map")
	}
	var entries []placed
	seen := map[string]bool{}
	s := &jsonScanner{text: index.WeightMap}
	err := s.object(func(tensor string) error {
		shard, err := s.str()
		if err != nil {
			return fmt.Errorf("tensor %q: %w", tensor, err)
		}
		if seen[tensor] {
			return fmt.Errorf("tensor %q occurs twice", tensor)
		}
		seen[tensor] = true
		if !filepath.IsLocal(shard) || strings.ContainsAny(shard, `\:`) || !strings.HasSuffix(shard, suffix) {
			return fmt.Errorf("tensor %q: shard %q is not a *%s file inside the index's folder", tensor, shard, suffix)
		}
		entries = append(entries, placed{tensor, filepath.Clean(shard)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("weight_map: %w", err)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("weight_map names no tensors")
	}
	return entries, nil
}

func closeAll(parts []part) {
	for i := range parts {
		parts[i].close()
	}
}
