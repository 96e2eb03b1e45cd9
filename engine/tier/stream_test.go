package tier

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/kv"
)

// TestBlocksTravelByWire sends the blocks of one device to another, which packs them otherwise, and back.
func TestBlocksTravelByWire(t *testing.T) {
	rows, columns := layouts(true), layouts(false)
	about := func(i int) Options {
		l := rows
		if i > 0 {
			l = columns
		}
		return Options{Block: l[0].Bytes, Layouts: l, Model: "a model"}
	}
	var sent [2][]byte // canonical
	blocks := map[kv.Name][]byte{}
	for i := range 2 {
		name, data := block(i)
		blocks[name] = data[:rows[i].Bytes]
		sent[i] = make([]byte, rows[i].CanonicalBytes())
		if err := rows[i].Canonical(sent[i], blocks[name]); err != nil {
			t.Fatal(err)
		}
	}
	for way := range 2 {
		var wire bytes.Buffer
		w, err := NewWriter(&wire, about(way))
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range blocks {
			if err := w.Write(name, data); err != nil {
				t.Fatal(err)
			}
		}
		r, err := NewReader(&wire, about(1-way))
		if err != nil {
			t.Fatal(err)
		}
		came := map[kv.Name][]byte{}
		for {
			dst := make([]byte, rows[0].Bytes)
			name, err := r.Read(dst)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			canonical := make([]byte, len(sent[name.Group]))
			if err := about(1 - way).Layouts[name.Group].Canonical(canonical, dst); err != nil || !bytes.Equal(canonical, sent[name.Group]) {
				t.Errorf("block %v is another one there: %v", name, err)
			}
			came[name] = dst
		}
		if len(came) != len(blocks) {
			t.Fatalf("%d blocks came of %d", len(came), len(blocks))
		}
		blocks = came
	}
}

func TestStreamsAreRefused(t *testing.T) {
	stream := func(o Options) *bytes.Buffer {
		var b bytes.Buffer
		w, err := NewWriter(&b, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(kv.Name{}, make([]byte, o.Block)); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	own := Options{Block: 100, Model: "a model"}
	for want, o := range map[string]Options{
		`it was made for "another"`: {Block: 100, Model: "another"},
		"blocks of 200 bytes":       {Block: 200, Model: "a model"},
	} {
		if _, err := NewReader(stream(o), own); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := NewReader(bytes.NewReader(header(magic, 100, 0, "a model")), own); err == nil {
		t.Error("a file is taken for a stream")
	}
	if _, err := NewWriter(io.Discard, Options{Block: 1, Model: strings.Repeat("m", headerSize)}); err == nil {
		t.Error("a description that is too long is sent")
	}
}

// FuzzStream reads any stream: what it yields has the checksum that it came with.
func FuzzStream(f *testing.F) {
	own := Options{Block: 100, Model: "m"}
	var whole bytes.Buffer
	w, err := NewWriter(&whole, own)
	if err != nil {
		f.Fatal(err)
	}
	for i := range 3 {
		name, data := block(i)
		if err := w.Write(name, data[:100]); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(whole.Bytes()[headerSize:])
	f.Add(whole.Bytes()[headerSize : headerSize+200])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, blocks []byte) {
		r, err := NewReader(io.MultiReader(bytes.NewReader(whole.Bytes()[:headerSize]), bytes.NewReader(blocks)), own)
		if err != nil {
			t.Fatal(err)
		}
		dst, again := make([]byte, 100), &bytes.Buffer{}
		w, err := NewWriter(io.Discard, own)
		if err != nil {
			t.Fatal(err)
		}
		w.to = again
		n := 0
		for {
			name, err := r.Read(dst)
			if err != nil {
				break
			}
			if err := w.Write(name, dst); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if len(blocks) < n*(slotHeader+100) {
			t.Fatalf("%d bytes yield %d blocks", len(blocks), n)
		}
		for i := range n {
			at := i * (slotHeader + 100)
			if !bytes.Equal(again.Bytes()[at+36:][:4], blocks[at+36:][:4]) || !bytes.Equal(again.Bytes()[at+slotHeader:][:100], blocks[at+slotHeader:][:100]) {
				t.Fatalf("block %d is another one than was sent", i)
			}
		}
	})
}
