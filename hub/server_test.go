package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const testCommit = "0123456789abcdef0123456789abcdef01234567"

// fakeHub speaks the hub's API: a listing, and files either in place or, as *.safetensors and *.gguf, by redirect to
// a second server. The hooks see each request first and answer it if they return true.
type fakeHub struct {
	files          map[string]string
	commit         string
	hubURL, cdnURL string
	onHub, onCDN   func(w http.ResponseWriter, r *http.Request) bool
	onSibling      func(s map[string]any) // may change one file's entry in the listing
	mu             sync.Mutex
	hubRequests    []string      // method and path
	cdnRequests    []http.Header // of each request to the second server
}

// newHub makes a hub with an in-memory network, so that it can run in a synctest bubble, and a client of it.
func newHub(t *testing.T, files map[string]string) (*fakeHub, *Client) {
	h := &fakeHub{files: files, commit: testCommit, hubURL: "http://hub.test", cdnURL: "http://cdn.test"}
	wire := memoryNet{"hub.test": make(chan net.Conn), "cdn.test": make(chan net.Conn)}
	tr := &http.Transport{DialContext: wire.dial, DialTLSContext: wire.dial}
	for host, handler := range map[string]http.HandlerFunc{"hub.test": h.serveHub, "cdn.test": h.serveCDN} {
		s := &http.Server{Handler: handler}
		go s.Serve(&memoryListener{wire[host], make(chan struct{})})
		t.Cleanup(func() { s.Close() })
	}
	t.Cleanup(tr.CloseIdleConnections)
	return h, &Client{Endpoint: h.hubURL, CacheDir: t.TempDir(), Transport: tr}
}

// memoryNet is a network of pipes, by host name.
type memoryNet map[string]chan net.Conn

func (m memoryNet) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	client, server := net.Pipe()
	select {
	case m[host] <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { close(l.done); return nil }
func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func isLFS(name string) bool {
	return strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".gguf")
}

func etagOf(name, data string) string {
	if isLFS(name) {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(data)))
	}
	return fmt.Sprintf("%x", sha1.Sum([]byte(fmt.Sprintf("blob %d\x00%s", len(data), data))))
}

func (h *fakeHub) serveHub(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.hubRequests = append(h.hubRequests, r.Method+" "+r.URL.Path)
	h.mu.Unlock()
	if h.onHub != nil && h.onHub(w, r) {
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/models/") {
		h.serveListing(w)
		return
	}
	_, name, _ := strings.Cut(r.URL.Path, "/resolve/"+h.commit+"/")
	data, ok := h.files[name]
	if !ok {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		w.WriteHeader(404)
		return
	}
	w.Header().Set("X-Repo-Commit", h.commit)
	if isLFS(name) {
		w.Header().Set("X-Linked-Etag", `"`+etagOf(name, data)+`"`)
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(data)))
		http.Redirect(w, r, h.cdnURL+"/"+name+"?signature=secret", http.StatusFound)
		return
	}
	w.Header().Set("ETag", `"`+etagOf(name, data)+`"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(data))
}

func (h *fakeHub) serveListing(w http.ResponseWriter) {
	siblings := []map[string]any{}
	for name, data := range h.files {
		s := map[string]any{"rfilename": name, "size": len(data), "blobId": strings.Repeat("a", 40)}
		if isLFS(name) {
			s["lfs"] = map[string]any{"sha256": etagOf(name, data), "size": len(data), "pointerSize": 130}
		} else {
			s["blobId"] = etagOf(name, data)
		}
		if h.onSibling != nil {
			h.onSibling(s)
		}
		siblings = append(siblings, s)
	}
	json.NewEncoder(w).Encode(map[string]any{"id": "o/m", "sha": h.commit, "siblings": siblings})
}

func (h *fakeHub) serveCDN(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.cdnRequests = append(h.cdnRequests, r.Header.Clone())
	h.mu.Unlock()
	if h.onCDN != nil && h.onCDN(w, r) {
		return
	}
	w.Header().Set("ETag", `"cdn"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(h.files[strings.TrimPrefix(r.URL.Path, "/")]))
}

// ranges returns what each request to the second server asked for; "" for a whole file.
func (h *fakeHub) ranges() (asked []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.cdnRequests {
		asked = append(asked, r.Get("Range"))
	}
	return asked
}

// asked counts the requests to the hub that begin so ("HEAD /o/m").
func (h *fakeHub) asked(prefix string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.hubRequests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
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
