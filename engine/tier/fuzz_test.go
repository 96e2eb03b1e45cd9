package tier

import (
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvasir-llm/kvasir/kv"
)

// FuzzOpenDisk opens a file of any contents: it is refused, or every block that it yields has the checksum stored
// with it.
func FuzzOpenDisk(f *testing.F) {
	h := header(magic, 100, align, "m")
	slot := make([]byte, slotHeader+100)
	fill(slot, kv.Name{Group: 1})
	f.Add([]byte{}, []byte{})
	f.Add(h[:200], slot)
	f.Add([]byte(magic), slot[:70])
	f.Fuzz(func(t *testing.T, head, slots []byte) {
		dir := t.TempDir()
		data := append(append(append([]byte{}, head[:min(len(head), headerSize)]...), h[min(len(head), headerSize):]...), slots...)
		if err := os.WriteFile(filepath.Join(dir, fileName), data, 0o644); err != nil {
			t.Fatal(err)
		}
		d, err := openDisk(dir, headerSize+3*align, newForm(100, nil), "m", slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		defer d.Close()
		dst := make([]byte, 100)
		for at, name := range d.Names() {
			if name == (kv.Name{}) || fetch(d, int32(at), name, dst) != nil {
				continue
			}
			again := make([]byte, slotHeader+100)
			copy(again[slotHeader:], dst)
			fill(again, name)
			stored := append(data, make([]byte, headerSize+4*align)...)[headerSize+at*align:] // what is missing is zeros
			if got, want := crc32.Checksum(dst, castagnoli), crc32.Checksum(stored[slotHeader:][:100], castagnoli); got != want || string(again[:slotHeader][36:40]) != string(stored[36:40]) {
				t.Fatalf("slot %d yields a block of checksum %08x, the file has %08x", at, got, want)
			}
		}
	})
}
