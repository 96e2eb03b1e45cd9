//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package tier

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/kv"
)

// TestPrivate holds that nobody else can read what is stored, and that no link leads elsewhere.
func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	open(t, dir, 2).Close()
	for name, want := range map[string]os.FileMode{"": 0o700, fileName: 0o600, fileName + ".lock": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v; want %o", name, info.Mode(), err, want)
		}
	}
	for _, name := range []string{fileName, fileName + ".lock", fileName + ".new"} {
		dir := t.TempDir()
		victim := filepath.Join(t.TempDir(), "victim")
		if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		d, err := openDisk(dir, 1<<20, newForm(size, nil), "a model", quiet)
		if err == nil { // the link was removed, or renamed
			put(t, d, 0, 1)
			d.Close()
		}
		if data, err := os.ReadFile(victim); err != nil || string(data) != "precious" {
			t.Errorf("%s: what it links to has %d bytes, %v", name, len(data), err)
		}
	}
}

// TestFullDisk holds that failing writes lose only their blocks, and that writing goes on when the disk takes it again.
func TestFullDisk(t *testing.T) {
	d := open(t, t.TempDir(), 8)
	file := d.file
	broken, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	broken.Close() // so that every write fails
	name, data := block(1)
	d.file = broken
	if !d.Put(0, name, data) {
		t.Fatal("the first block is not taken")
	}
	d.Sync()
	if d.Errors() != 1 || d.failed == nil || d.names[0] != (kv.Name{}) {
		t.Errorf("%d errors, %v, slot 0 holds %v", d.Errors(), d.failed, d.names[0])
	}
	if d.Put(1, name, data) {
		t.Error("a block is taken right after one has failed")
	}
	d.mu.Lock()
	d.file, d.again = file, time.Time{}
	d.mu.Unlock()
	if !d.Put(1, name, data) {
		t.Error("no block is taken later")
	}
	d.Sync()
	if err := fetch(d, 1, name, make([]byte, size)); err != nil || d.failed != nil || d.Errors() != 1 {
		t.Errorf("%v, %v, %d errors", err, d.failed, d.Errors())
	}
	if err := d.Close(); errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
