//go:build !unix

package weights

import (
	"io"
	"os"
)

// mapFile reads the first size bytes of f into memory.
func mapFile(f *os.File, size int) ([]byte, func([]byte) error, error) {
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, nil, err
	}
	return data, nil, nil
}

// notNeeded does nothing: the bytes are all there is.
func notNeeded(m *mapping, from, to int) {}

// soonNeeded does nothing: the bytes are in memory.
func soonNeeded(data []byte) {}
