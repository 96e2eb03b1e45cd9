package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
)

// A pull that its caller stops leaves what arrived, and the next one asks for the rest only.
func TestInterruptKeepsThePart(t *testing.T) { synctest.Test(t, testInterruptKeepsThePart) }

func testInterruptKeepsThePart(t *testing.T) {
	h, c := newHub(t, small)
	data := small["model.safetensors"]
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		if len(h.ranges()) > 1 {
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
	part := filepath.Join(c.folder("o/m"), "blobs", etagOf("model.safetensors", data)+".incomplete")
	if fi, err := os.Stat(part); err != nil || fi.Size() != 100 {
		t.Fatalf("the part: %v", err)
	}
	pull(t, c, "o/m")
	if got := h.ranges(); !slices.Equal(got, []string{"", "bytes=100-"}) {
		t.Errorf("ranges asked for: %q", got)
	}
}

func TestRangeRefused(t *testing.T) { synctest.Test(t, testRangeRefused) }

func testRangeRefused(t *testing.T) {
	h, c := newHub(t, small)
	leavePart(t, c, "model.safetensors", small["model.safetensors"], "weigh")
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") == "" {
			return false
		}
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return true
	}
	pull(t, c, "o/m")
	if got := h.ranges(); !slices.Equal(got, []string{"bytes=5-", ""}) {
		t.Errorf("ranges asked for: %q", got)
	}
}

// A sum that is wrong because of what an earlier process left is mended by the second download.
func TestStalePartIsMended(t *testing.T) { synctest.Test(t, testStalePartIsMended) }

func testStalePartIsMended(t *testing.T) {
	h, c := newHub(t, small)
	leavePart(t, c, "model.safetensors", small["model.safetensors"], "stale")
	pull(t, c, "o/m")
	if got := h.ranges(); !slices.Equal(got, []string{"bytes=5-", ""}) {
		t.Errorf("ranges asked for: %q", got)
	}
}

// A file that changes on the second server between two tries is begun again, whether or not If-Range is honoured.
func TestChangedBetweenTries(t *testing.T) { synctest.Test(t, testChangedBetweenTries) }

func testChangedBetweenTries(t *testing.T) {
	for _, honours := range []bool{true, false} {
		h, c := newHub(t, small)
		data := small["model.safetensors"]
		h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
			if len(h.ranges()) == 1 {
				cut(w, "200 OK", fmt.Sprintf("Content-Length: %d\r\nETag: \"old\"\r\n", len(data)), "other")
				return true
			}
			if r.Header.Get("Range") != "" && r.Header.Get("If-Range") != `"old"` {
				t.Errorf("If-Range %q", r.Header.Get("If-Range"))
			}
			if !honours {
				r.Header.Del("If-Range")
			}
			return false
		}
		var last error
		_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, func(e Event) {
			if e.State == Retrying {
				last = e.Reason
			}
		})
		want := []string{"", "bytes=5-"}
		if !honours {
			want = append(want, "")
		}
		if err != nil || errors.Is(last, errRestart) == honours {
			t.Errorf("If-Range honoured %v: %v; last retry because %v", honours, err, last)
		}
		if got := h.ranges(); !slices.Equal(got, want) {
			t.Errorf("If-Range honoured %v: ranges asked for: %q", honours, got)
		}
	}
}
