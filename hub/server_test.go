package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const testCommit = "0123456789abcdef0123456789abcdef01234567"

// fakeHub speaks the hub's API: a listing, and files either in place or, as *.safetensors and *.gguf, by redirect to
// a second server. The hooks see each request first and answer it if they return true.
type fakeHub struct {
	t           *testing.T
	files       map[string]string
	hub, cdn    *httptest.Server
	onHub       func(w http.ResponseWriter, r *http.Request) bool
	onCDN       func(w http.ResponseWriter, r *http.Request) bool
	mu          sync.Mutex
	cdnAuth     []string
	hubRequests []string
}

func isLFS(name string) bool {
	return strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".gguf")
}

func etagOf(name, data string) string {
	if isLFS(name) {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(data)))
	}
	return fmt.Sprintf("%x", sha1.Sum([]byte(fmt.Sprintf("blob %d\x00%s", len(data), data))))
}

func newHub(t *testing.T, files map[string]string) (*fakeHub, *Client) {
	h := &fakeHub{t: t, files: files}
	h.hub = httptest.NewServer(http.HandlerFunc(h.serveHub))
	h.cdn = httptest.NewServer(http.HandlerFunc(h.serveCDN))
	tr := &http.Transport{}
	t.Cleanup(func() { tr.CloseIdleConnections(); h.hub.Close(); h.cdn.Close() })
	c := &Client{Endpoint: h.hub.URL, CacheDir: t.TempDir(), HTTP: &http.Client{Transport: tr}}
	c.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return h, c
}

func (h *fakeHub) serveHub(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.hubRequests = append(h.hubRequests, r.Method+" "+r.URL.Path)
	h.mu.Unlock()
	if h.onHub != nil && h.onHub(w, r) {
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/models/") {
		siblings := []map[string]any{}
		for name, data := range h.files {
			s := map[string]any{"rfilename": name, "size": len(data), "blobId": strings.Repeat("a", 40)}
			if isLFS(name) {
				s["lfs"] = map[string]any{"sha256": etagOf(name, data), "size": len(data), "pointerSize": 130}
			} else {
				s["blobId"] = etagOf(name, data)
			}
			siblings = append(siblings, s)
		}
		json.NewEncoder(w).Encode(map[string]any{"id": "o/m", "sha": testCommit, "siblings": siblings})
		return
	}
	_, name, _ := strings.Cut(r.URL.Path, "/resolve/"+testCommit+"/")
	data, ok := h.files[name]
	if !ok {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		w.WriteHeader(404)
		return
	}
	w.Header().Set("X-Repo-Commit", testCommit)
	if isLFS(name) {
		w.Header().Set("X-Linked-Etag", `"`+etagOf(name, data)+`"`)
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(data)))
		http.Redirect(w, r, h.cdn.URL+"/"+name+"?signature=secret", http.StatusFound)
		return
	}
	w.Header().Set("ETag", `"`+etagOf(name, data)+`"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(data))
}

func (h *fakeHub) serveCDN(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.cdnAuth = append(h.cdnAuth, r.Header.Get("Authorization"))
	h.mu.Unlock()
	if h.onCDN != nil && h.onCDN(w, r) {
		return
	}
	w.Header().Set("ETag", `"cdn"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(h.files[strings.TrimPrefix(r.URL.Path, "/")]))
}

// cut sends a body's first bytes and closes the connection.
func cut(w http.ResponseWriter, status string, header string, body string) {
	conn, buf, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprintf(buf, "HTTP/1.1 %s\r\n%s\r\n%s", status, header, body)
	buf.Flush()
}
