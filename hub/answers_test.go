package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// A listing may lack sums, sizes or both; the file's own response then has them.
func TestSparseListing(t *testing.T) {
	for what, tc := range map[string]struct {
		strip func(s map[string]any)
		heads int
	}{
		"no sums": {func(s map[string]any) { delete(s, "blobId"); delete(s, "lfs") }, 3},
		"bad sums": {func(s map[string]any) {
			s["blobId"] = "../../x"
			if s["lfs"] != nil {
				s["lfs"] = map[string]any{"sha256": "../../x", "size": 7000}
			}
		}, 3},
		"no sizes": {func(s map[string]any) {
			delete(s, "size")
			if lfs, ok := s["lfs"].(map[string]any); ok {
				delete(lfs, "size")
			}
		}, 3},
		"negative sizes": {func(s map[string]any) { s["size"] = -1 }, 2},
		"names only":     {func(s map[string]any) { delete(s, "blobId"); delete(s, "lfs"); delete(s, "size") }, 3},
		"all":            {func(s map[string]any) {}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, c := newHub(t, small)
				h.onSibling = tc.strip
				dir := pull(t, c, "o/m")
				for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
					if data, err := os.ReadFile(filepath.Join(dir, name)); string(data) != small[name] {
						t.Errorf("%s: %d bytes, %v", name, len(data), err)
					}
				}
				if heads := h.asked("HEAD "); heads != tc.heads {
					t.Errorf("%d HEAD requests, want %d", heads, tc.heads)
				}
			})
		})
	}
}

// Without a sum from anywhere, a file could not be verified.
func TestNoSumAnywhere(t *testing.T) { synctest.Test(t, testNoSumAnywhere) }

