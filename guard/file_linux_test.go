package guard_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// TestReadFile holds that no kind of file keeps its reader, and that errors name it.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	os.WriteFile(at("small"), []byte("1234"), 0o600)
	os.WriteFile(at("large"), []byte("12345"), 0o600)
	os.Symlink(at("link"), at("link"))
	syscall.Mkfifo(at("nobody"), 0o600)
	syscall.Mkfifo(at("silent"), 0o600)
	w, err := os.OpenFile(at("silent"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for path, want := range map[string]string{
		at("small"): "", at("large"): "more than 4 bytes", at("none"): "no such file", at("link"): "too many levels", dir: "is a directory",
		at("silent"): "timeout", "/dev/zero": "more than 4 bytes",
	} {
		data, err := guard.ReadFile(path, 4, time.Millisecond)
		if want == "" && (err != nil || string(data) != "1234") {
			t.Errorf("%s: %q, %v", path, data, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v; want its name and %q", path, err, want)
		}
	}
	if data, err := guard.ReadFile(at("nobody"), 4, time.Minute); err != nil || len(data) > 0 {
		t.Errorf("a pipe that nobody writes to: %q, %v", data, err)
	}
	w.WriteString("123")
	go func() {
		w.WriteString("4")
		w.Close()
	}()
	if data, err := guard.ReadFile(at("silent"), 4, time.Minute); err != nil || !strings.HasPrefix("1234", string(data)) || len(data) < 3 {
		t.Errorf("a pipe: %q, %v", data, err)
	}
}
