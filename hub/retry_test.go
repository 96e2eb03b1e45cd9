package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A server may fall silent before its answer or within it, at any of the three kinds of request.
func TestSilentServer(t *testing.T) {
	isListing := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }
	for what, tc := range map[string]struct {
		method string
		body   string // sent before the silence
		silent func(r *http.Request) bool
		prefix string // of the reason
	}{
		"listing":           {"GET", "", isListing, ""},
		"within listing":    {"GET", `{"sha":`, isListing, ""},
		"head":              {"HEAD", "", func(r *http.Request) bool { return true }, ""},
		"file":              {"GET", "", func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "config.json") }, ""},
		"within redirected": {"GET", "weig", func(r *http.Request) bool { return r.Host == "cdn.test" }, "cut after 4 bytes: "},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, c := newHub(t, small)
				h.onSibling = func(s map[string]any) {
					if s["rfilename"] == "tokenizer.json" {
						delete(s, "blobId")
					}
				}
				var asked atomic.Int32
				once := func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != tc.method || !tc.silent(r) || asked.Add(1) > 1 {
						return false
					}
					if tc.body != "" {
						io.WriteString(w, tc.body)
						w.(http.Flusher).Flush()
					}
					<-r.Context().Done()
					return true
				}
				h.onHub, h.onCDN = once, once
				var reasons []string
				start := time.Now()
				_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, func(e Event) {
					if e.State == Retrying {
						reasons = append(reasons, e.Reason.Error())
					}
				})
				if err != nil || asked.Load() != 2 {
					t.Fatalf("%v after %d requests", err, asked.Load())
				}
				if len(reasons) != 1 || reasons[0] != tc.prefix+"the server was silent for 60 s" {
					t.Errorf("reasons %q", reasons)
				}
				if took := time.Since(start); took < time.Minute || took > 61*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// A server that sends a little every 50 s is slow, not silent.
func TestSlowServer(t *testing.T) { synctest.Test(t, testSlowServer) }

func testSlowServer(t *testing.T) {
	h, c := newHub(t, map[string]string{"m.gguf": "abcdef"})
	slowly := func(w http.ResponseWriter, text string) bool {
		for part := range strings.SplitSeq(text, "") {
			time.Sleep(50 * time.Second)
			io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
		return true
	}
	leavePart(t, c, "m.gguf", "abcdef", "ab")
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Range", "bytes 2-5/6")
		w.WriteHeader(http.StatusPartialContent)
		return slowly(w, "cdef")
	}
	h.onHub = func(w http.ResponseWriter, r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, "/api/") && slowly(w, fmt.Sprintf(
			`{"sha":%q,"siblings":[{"rfilename":"m.gguf","lfs":{"sha256":%q,"size":6}}]}`, testCommit, etagOf("m.gguf", "abcdef")))
	}
	_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, func(e Event) {
		time.Sleep(3 * time.Minute) // and so may the disk be, or the observer
	})
	if err != nil || len(h.ranges()) != 1 || h.asked("") != 2 {
		t.Errorf("%v after %d requests to the hub, %d to the second server", err, h.asked(""), len(h.ranges()))
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": 0, "-3": 0, "soon": 0, "": 0, "99999999999999999999": 0, "300": 5 * time.Minute,
		"Sat, 01 Jan 2000 00:00:40 GMT": 40 * time.Second,
		"Fri, 31 Dec 1999 23:00:00 GMT": 0,
	} {
		synctest.Test(t, func(t *testing.T) { // whose clock begins with the year 2000
			h, c := newHub(t, small)
			var at []time.Time
			h.onHub = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, "/api/") {
					return false
				}
				if at = append(at, time.Now()); len(at) > 1 {
					return false
				}
				w.Header().Set("Retry-After", header)
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			}
			pull(t, c, "o/m")
			waited := at[1].Sub(at[0])
			if want > 0 && waited != want || want == 0 && (waited < 250*time.Millisecond || waited >= 500*time.Millisecond) {
				t.Errorf("Retry-After %q: waited %v", header, waited)
			}
		})
	}
}

func TestRetryAfterTooLong(t *testing.T) { synctest.Test(t, testRetryAfterTooLong) }

func testRetryAfterTooLong(t *testing.T) {
	for _, header := range []string{"301", "2000000000", "Sat, 01 Jan 2000 01:00:00 GMT"} {
		h, c := newHub(t, small)
		h.onHub = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
		if err == nil || !strings.Contains(err.Error(), "asks to wait") || h.asked("") != 1 {
			t.Errorf("Retry-After %q: %v after %d requests", header, err, h.asked(""))
		}
	}
}

// The pauses double from 0.5 s to 30 s, and up to half of each is left to chance.
func TestBackoff(t *testing.T) { synctest.Test(t, testBackoff) }

