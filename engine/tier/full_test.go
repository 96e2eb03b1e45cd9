package tier

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/kv"
)

// scarce is a file on a disk that takes so many more bytes.
type scarce struct {
	blockFile
	mu   sync.Mutex
	left int
}

var errScarce = errors.New("no space left on device, as it were")

func (s *scarce) WriteAt(b []byte, at int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.blockFile.WriteAt(b[:min(len(b), s.left)], at)
	s.left -= n
	if n < len(b) && err == nil {
		err = errScarce
	}
	return n, err
}

// soon lets a tier that has failed try again at once.
func (d *disk) soon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.again = time.Time{}
}

// fills puts blocks into the slots of a tier until one is not stored, and returns that slot. Those before it are there,
// the failure is told and counted, and the next block is not taken.
func fills(t *testing.T, d *disk) int32 {
	t.Helper()
	before := d.Errors()
	for slot := range int32(len(d.names)) {
		put(t, d, slot, int(slot))
		if d.Sync() == nil {
			continue
		}
		if d.Errors() != before+1 || d.Names()[slot] != (kv.Name{}) {
			t.Errorf("%d failures are counted, %d before; slot %d holds %v", d.Errors(), before, slot, d.Names()[slot])
		}
		if name, data := block(99); d.Put(slot, name, data) {
			t.Error("a block is taken right after one has failed")
		}
		for at := range slot {
			if !get(t, d, at) {
				t.Errorf("slot %d is lost", at)
			}
		}
		return slot
	}
	t.Fatal("all blocks are stored")
	return 0
}

// goesOn holds that a tier that has failed stores a block again in a slot.
func goesOn(t *testing.T, d *disk, slot int32) {
	t.Helper()
	before := d.Errors()
	d.soon()
	put(t, d, slot, 50)
	if err := d.Sync(); err != nil || !get(t, d, slot) || d.Errors() != before {
		t.Errorf("%v; %d failures, %d before", err, d.Errors(), before)
	}
}

// TestFullDisk holds that a disk that is full, also in the middle of a block, loses only what it does not take; that
// this is counted and told once; that writing goes on when the disk takes it again; and that no half of a block is read
// after a restart.
func TestFullDisk(t *testing.T) {
	for _, room := range []int{0, 1, slotHeader, slotHeader + size/2, 2*align + 100, 3*(slotHeader+size) - 1} {
		var log strings.Builder
		dir := t.TempDir()
		d := open(t, dir, 8)
		d.log = slog.New(slog.NewTextHandler(&log, nil))
		disk := &scarce{blockFile: d.file, left: room}
		d.file = disk
		slot := fills(t, d)
		if want := int32(room / (slotHeader + size)); slot != want {
			t.Errorf("a disk with room for %d bytes takes %d blocks; want %d", room, slot, want)
		}
		d.soon()
		put(t, d, slot, 51)
		d.Sync()
		disk.mu.Lock()
		disk.left = 1 << 20
		disk.mu.Unlock()
		if slot < 7 {
			goesOn(t, d, slot+1)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if text := log.String(); strings.Count(text, "cannot be stored") != 1 || strings.Count(text, "as it were") != 1 || strings.Count(text, "stored again") != 1 {
			t.Errorf("the log says %q", text)
		}
		d = open(t, dir, 8)
		if get(t, d, slot) {
			t.Errorf("slot %d, of which a part was written, yields a block", slot)
		}
		d.Close()
	}
}

// TestNoFile holds that a tier whose file cannot be made takes nothing, says so, and makes it later.
func TestNoFile(t *testing.T) {
	var log strings.Builder
	dir := filepath.Join(t.TempDir(), "blocks")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := openDisk(dir, headerSize+8*2*align, newForm(size, nil), "a model", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	name, data := block(1)
	if d.Errors() != 1 || d.Slots() != 8 || d.Put(0, name, data) || !strings.Contains(log.String(), dir) {
		t.Errorf("%d failures; the log says %q", d.Errors(), log.String())
	}
	d.soon()
	put(t, d, 0, 1)
	if d.Sync() == nil || d.Errors() != 2 {
		t.Errorf("%d failures, the last %v", d.Errors(), d.failed)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	goesOn(t, d, 3)
	if err := d.Close(); err != nil || !strings.Contains(log.String(), "stored again") {
		t.Errorf("%v; the log says %q", err, log.String())
	}
	d = open(t, dir, 8)
	defer d.Close()
	if !get(t, d, 3) {
		t.Error("what it stored then is not there after a restart")
	}
}
