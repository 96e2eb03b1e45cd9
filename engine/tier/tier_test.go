package tier

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kvasir-llm/kvasir/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const size = 5000

var quiet = slog.New(slog.DiscardHandler)

func block(i int) (kv.Name, []byte) {
	n := kv.Name{Group: int8(i % 3)}
	binary.LittleEndian.PutUint64(n.Hash[5:], uint64(i)+1)
	data := make([]byte, size)
	r := rand.New(rand.NewPCG(uint64(i), 1))
	for j := range data {
		data[j] = byte(r.Uint32())
	}
	return n, data
}

func open(t *testing.T, dir string, blocks int64) *disk {
	t.Helper()
	d, err := openDisk(dir, headerSize+blocks*2*align, newForm(size, nil), "a model", quiet)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func put(t *testing.T, d *disk, slot int32, i int) {
	t.Helper()
	name, data := block(i)
	if !d.Put(slot, name, data) {
		t.Fatalf("block %d is not taken", i)
	}
}

// fetch gets a block and waits for it.
func fetch(t Tier, slot int32, name kv.Name, dst []byte) error {
	read := make(chan error, 1)
	answer, err := t.Get(slot, name, dst, func(_ time.Duration, err error) { read <- err })
	if answer == Pending {
		err = <-read
	}
	return err
}

// get fails if a slot yields anything but what is stored under the name that it claims.
func get(t *testing.T, d *disk, slot int32) bool {
	t.Helper()
	name := d.Names()[slot]
	if name == (kv.Name{}) {
		return false
	}
	dst := make([]byte, size)
	if fetch(d, slot, name, dst) != nil {
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
	if _, err := openDisk(dir, 1<<20, newForm(size, nil), "a model", quiet); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opened twice: %v", err)
	}
	d.Sync()
	for slot := range int32(8) {
		if !get(t, d, slot) {
			t.Errorf("slot %d is not there once it is written", slot)
		}
	}
	if other, _ := block(1); fetch(d, 0, other, make([]byte, size)) == nil {
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

// A file that was made for another model, block size or version of the format stays beside the one in use.
func TestDiskOfAnotherModel(t *testing.T) {
	for _, test := range []struct {
		model   string
		size    int
		version byte
		want    string
	}{
		{"another model", size, version, `it was made for \"a model\", this is \"another model\"`},
		{"a model", size + 1, version, "it has blocks of 5000 bytes, not 5001"},
		{"a model", size, version + 1, "it has version 2 of the format, not 1"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		d := open(t, dir, 2)
		put(t, d, 0, 0)
		d.Close()
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before[8] = test.version
		if err := os.WriteFile(path, before, 0o644); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		d, err = openDisk(dir, 1<<20, newForm(test.size, nil), test.model, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatalf("%s: %v", test.want, err)
		}
		if i := slices.IndexFunc(d.Names(), func(n kv.Name) bool { return n != kv.Name{} }); i >= 0 {
			t.Errorf("%s: slot %d of the new file holds %v", test.want, i, d.Names()[i])
		}
		d.Close()
		if kept, err := os.ReadFile(path + aside); err != nil || !bytes.Equal(kept, before) {
			t.Errorf("%s: the file set aside has %d bytes, %v; want the %d that there were", test.want, len(kept), err, len(before))
		}
		if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), test.want) || !strings.Contains(log.String(), path+aside) {
			t.Errorf("%s: the log says %q", test.want, log.String())
		}
	}
}

func TestDiskIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte("something else"), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := openDisk(dir, 1<<20, newForm(size, nil), "a model", quiet)
	if err != nil {
		t.Fatalf("a file that is none is in the way: %v", err)
	}
	d.Close()
	if kept, err := os.ReadFile(filepath.Join(dir, fileName+aside)); err != nil || string(kept) != "something else" {
		t.Errorf("the file set aside: %q, %v", kept, err)
	}
	if _, err := openDisk(t.TempDir(), 5000, newForm(size, nil), "a model", quiet); err == nil || !strings.Contains(err.Error(), "5000") {
		t.Errorf("a file too small for a block: %v", err)
	}
}

// Whatever a crash leaves, and whatever happens to a file, a slot yields what was stored under its name or nothing:
// parts of slots are replaced by what was there before, by zeros, by noise or by other slots, and the file is cut.
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
	got := make([]byte, size)
	h.Put(2, name, data)
	if answer, err := h.Get(2, name, got, nil); answer != Hit || err != nil || !bytes.Equal(got, data) {
		t.Errorf("a stored block: %v, %v", answer, err)
	}
	if other, _ := block(5); fetch(h, 2, other, got) == nil {
		t.Error("a slot yields a block of another name")
	}
}

// TestHostMemory stores blocks where they are, in slots of several pieces.
func TestHostMemory(t *testing.T) {
	const size = pieceBytes/2 - 100
	h := NewHost(5*size, size)
	all := map[*byte]int{}
	for i := range int32(5) {
		name, _ := block(int(i))
		h.Put(i, name, bytes.Repeat([]byte{byte(i)}, size))
		h.Vacate(i)
		data, piece := h.Memory(i)
		if all[&piece[0]] = len(piece); len(data) != size || cap(data) != size {
			t.Errorf("slot %d has %d bytes", i, len(data))
		}
		if fetch(h, i, name, data) == nil {
			t.Errorf("slot %d holds what was to be written over", i)
		}
		data[7] = byte(i + 100)
		if !h.Put(i, name, data) || h.Names()[i] != name {
			t.Errorf("slot %d is not taken", i)
		}
	}
	for i := range int32(5) {
		name, _ := block(int(i))
		data, _ := h.Memory(i)
		got := make([]byte, size)
		if fetch(h, i, name, data) != nil || fetch(h, i, name, got) != nil || got[7] != byte(i+100) || got[8] != byte(i) {
			t.Errorf("slot %d: %d, %d", i, got[7], got[8])
		}
	}
	if len(all) != 3 {
		t.Errorf("%d pieces; want 3", len(all))
	}
}

// TestDiskAnswers holds what a disk answers: a block on its way to the file is there at once, one in the file later,
// another's name is missed.
func TestDiskAnswers(t *testing.T) {
	d := open(t, t.TempDir(), 4)
	put(t, d, 1, 1)
	name, data := block(1)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	_, buf := block(1)
	d.pending[1] = &job{1, name, buf}
	d.mu.Unlock()
	dst := make([]byte, size)
	if answer, err := d.Get(1, name, dst, nil); answer != Hit || err != nil || !bytes.Equal(dst, data) {
		t.Errorf("before it is written: %v, %v", answer, err)
	}
	delete(d.pending, 1)
	clear(dst)
	read := make(chan error, 1)
	if answer, err := d.Get(1, name, dst, func(_ time.Duration, err error) { read <- err }); answer != Pending || err != nil {
		t.Errorf("once it is written: %v, %v", answer, err)
	}
	if err := <-read; err != nil || !bytes.Equal(dst, data) {
		t.Errorf("once it is read: %v", err)
	}
	if answer, err := d.Get(2, name, dst, nil); answer != Miss || err == nil {
		t.Errorf("another slot: %v, %v", answer, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestKinds finds what is registered by name.
func TestKinds(t *testing.T) {
	if k, err := KindOf(Spec{Kind: "disk"}); err != nil || !k.Slow || !k.Durable {
		t.Errorf("disk: %+v, %v", k, err)
	}
	if _, err := KindOf(Spec{Kind: "drum"}); err == nil || !strings.Contains(err.Error(), `"disk" "host"`) {
		t.Errorf("drum: %v", err)
	}
}
