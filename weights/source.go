package weights

import (
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/kvasir-llm/kvasir/quant"
)

// Source is a tensor to be written to a file.
type Source struct {
	Name  string
	Type  quant.Type
	Shape []int // outermost first, as in Info
	// Write writes the tensor's bytes, exactly as many as Type and Shape take. It is called once, in file order, so
	// that a model need not be in memory whole.
	Write func(io.Writer) error
}

// Bytes is the Write of a Source whose bytes are in memory.
func Bytes(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// checkSources returns the size of every tensor in bytes. It refuses tensors that could not be read back.
func checkSources(tensors []Source, wholeRows bool) ([]int64, error) {
	sizes := make([]int64, len(tensors))
	seen := make(map[string]bool, len(tensors))
	for i, t := range tensors {
		switch {
		case t.Name == "" || len(t.Name) > maxName || !utf8.ValidString(t.Name):
			return nil, fmt.Errorf("weights: writing tensor %d: the name %.64q is empty, not UTF-8 or longer than %d bytes",
				i, t.Name, maxName)
		case seen[t.Name]:
			return nil, fmt.Errorf("weights: writing tensor %q: two tensors have this name", t.Name)
		case !t.Type.Valid():
			return nil, fmt.Errorf("weights: writing tensor %q: %v is not a tensor type", t.Name, t.Type)
		}
		seen[t.Name] = true
		for _, d := range t.Shape {
			if d < 0 {
				return nil, fmt.Errorf("weights: writing tensor %q: shape %v has a negative dimension", t.Name, t.Shape)
			}
		}
		size, err := byteSize(t.Type, t.Shape, wholeRows)
		if err != nil {
			return nil, fmt.Errorf("weights: writing tensor %q: %w", t.Name, err)
		}
		sizes[i] = size
	}
	return sizes, nil
}

// writeTo writes the tensor's bytes and makes sure that there are as many as there should be.
func (t Source) writeTo(w io.Writer, size int64) error {
	counted := &limitedWriter{w: w, left: size}
	if err := t.Write(counted); err != nil {
		return fmt.Errorf("weights: writing tensor %q: %w", t.Name, err)
	}
	if counted.left != 0 {
		return fmt.Errorf("weights: writing tensor %q: %d bytes were written of the %d that %v of shape %v takes",
			t.Name, size-counted.left, size, t.Type, t.Shape)
	}
	return nil
}

// A limitedWriter refuses to write more than a number of bytes.
type limitedWriter struct {
	w    io.Writer
	left int64
}

func (l *limitedWriter) Write(b []byte) (int, error) {
	if int64(len(b)) > l.left {
		return 0, fmt.Errorf("%d bytes more than its type and shape take", int64(len(b))-l.left)
	}
	n, err := l.w.Write(b)
	l.left -= int64(n)
	return n, err
}
