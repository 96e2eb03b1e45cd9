package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestHangUps sends SIGHUP while a server starts, and then with files of keys that do not come, or are none. The server
// goes on, says what was wrong, and reads the file again once it is good.
func TestHangUps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	pipe := func() error { return syscall.Mkfifo(file, 0o600) }
	keys := func(key string) string { return `{"name": "a", "key": "` + key + `"}` }
	if err := pipe(); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(linkKvasir(t), "serve", "--port", "0", "--api-key-file", file)
	p, err := begin(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	soon(t, "the keys to be read", func() bool {
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid))
		for _, f := range open {
			if at, _ := os.Readlink(f); at == file {
				return true
			}
		}
		return false
	})
	cmd.Process.Signal(syscall.SIGHUP)
	w.WriteString(keys("0123456789abcdef"))
	w.Close()
	select {
	case <-p.serving:
	case <-p.ended:
		t.Fatalf("told to read its files again while it starts, the server ends: %v", p.err)
	}
	asks := func(key string) int {
		r, _ := http.NewRequest(http.MethodGet, p.address+"/v1/models", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	soon(t, "the signal from before", func() bool { return p.says("it holds no key") == 1 })
	for i, c := range []struct {
		what string
		make func() error
		says string
	}{
		{"a pipe that nobody writes to", pipe, "it holds no key"},
		{"a folder", func() error { return os.Mkdir(file, 0o700) }, "is a directory"},
		{"no end", func() error { return os.Symlink("/dev/zero", file) }, "has more than"},
		{"no file", func() error { return nil }, "no such file"},
		{"an empty file", func() error { return os.WriteFile(file, nil, 0o600) }, "it holds no key"},
		{"half a line", func() error { return os.WriteFile(file, []byte(keys("fedcba9876543210")[:20]), 0o600) }, "line 1"},
	} {
		os.Remove(file)
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		before := p.says(c.says)
		cmd.Process.Signal(syscall.SIGHUP)
		soon(t, c.what, func() bool { return p.says("the API keys stay as they were") == i+2 && p.says(c.says) > before })
		if asks("0123456789abcdef") != http.StatusOK {
			t.Errorf("%s: the key is lost", c.what)
		}
	}
	os.Remove(file)
	if err := os.WriteFile(file, []byte(keys("fedcba9876543210")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGHUP)
	soon(t, "the new key", func() bool { return asks("fedcba9876543210") == http.StatusOK })
	p.ends(t)
}
