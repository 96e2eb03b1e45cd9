package store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func digestOf(data string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data))) }

// TestBlobs holds that a blob is there under its digest once all of it has come, and nothing of it else.
func TestBlobs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	b, err := OpenBlobs(dir, 10)
	if err != nil {
		t.Fatal(err)
	}
	put := func(digest, data string) error { return b.Put(digest, bytes.NewReader([]byte(data))) }
	for _, tt := range []struct {
		digest, data string
		want         error
	}{
		{digestOf("hello"), "hello", nil},
		{digestOf("hello"), "hello", nil}, // again, which takes no place
		{digestOf("other"), "hello", ErrDigest},
		{"sha256:../../x", "x", ErrDigest},
		{digestOf("sixsix"), "sixsix", ErrFull},
		{digestOf("world"), "world", nil},
		{digestOf("!"), "!", ErrFull},
	} {
		if err := put(tt.digest, tt.data); !errors.Is(err, tt.want) {
			t.Errorf("%s %q: %v; want %v", tt.digest, tt.data, err, tt.want)
		}
	}
	for _, digest := range []string{digestOf("nothing"), "hello", "sha256:" + digestOf("hello"), "../blobs"} {
		if path, err := b.Path(digest); err != ErrNotFound {
			t.Errorf("%s: %q, %v", digest, path, err)
		}
	}
	path, err := b.Path(digestOf("world"))
	data, rerr := os.ReadFile(path)
	if err != nil || rerr != nil || string(data) != "world" {
		t.Errorf("%q %v %v", data, err, rerr)
	}
	if info, err := os.Stat(dir); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode is %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("a blob's mode is %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, unfinished+"1"), []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err = OpenBlobs(dir, 10); err != nil || b.held != 10 {
		t.Fatalf("%d bytes are held, %v; want 10", b.held, err)
	}
	if err := b.Remove(path); err != nil || b.held != 5 {
		t.Errorf("%d bytes are held, %v; want 5", b.held, err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%v are left; want one", files)
	}
}
