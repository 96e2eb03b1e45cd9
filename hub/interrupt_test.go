package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A pull that its caller stops leaves what arrived, and the next one asks for the rest only.
func TestInterruptKeepsThePart(t *testing.T) {
	h, c := newHub(t, small)
	data := small["model.safetensors"]
	var ranges []string
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		ranges = append(ranges, r.Header.Get("Range"))
		if len(ranges) > 1 {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Write([]byte(data[:100]))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	ctx, stop := context.WithCancel(context.Background())
	_, err := c.Pull(ctx, Name{Repo: "o/m"}, func(e Event) {
		if e.State == Downloading && e.File == "model.safetensors" && e.Done == 100 {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped: %v", err)
	}
	part := filepath.Join(c.CacheDir, "models--o--m/blobs", etagOf("model.safetensors", data)+".incomplete")
	if fi, err := os.Stat(part); err != nil || fi.Size() != 100 {
		t.Fatalf("the part: %v", err)
	}
	pull(t, c, "o/m")
	if len(ranges) != 2 || ranges[1] != "bytes=100-" {
		t.Errorf("ranges asked for: %q", ranges)
	}
}

func TestSilentConnectionIsCut(t *testing.T) {
	h, c := newHub(t, small)
	c.IdleTimeout = 200 * time.Millisecond
	asked := 0
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		asked++
		if asked > 1 {
			return false
		}
		<-r.Context().Done()
		return true
	}
	pull(t, c, "o/m")
	if asked < 2 {
		t.Errorf("asked %d times", asked)
	}
}

func TestRangeRefused(t *testing.T) {
	h, c := newHub(t, small)
	data := small["model.safetensors"]
	blobs := filepath.Join(c.CacheDir, "models--o--m", "blobs")
	if err := os.MkdirAll(blobs, 0o777); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(blobs, etagOf("model.safetensors", data)+".incomplete")
	if err := os.WriteFile(part, []byte("stale"), 0o666); err != nil {
		t.Fatal(err)
	}
	refused := 0
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") == "" {
			return false
		}
		refused++
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return true
	}
	pull(t, c, "o/m")
	if refused != 1 {
		t.Errorf("refused %d times", refused)
	}
}

// A sum that is wrong because of what an earlier process left is mended by the second download.
func TestStalePartIsMended(t *testing.T) {
	_, c := newHub(t, small)
	data := small["model.safetensors"]
	blobs := filepath.Join(c.CacheDir, "models--o--m", "blobs")
	if err := os.MkdirAll(blobs, 0o777); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(blobs, etagOf("model.safetensors", data)+".incomplete")
	if err := os.WriteFile(part, []byte("stale"), 0o666); err != nil {
		t.Fatal(err)
	}
	pull(t, c, "o/m")
}
