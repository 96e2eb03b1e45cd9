package weights

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
)

// A large GGUF model may be split into files PREFIX-00001-of-0000N.gguf. Each has its number (split.no, from 0) and the
// number of splits (split.count) in its metadata; the first describes the model and counts the tensors of all
// (split.tensors.count).

var splitPattern = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// splitName splits the name of a split into the part before its numbers and the number of splits.
func splitName(path string) (prefix string, count int, ok bool) {
	m := splitPattern.FindStringSubmatch(path)
	if m == nil {
		return "", 0, false
	}
	no, _ := strconv.Atoi(m[2])
	count, _ = strconv.Atoi(m[3])
	return m[1], count, no >= 1 && no <= count
}

// openSplits opens all the files of a split model.
func openSplits(prefix string, count int) (*Checkpoint, error) {
	var parts []part
	for no := range count {
		p, err := openPart(fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, no+1, count))
		if err != nil {
			closeAll(parts)
			return nil, err
		}
		parts = append(parts, p)
		if err := p.checkSplit(no, count); err != nil {
			closeAll(parts)
			return nil, err
		}
	}
	c, err := assemble(filepath.Dir(prefix), parts)
	if err != nil {
		return nil, err
	}
	if want, ok := metaInt(c.meta["split.tensors.count"]); ok && want != len(c.infos) {
		err := fmt.Errorf("weights: %s: split.tensors.count is %d, but the %d splits hold %d tensors",
			c.parts[0].path, want, count, len(c.infos))
		c.Close()
		return nil, err
	}
	return c, nil
}

// checkSplit checks that a file is the split that its name says, counting from 0.
func (p *part) checkSplit(no, count int) error {
	n, ok := metaInt(p.meta["split.count"])
	if p.format != GGUF || !ok {
		n = 1 // a file without it is whole
	}
	if n <= 1 && count == 1 {
		return nil
	}
	if n != count {
		return fmt.Errorf("weights: %s: the file is one of %d splits, but its name says %d", p.path, n, count)
	}
	if i, ok := metaInt(p.meta["split.no"]); !ok || i != no {
		return fmt.Errorf("weights: %s: split.no is %v, expected %d", p.path, p.meta["split.no"], no)
	}
	return nil
}

// metaInt returns a metadata value as an int if it is a whole number.
func metaInt(v any) (int, bool) {
	switch v := v.(type) {
	case uint8:
		return int(v), true
	case int8:
		return int(v), true
	case uint16:
		return int(v), true
	case int16:
		return int(v), true
	case uint32:
		return int(v), true
	case int32:
		return int(v), true
	case uint64:
		return int(v), true
	case int64:
		return int(v), true
	}
	return 0, false
}
