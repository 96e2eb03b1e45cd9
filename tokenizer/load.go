package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxFileSize   = 1 << 28 // bytes; the largest vocabularies of the field take 40 MB
	maxConfigSize = 1 << 26
)

// Load reads a tokenizer from a file (tokenizer.json, tokenizer.model of SentencePiece or of tiktoken ranks,
// *.tiktoken, tekken.json) or from a model's folder; if that has several, tokenizer.json is preferred. Load also reads
// tokenizer_config.json, special_tokens_map.json, generation_config.json and config.json beside it, if they exist. The
// contents of a file decide its kind.
func Load(path string) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if info.IsDir() {
		if path, err = findIn(path); err != nil {
			return nil, err
		}
	}
	data, err := readFile(path, maxFileSize)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	cfg, err := readConfig(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	t, err := load(data, filepath.Base(path), cfg)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	return t, nil
}

// findIn picks the tokenizer file of a folder.
func findIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("tokenizer: %w", err)
	}
	for _, pattern := range []string{"tokenizer.json", "tekken.json", "tokenizer.model", "*.model", "*.tiktoken",
		"tokenizer.model.v*", "*.model.v*"} {
		var found []string
		for _, e := range entries {
			if ok, _ := filepath.Match(pattern, e.Name()); ok && !e.IsDir() {
				found = append(found, e.Name())
			}
		}
		if len(found) > 0 {
			slices.Sort(found)
			return filepath.Join(dir, found[len(found)-1]), nil
		}
	}
	return "", fmt.Errorf("tokenizer: %s holds no tokenizer.json, tekken.json, tokenizer.model or *.tiktoken: %w", dir, fs.ErrNotExist)
}

// load detects the kind of a file by its contents.
func load(data []byte, name string, cfg config) (*Tokenizer, error) {
	trimmed := bytes.TrimLeft(data, " \t\r\n\uFEFF")
	switch {
	case len(trimmed) == 0:
		return nil, errors.New("the file is empty")
	case trimmed[0] == '{':
		var probe struct {
			Vocab json.RawMessage `json:"vocab"`
			Model json.RawMessage `json:"model"`
		}
		if err := json.Unmarshal(trimmed, &probe); err != nil {
			return nil, err
		}
		if probe.Model == nil && len(probe.Vocab) > 0 && probe.Vocab[0] == '[' {
			return loadTekken(trimmed, cfg)
		}
		return loadHF(trimmed, cfg)
	case looksLikeRanks(data):
		return loadTiktoken(data, strings.ToLower(name), cfg)
	}
	return loadSPM(data, cfg)
}

func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, err
}
