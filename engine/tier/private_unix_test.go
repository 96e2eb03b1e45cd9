//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package tier

import (
	"os"
	"path/filepath"
	"testing"
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
		if err != nil {
			t.Errorf("%s is a link: %v", name, err)
			continue
		}
		if d.file != nil { // the link was removed
			put(t, d, 0, 1)
		}
		d.Close()
		if data, err := os.ReadFile(victim); err != nil || string(data) != "precious" {
			t.Errorf("%s: what it links to has %d bytes, %v", name, len(data), err)
		}
	}
}
