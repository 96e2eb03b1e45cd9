package tier

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvasir-llm/kvasir/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const size = 5000

func block(i int) (kv.Name, []byte) {
	n := kv.Name{Group: int8(i % 3), Adapted: i%2 == 0}
	binary.LittleEndian.PutUint64(n.Hash[5:], uint64(i)+1)
	data := make([]byte, size)
	r := rand.New(rand.NewPCG(uint64(i), 1))
	for j := range data {
		data[j] = byte(r.Uint32())
	}
	return n, data
}

func open(t *testing.T, dir string, blocks int64) *Disk {
	t.Helper()
	d, err := OpenDisk(dir, headerSize+blocks*2*align, size, "a model")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func put(t *testing.T, d *Disk, slot int32, i int) {
	t.Helper()
	name, data := block(i)
	if !d.Put(slot, name, func(dst []byte) { copy(dst, data) }) {
		t.Fatalf("block %d is not taken", i)
	}
}

// get fails if a slot yields anything but what is stored under the name that it claims.
func get(t *testing.T, d *Disk, slot int32) bool {
	t.Helper()
	name := d.Names()[slot]
	if name == (kv.Name{}) {
		return false
	}
	dst := make([]byte, size)
	if d.Get(slot, name, dst) != nil {
		return false
	}
	want, data := block(int(binary.LittleEndian.Uint64(name.Hash[5:])) - 1)
	if name != want || !bytes.Equal(dst, data) {
		t.Fatalf("slot %d yields other contents than were stored as %v", slot, name)
	}
	return true
}

func TestDisk(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, 8)
	for i := range 20 {
		put(t, d, int32(i%8), i)
		if !get(t, d, int32(i%8)) {
			t.Fatalf("block %d is not there at once", i)
		}
	}
	if _, err := OpenDisk(dir, 1<<20, size, "a model"); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opened twice: %v", err)
	}
	d.Sync()
	for slot := range int32(8) {
		if !get(t, d, slot) {
			t.Errorf("slot %d is not there once it is written", slot)
		}
	}
	if other, _ := block(1); d.Get(0, other, make([]byte, size)) == nil {
		t.Error("a slot yields a block of another name")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, 6) // smaller
	defer d.Close()
	for slot := range int32(6) {
		if want, _ := block(12 + (int(slot)+4)%8); d.Names()[slot] != want || !get(t, d, slot) {
			t.Errorf("slot %d after opening again: %v; want %v", slot, d.Names()[slot], want)
		}
	}
}

func TestDiskOfAnotherModel(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, 2).Close()
	_, err := OpenDisk(dir, 1<<20, size, "another model")
	if err == nil || !strings.Contains(err.Error(), `"a model"`) || !strings.Contains(err.Error(), `"another model"`) {
		t.Errorf("a file of another model: %v", err)
	}
	if _, err := OpenDisk(dir, 1<<20, size+1, "a model"); err == nil || !strings.Contains(err.Error(), "5000") {
		t.Errorf("blocks of another size: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte("something else"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDisk(dir, 1<<20, size, "a model"); err == nil {
		t.Error("a file that is none is opened")
	}
	if _, err := OpenDisk(t.TempDir(), 5000, size, "a model"); err == nil || !strings.Contains(err.Error(), "5000") {
		t.Errorf("a file too small for a block: %v", err)
	}
}

// Whatever a crash leaves, and whatever happens to a file, a slot yields what was stored under its name or nothing: parts of
// slots are replaced by what was there before, by zeros, by noise or by other slots, and the file is cut.
func TestDamagedDisk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	good, bad := 0, 0
	for range 200 {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		d := open(t, dir, 8)
		for i := range 8 {
			put(t, d, int32(i), r.IntN(50))
		}
		d.Sync()
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			put(t, d, int32(i), r.IntN(50))
		}
		d.Close()
		now, _ := os.ReadFile(path)
		for range r.IntN(6) {
			from, n := headerSize+r.IntN(len(now)-headerSize), 1+r.IntN(6000)
			part := now[from:min(from+n, len(now))]
			switch r.IntN(4) {
			case 0:
				copy(part, before[from:])
			case 1:
				clear(part)
			case 2:
				part[r.IntN(len(part))] ^= 1 << r.IntN(8)
			case 3:
				copy(part, now[headerSize+r.IntN(len(now)-headerSize):])
			}
		}
		if r.IntN(3) == 0 {
			now = now[:headerSize+r.IntN(len(now)-headerSize)]
		}
		if err := os.WriteFile(path, now, 0); err != nil {
			t.Fatal(err)
		}
		d = open(t, dir, 8)
		for slot := range int32(8) {
			if get(t, d, slot) {
				good++
			} else {
				bad++
			}
		}
		d.Close()
	}
	if good == 0 || bad == 0 {
		t.Errorf("%d slots survived, %d did not: this shows little", good, bad)
	}
}

func TestHost(t *testing.T) {
	h := NewHost(3*size+1, size)
	if h.Slots() != 3 {
		t.Fatalf("%d slots", h.Slots())
	}
	name, data := block(4)
	h.Put(2, name, func(dst []byte) { copy(dst, data) })
	if got, err := h.Get(2, name); err != nil || !bytes.Equal(got, data) {
		t.Errorf("a stored block: %v", err)
	}
	if other, _ := block(5); func() error { _, err := h.Get(2, other); return err }() == nil {
		t.Error("a slot yields a block of another name")
	}
	h.slot(2)[17] ^= 1
	if _, err := h.Get(2, name); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a damaged block: %v", err)
	}
}
