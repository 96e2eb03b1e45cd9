package tier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/kvasir-llm/kvasir/kv"
)

// streamMagic begins a stream of blocks: docs/format/kv-transfer.md.
const streamMagic = "KVASIRKT"

// Writer writes blocks to another engine.
type Writer struct {
	to   io.Writer
	form form
	buf  []byte
}

// NewWriter begins a stream of blocks of a model. Options need neither Spec nor Log.
func NewWriter(to io.Writer, o Options) (*Writer, error) {
	f := newForm(o.Block, o.Layouts)
	if len(o.Model) > headerSize-modelAt {
		return nil, fmt.Errorf("tier: a description of %d bytes; want at most %d", len(o.Model), headerSize-modelAt)
	}
	_, err := to.Write(header(streamMagic, f.most, 0, o.Model))
	return &Writer{to, f, make([]byte, slotHeader+f.most)}, err
}

// Write writes a block, which is as the device packs it.
func (w *Writer) Write(name kv.Name, packed []byte) error {
	buf := w.buf[:slotHeader+w.form.bytes(name.Group)]
	if err := w.form.store(buf[slotHeader:], packed, name.Group); err != nil {
		return err
	}
	fill(buf, name)
	_, err := w.to.Write(buf)
	return err
}

// Reader reads what a Writer has written.
type Reader struct {
	from io.Reader
	form form
	buf  []byte
}

// NewReader reads the beginning of a stream of blocks, and refuses one of another model.
func NewReader(from io.Reader, o Options) (*Reader, error) {
	f := newForm(o.Block, o.Layouts)
	have := make([]byte, headerSize)
	if _, err := io.ReadFull(from, have); err != nil {
		return nil, fmt.Errorf("tier: the beginning of a stream of blocks: %w", err)
	}
	if !intact(streamMagic, have) {
		return nil, errors.New("tier: it is not a stream of blocks, or its header is damaged")
	}
	if reason := difference(have, header(streamMagic, f.most, 0, o.Model)); reason != "" {
		return nil, fmt.Errorf("tier: a stream of blocks is of no use here: %s", reason)
	}
	return &Reader{from, f, make([]byte, slotHeader+f.most)}, nil
}

// Read reads the next block to dst, as the device packs it, verified. It returns io.EOF after the last.
func (r *Reader) Read(dst []byte) (kv.Name, error) {
	h := r.buf[:slotHeader]
	if _, err := io.ReadFull(r.from, h); err == io.EOF {
		return kv.Name{}, err
	} else if err != nil {
		return kv.Name{}, fmt.Errorf("tier: a stream of blocks breaks off: %w", err)
	}
	name, ok := r.form.parse(h)
	if !ok {
		return name, errors.New("tier: the header of a block in a stream is damaged, or of no group of layers")
	}
	block := r.buf[slotHeader:][:r.form.bytes(name.Group)]
	if _, err := io.ReadFull(r.from, block); err != nil {
		return name, fmt.Errorf("tier: a stream breaks off in block %v: %w", name, err)
	}
	sum, err := r.form.read(dst[:r.form.packed], name.Group, bytes.NewReader(block), 0)
	if err != nil {
		return name, err
	}
	if want := binary.LittleEndian.Uint32(h[36:]); sum != want {
		return name, fmt.Errorf("tier: block %v of a stream has the checksum %08x; it was sent with %08x", name, sum, want)
	}
	return name, nil
}
