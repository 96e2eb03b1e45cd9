package weights

import (
	"errors"
	"fmt"
	"os"
)

// A mapping is a whole file as bytes.
type mapping struct {
	path  string
	data  []byte
	unmap func([]byte) error // nil for bytes that need no release
	file  *os.File           // nil: data is in memory
}

// openMapping maps the file at path, which must be a regular file with something in it.
func openMapping(path string) (mapping, error) {
	st, err := os.Stat(path)
	if err != nil {
		return mapping{}, fmt.Errorf("weights: %w", err)
	}
	if !st.Mode().IsRegular() { // opening a pipe would wait for its other end
		return mapping{}, fmt.Errorf("weights: %s: not a regular file but %v", path, st.Mode())
	}
	f, err := os.Open(path)
	if err != nil {
		return mapping{}, fmt.Errorf("weights: %w", err)
	}
	keep := false
	defer func() {
		if !keep {
			f.Close()
		}
	}()
	if st, err = f.Stat(); err != nil {
		return mapping{}, fmt.Errorf("weights: %w", err)
	}
	switch size := st.Size(); {
	case size == 0:
		return mapping{}, fmt.Errorf("weights: %s: the file is empty", path)
	case size != int64(int(size)):
		return mapping{}, fmt.Errorf("weights: %s: %d bytes are more than this machine can address", path, size)
	}
	data, unmap, err := mapFile(f, int(st.Size()))
	if err != nil {
		return mapping{}, fmt.Errorf("weights: %s: %w", path, err)
	}
	m := mapping{path: path, data: data, unmap: unmap}
	if keep = unmap != nil; keep {
		m.file = f
	}
	return m, nil
}

func (m *mapping) close() error {
	data, file := m.data, m.file
	m.data, m.file = nil, nil
	if m.unmap == nil || data == nil {
		return nil
	}
	err := m.unmap(data)
	if file != nil {
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("weights: %s: unmapping: %w", m.path, err)
	}
	return nil
}