func testNoSumAnywhere(t *testing.T) {
	h, c := newHub(t, small)
	h.onSibling = func(s map[string]any) { delete(s, "blobId") }
	h.onHub = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"../../../escape"`)
		return r.Method == "HEAD"
	}
	_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
	if !errors.Is(err, errBadReply) || !strings.Contains(err.Error(), "could not be verified") {
		t.Error(err)
	}
}

// A body may come without a length, in chunks or until the connection closes, and its size may be unknown.
func TestUnknownLength(t *testing.T) {
	data := small["model.safetensors"]
	for what, serve := range map[string]func(w http.ResponseWriter, first bool){
		"chunked": func(w http.ResponseWriter, _ bool) {
			w.(http.Flusher).Flush()
			io.WriteString(w, data)
		},
		"until closed": func(w http.ResponseWriter, _ bool) { cut(w, "200 OK", "", data) },
		"chunked, cut": func(w http.ResponseWriter, first bool) {
			if first {
				cut(w, "200 OK", "Transfer-Encoding: chunked\r\n", "5\r\nweigh\r\n")
			} else {
				io.WriteString(w, data)
			}
		},
		"until closed, cut": func(w http.ResponseWriter, first bool) {
			if first {
				cut(w, "200 OK", "", data[:99])
			} else {
				io.WriteString(w, data)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, c := newHub(t, small)
				h.onSibling = func(s map[string]any) {
					delete(s, "size")
					if lfs, ok := s["lfs"].(map[string]any); ok {
						delete(lfs, "size")
					}
				}
				h.onHub = func(w http.ResponseWriter, r *http.Request) bool {
					if !isLFS(r.URL.Path) {
						return false
					}
					if r.Method == "GET" {
						serve(w, h.asked("GET "+r.URL.Path) == 1)
					} else {
						w.(http.Flusher).Flush() // a HEAD without a length
					}
					return true
				}
				var last Event
				_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, func(e Event) {
					if e.File == "model.safetensors" {
						last = e
					}
				})
				if want := (Event{State: Done, File: "model.safetensors", Done: 7000, Total: 7000}); err != nil || last != want {
					t.Errorf("%v, last event %+v", err, last)
				}
			})
		})
	}
}

// What is not the file is refused by its size or its sum, and never gets a name in the snapshot.
func TestNotTheFile(t *testing.T) {
	page := "<html>Please sign in</html>"
	long := strings.Repeat(page, 1000)
	for what, tc := range map[string]struct {
		serve func(w http.ResponseWriter)
		want  string
		is    error
	}{
		"a sign-in page":           {func(w http.ResponseWriter) { io.WriteString(w, page) }, "7000 bytes in the listing, 27 on the server", errBadReply},
		"a sign-in page in chunks": {func(w http.ResponseWriter) { w.(http.Flusher).Flush(); io.WriteString(w, page) }, "cut after 27 of 7000 bytes", nil},
		"a long page":              {func(w http.ResponseWriter) { w.(http.Flusher).Flush(); io.WriteString(w, long) }, "more than 7000 bytes came", errTooLong},
		"a page of that size":      {func(w http.ResponseWriter) { io.WriteString(w, long[:7000]) }, "found ", ErrChecksum},
		"another range's total": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 0-6999/9000")
			w.WriteHeader(206)
		}, "7000 bytes in the listing, 9000 on the server", errBadReply},
		"another range": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 5-6999/7000")
			w.WriteHeader(206)
			io.WriteString(w, small["model.safetensors"][5:])
		}, "asked for byte 0", errRestart},
		"a compressed body": {func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "br") }, `Content-Encoding "br"`, errBadReply},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, c := newHub(t, small)
				h.onCDN = func(w http.ResponseWriter, r *http.Request) bool { tc.serve(w); return true }
				_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
				if err == nil || !strings.Contains(err.Error(), tc.want) || tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("%v", err)
				}
				if _, err := os.Lstat(filepath.Join(c.snapshot("o/m", testCommit), "model.safetensors")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the snapshot has it: %v", err)
				}
				h.onCDN = nil
				pull(t, c, "o/m") // what it left does no harm later
			})
		})
	}
}

// The hub's own etag at the time of the download must be the listing's.
func TestChangedSinceListing(t *testing.T) { synctest.Test(t, testChangedSinceListing) }

func testChangedSinceListing(t *testing.T) {
	h, c := newHub(t, small)
	h.onHub = func(w http.ResponseWriter, r *http.Request) bool {
		if !isLFS(r.URL.Path) {
			return false
		}
		w.Header().Set("X-Linked-Etag", `"`+strings.Repeat("5", 64)+`"`)
		http.Redirect(w, r, h.cdnURL+"/model.safetensors", http.StatusFound)
		return true
	}
	_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
	if !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), "changed on the server") || len(h.ranges()) != 1 {
		t.Errorf("%v after %d downloads", err, len(h.ranges()))
	}
}

func TestBadListings(t *testing.T) {
	valid := fmt.Sprintf(`{"sha":%q,"siblings":[{"rfilename":"config.json"`, testCommit)
	for listing, want := range map[string]string{
		"":                                   "unexpected end",
		"<html>Please sign in</html>":        "invalid character '<'",
		valid:                                "unexpected end",
		`{"sha":"main","siblings":[]}`:       `commit "main" is not 40 hex digits`,
		`{"sha":"../../../x","siblings":[]}`: "is not 40 hex digits",
		`{"siblings":[]}`:                    "is not 40 hex digits",
		`[]`:                                 "cannot unmarshal array",
		valid + `,"size":"big"}]}`:           "cannot unmarshal string",
		valid + `,"size":1e99}]}`:            "cannot unmarshal number",
		valid + `}]}`:                        "neither config.json with",
		valid + `},{"rfilename":""}]}`:       `file name ""`,
		strings.Repeat("[", 1<<20):           "exceeded max depth",
	} {
		synctest.Test(t, func(t *testing.T) {
			h, c := newHub(t, nil)
			h.onHub = func(w http.ResponseWriter, r *http.Request) bool { io.WriteString(w, listing); return true }
			_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
			if err == nil || !strings.Contains(err.Error(), want) || h.asked("") != 1 {
				t.Errorf("listing %.60q: %v after %d requests", listing, err, h.asked(""))
			}
			if made, _ := os.ReadDir(c.CacheDir); len(made) != 0 {
				t.Errorf("listing %.60q: the cache holds %v", listing, made)
			}
		})
	}
}

// A listing without end is not read to its end.
func TestEndlessListing(t *testing.T) { synctest.Test(t, testEndlessListing) }

func testEndlessListing(t *testing.T) {
	h, c := newHub(t, nil)
	sent := 0
	finished := make(chan struct{})
	h.onHub = func(w http.ResponseWriter, r *http.Request) bool {
		defer close(finished)
		blank := bytes.Repeat([]byte(" "), 1<<20)
		for sent < 4*maxListing {
			n, err := w.Write(blank)
			sent += n
			if err != nil {
				return true
			}
		}
		return true
	}
	_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
	<-finished
	if !errors.Is(err, errBadReply) || !strings.Contains(err.Error(), "more than 67108864 bytes") || sent > maxListing+4<<20 {
		t.Errorf("%v after %d bytes", err, sent)
	}
}
