package weights

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	indexSuffix = ".index.json"
	stSuffix    = ".safetensors"
	ggufSuffix  = ".gguf"
	binSuffix   = ".bin"
)

// torchFolder is the name of the PyTorch checkpoint in a folder; other files with its suffix are not weights.
const torchFolder = "pytorch_model"

// Open opens the checkpoint at path:
//   - a GGUF file; of a split one, any of its files;
//   - a safetensors or a PyTorch file;
//   - the .safetensors.index.json or .bin.index.json of a sharded one;
//   - a folder that holds one of these.
//
// In a folder the order of preference is safetensors (by its index if there is one), pytorch_model.bin (likewise),
// GGUF; among several files of one kind, the one called model. If that does not decide, the error lists the candidates.
// A file with another suffix is recognised by its first bytes.
func Open(path string) (*Checkpoint, error) {
	c, err := open(path)
	if err == nil {
		c.again = func() (*Checkpoint, error) { return Open(path) }
	}
	return c, err
}

func open(path string) (*Checkpoint, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if st.IsDir() {
		if path, err = pick(path); err != nil {
			return nil, err
		}
	}
	if indexed, ok := strings.CutSuffix(path, indexSuffix); ok {
		if suffix := filepath.Ext(indexed); suffix == stSuffix || suffix == binSuffix {
			return openIndex(path, suffix)
		}
	}
	if prefix, n, ok := splitName(path); ok {
		return openSplits(prefix, n)
	}
	p, err := openPart(path)
	if err != nil {
		return nil, err
	}
	if err := p.checkSplit(0, 1); err != nil {
		p.close()
		return nil, err
	}
	return assemble(filepath.Dir(path), []part{p})
}

// OpenBytes opens a GGUF or safetensors file that is in memory. Tensor returns views of data, which must not change.
// The name stands for the file's path in errors and in Info.File.
func OpenBytes(name string, data []byte) (*Checkpoint, error) {
	p, err := parse(mapping{path: name, data: data})
	if err != nil {
		return nil, err
	}
	if err := p.checkSplit(0, 1); err != nil {
		return nil, err
	}
	c, err := assemble("", []part{p})
	if err == nil {
		c.again = func() (*Checkpoint, error) { return OpenBytes(name, data) }
	}
	return c, err
}

// openPart maps and parses one file.
func openPart(path string) (part, error) {
	m, err := openMapping(path)
	if err != nil {
		return part{}, err
	}
	p, err := parse(m)
	if err != nil {
		m.close()
		return part{}, err
	}
	return p, nil
}

// parse reads a file's header in the format that its name or else its first bytes indicate.
func parse(m mapping) (part, error) {
	var p part
	var err error
	switch {
	case strings.HasSuffix(m.path, ggufSuffix):
		p, err = parseGGUF(m)
	case strings.HasSuffix(m.path, stSuffix):
		p, err = parseSafetensors(m)
	case strings.HasPrefix(string(m.data[:min(4, len(m.data))]), ggufMagic):
		p, err = parseGGUF(m)
	case strings.HasPrefix(string(m.data[:min(4, len(m.data))]), zipMagic), strings.HasPrefix(string(m.data[:min(15, len(m.data))]), legacyMagic):
		p, err = parseTorch(m)
	case len(m.data) > 8 && m.data[8] == '{':
		p, err = parseSafetensors(m)
	default:
		err = fmt.Errorf("neither GGUF (%q at byte 0) nor safetensors ('{' at byte 8) nor PyTorch's (%q at byte 0): begins with %q",
			ggufMagic, zipMagic, m.data[:min(9, len(m.data))])
	}
	if err != nil {
		return part{}, fmt.Errorf("weights: %s: %w", m.path, err)
	}
	return p, nil
}

// pick chooses the checkpoint file of a folder.
func pick(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("weights: %w", err)
	}
	var indexes, tensors, ggufs, torches []string
	splits := map[string]bool{}
	for _, e := range entries {
		switch name := e.Name(); {
		case e.IsDir():
		case name == torchFolder+binSuffix || name == torchFolder+binSuffix+indexSuffix:
			torches = append(torches, name)
		case strings.HasSuffix(name, stSuffix+indexSuffix):
			indexes = append(indexes, name)
		case strings.HasSuffix(name, stSuffix):
			tensors = append(tensors, name)
		case strings.HasSuffix(name, ggufSuffix):
			if prefix, _, ok := splitName(name); ok {
				if splits[prefix] {
					continue
				}
				splits[prefix] = true
			}
			ggufs = append(ggufs, name)
		}
	}
	for _, kind := range []struct {
		preferred string
		names     []string
	}{{"model" + stSuffix + indexSuffix, indexes}, {"model" + stSuffix, tensors},
		{torchFolder + binSuffix + indexSuffix, torches}, {"model" + ggufSuffix, ggufs}} {
		switch {
		case slices.Contains(kind.names, kind.preferred):
			return filepath.Join(dir, kind.preferred), nil
		case len(kind.names) == 1:
			return filepath.Join(dir, kind.names[0]), nil
		case len(kind.names) > 1:
			return "", fmt.Errorf("weights: %s: the folder holds several checkpoints, name one of them: %s",
				dir, strings.Join(kind.names, ", "))
		}
	}
	return "", fmt.Errorf("weights: %s: the folder holds no *%s, *%s, %s or *%s", dir, stSuffix+indexSuffix, stSuffix, torchFolder+binSuffix, ggufSuffix)
}