func testBackoff(t *testing.T) {
	var at []time.Time
	err := retry(t.Context(), func(Event) {}, Event{}, func() (bool, error) {
		at = append(at, time.Now())
		return false, temporary{errors.New("no"), 0}
	})
	if len(at) != tries || err == nil || err.Error() != fmt.Sprintf("gave up after %d tries: no", tries) {
		t.Fatalf("%v after %d tries", err, len(at))
	}
	for i := 1; i < len(at); i++ {
		full := 500 * time.Millisecond << (i - 1)
		if p := at[i].Sub(at[i-1]); p < full/2 || p >= full {
			t.Errorf("pause %d lasted %v, not between %v and %v", i, p, full/2, full)
		}
	}
	for failed, full := range map[int]time.Duration{1: time.Second / 2, 6: 16 * time.Second, 7: 30 * time.Second, 200: 30 * time.Second} {
		for range 100 {
			if p := backoff(failed); p < full/2 || p >= full {
				t.Errorf("after %d failures: %v", failed, p)
			}
		}
	}
}

// Progress gives a transfer its tries back.
func TestProgressResetsTries(t *testing.T) { synctest.Test(t, testProgressResetsTries) }

func testProgressResetsTries(t *testing.T) {
	n := 0
	err := retry(t.Context(), func(Event) {}, Event{}, func() (bool, error) {
		n++
		return n <= 20, temporary{errors.New("no"), 0}
	})
	if err == nil || n != 20+tries-1 {
		t.Errorf("%v after %d tries", err, n)
	}
}

func TestStopsWhileWaiting(t *testing.T) { synctest.Test(t, testStopsWhileWaiting) }

func testStopsWhileWaiting(t *testing.T) {
	h, c := newHub(t, small)
	h.onHub = func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(500); return true }
	ctx, stop := context.WithCancel(context.Background())
	_, err := c.Pull(ctx, Name{Repo: "o/m"}, func(e Event) {
		if e.State == Retrying {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) || h.asked("") != 1 {
		t.Errorf("%v after %d requests", err, h.asked(""))
	}
}

// The token goes to the hub's own scheme, host and port, and nowhere else.
func TestTokenStaysHome(t *testing.T) {
	for _, tc := range []struct {
		endpoint, address string
		shown             bool
	}{
		{"https://hub.test", "https://hub.test/o/m", true},
		{"https://hub.test/mirror", "https://hub.test/mirror/o/m", true},
		{"http://hub.test:8080", "http://hub.test:8080/o/m", true},
		{"http://hub.test:8080", "http://hub.test:8081/o/m", false},
		{"http://hub.test:8080", "http://hub.test/o/m", false},
		{"https://hub.test", "http://hub.test/o/m", false},
		{"https://hub.test", "https://cdn.hub.test/o/m", false},
		{"https://hub.test", "https://hub.test.evil/o/m", false},
		{"https://hub.test", "https://hub.test@evil/o/m", false},
	} {
		shown := ""
		c := &Client{Endpoint: tc.endpoint, Transport: roundTrip(func(r *http.Request) { shown = r.Header.Get("Authorization") })}
		req, err := http.NewRequest("GET", tc.address, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer hf_secret")
		if _, err := (stripAuth{c}).RoundTrip(req); err == nil {
			t.Error("no request was made")
		}
		if (shown != "") != tc.shown {
			t.Errorf("endpoint %s: %s was shown %q", tc.endpoint, tc.address, shown)
		}
	}
}

// roundTrip is a transport that looks at each request and fails.
type roundTrip func(r *http.Request)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { f(r); return nil, io.EOF }

// The token reaches the hub and no second host; loops and the way from https to http are refused.
func TestRedirects(t *testing.T) {
	for to, want := range map[string]string{
		"https://hub.test/elsewhere/": "", // as a renamed repository
		"https://cdn.test/":           "",
		"https://hub.test/o/":         "more than 10 redirects",
		"http://cdn.test/":            "redirect from https to http (cdn.test)",
		"http://hub.test/x/":          "redirect from https to http (hub.test)",
	} {
		synctest.Test(t, func(t *testing.T) {
			h, c := newHub(t, small)
			c.Endpoint, c.Token = "https://hub.test", "hf_secret"
			h.cdnURL = "https://cdn.test"
			asked := 0
			h.onHub = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Authorization") != "Bearer hf_secret" {
					t.Errorf("%s: %s came without the token", to, r.URL)
				}
				if r.Header.Get("Referer") != "" {
					t.Errorf("%s: Referer %q", to, r.Header.Get("Referer"))
				}
				if !strings.HasSuffix(r.URL.Path, "model.safetensors") || strings.Contains(r.URL.Path, "elsewhere") {
					return false
				}
				asked++
				_, rest, _ := strings.Cut(r.URL.Path, "/o/")
				if strings.Contains(to, "cdn") {
					rest = "model.safetensors"
				}
				http.Redirect(w, r, to+rest, http.StatusTemporaryRedirect)
				return true
			}
			_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
			switch {
			case want == "" && err != nil:
				t.Errorf("%s: %v", to, err)
			case want != "" && (!errors.Is(err, errBadReply) || !strings.Contains(err.Error(), want)):
				t.Errorf("%s: %v", to, err)
			case strings.Contains(want, "http (") && asked != 1, asked > maxRedirects+1:
				t.Errorf("%s: asked %d times", to, asked)
			}
			for _, r := range h.cdnRequests {
				if r.Get("Authorization") != "" {
					t.Errorf("%s: the second host was shown the token", to)
				}
			}
		})
	}
}
