package tier

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// small mounts a file system of so many bytes. It skips the test where that is not allowed.
func small(t *testing.T, bytes string) string {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+bytes); err != nil {
		t.Skipf("mounting a small file system, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestFullFileSystem is TestFullDisk on a real file system without space: for the file's blocks, which are taken as
// they are written, and at the start for all of the file.
func TestFullFileSystem(t *testing.T) {
	dir := small(t, "256k")
	d := open(t, dir, 100)
	slot := fills(t, d)
	if !errors.Is(d.failed, unix.ENOSPC) || slot < 10 {
		t.Errorf("after %d blocks: %v", slot, d.failed)
	}
	put := func(i int32) { // in place of another, which needs no space
		goesOn(t, d, i)
	}
	put(3)
	ballast := filepath.Join(dir, "ballast")
	if err := errors.Join(d.Close(), os.Remove(filepath.Join(dir, fileName)), os.Remove(filepath.Join(dir, fileName+".lock"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	d = open(t, filepath.Join(dir, "below"), 100)
	if d.file != nil || !errors.Is(d.failed, unix.ENOSPC) || d.Errors() != 1 {
		t.Errorf("opened on a full disk: %v, %d failures", d.failed, d.Errors())
	}
	if err := os.Truncate(ballast, 100<<10); err != nil {
		t.Fatal(err)
	}
	goesOn(t, d, 1)
	if slot := fills(t, d); slot < 5 {
		t.Errorf("it is full after %d blocks", slot)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	goesOn(t, d, 9)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
