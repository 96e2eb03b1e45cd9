package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(childPulls); name != "" {
		os.Exit(childPull(name))
	}
	goleak.VerifyTestMain(m)
}

var small = map[string]string{
	"config.json": "{}", "tokenizer.json": `{"a":1}`, "README.md": "no", "pytorch_model.bin": "no",
	"model.safetensors": strings.Repeat("weights", 1000), "consolidated.safetensors": "no",
}

var quants = map[string]string{
	"m-Q4_K_M.gguf": "kkkk", "m-q8_0.gguf": "8888", "mmproj-m-F16.gguf": "no",
	"IQ2_XS/m-IQ2_XS-00001-of-00002.gguf": "one", "IQ2_XS/m-IQ2_XS-00002-of-00002.gguf": "two",
}

// leavePart puts what an earlier pull of the file may have left, and returns the part's path.
func leavePart(t *testing.T, c *Client, name, whole, part string) string {
	t.Helper()
	blobs := filepath.Join(c.folder("o/m"), "blobs")
	if err := os.MkdirAll(blobs, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(blobs, etagOf(name, whole)+".incomplete")
	if err := os.WriteFile(path, []byte(part), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func pull(t *testing.T, c *Client, name string) string {
	t.Helper()
	n, err := ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	path, err := c.Pull(context.Background(), n, nil)
	if err != nil {
		t.Fatal(err)
	}
	found, ok, err := c.Lookup(n)
	if err != nil || !ok || found != path {
		t.Fatalf("Lookup = %q, %v, %v; Pull = %q", found, ok, err, path)
	}
	return path
}

func TestPullSafetensors(t *testing.T) { synctest.Test(t, testPullSafetensors) }

func testPullSafetensors(t *testing.T) {
	h, c := newHub(t, small)
	c.Token = "hf_secret"
	dir := pull(t, c, "o/m")
	names, err := present(dir)
	if err != nil || !slices.Equal(names, []string{"config.json", "model.safetensors", "tokenizer.json"}) {
		t.Fatalf("snapshot holds %v, %v", names, err)
	}
	for _, name := range names {
		data, _ := os.ReadFile(filepath.Join(dir, name))
		link, _ := os.Readlink(filepath.Join(dir, name))
		if string(data) != small[name] || link != filepath.Join("../../blobs", etagOf(name, small[name])) {
			t.Errorf("%s: %d bytes behind %q", name, len(data), link)
		}
	}
	if ref, _ := os.ReadFile(filepath.Join(c.CacheDir, "models--o--m/refs/main")); string(ref) != testCommit {
		t.Errorf("refs/main = %q", ref)
	}
	for _, r := range h.cdnRequests {
		if r.Get("Authorization") != "" || r.Get("Referer") != "" {
			t.Errorf("the second host was shown %v", r)
		}
	}
	before := len(h.ranges())
	pull(t, c, "o/m")
	if len(h.ranges()) != before {
		t.Error("a cached file was fetched again")
	}
}

func TestPullByTag(t *testing.T) { synctest.Test(t, testPullByTag) }

func testPullByTag(t *testing.T) {
	for name, want := range map[string]string{
		"o/m": "m-Q4_K_M.gguf", "o/m:q4_k_m": "m-Q4_K_M.gguf", "o/m:Q8_0": "m-q8_0.gguf",
		"o/m:IQ2_XS": "IQ2_XS/m-IQ2_XS-00001-of-00002.gguf",
	} {
		_, c := newHub(t, quants)
		if got := pull(t, c, name); !strings.HasSuffix(got, testCommit+"/"+want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	_, c := newHub(t, quants)
	_, err := c.Pull(context.Background(), Name{Repo: "o/m", Tag: "Q5_0"}, nil)
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "IQ2_XS, Q4_K_M, Q8_0") {
		t.Errorf("an unknown tag: %v", err)
	}
}

// A connection may be cut after any byte, in this process or the one before.
func TestResumeAtAnyByte(t *testing.T) { synctest.Test(t, testResumeAtAnyByte) }

func testResumeAtAnyByte(t *testing.T) {
	undated := struct{ testing.TB }{t} // a bubble has no deadline to tell
	rapid.Check(undated, func(rt *rapid.T) {
		data := small["model.safetensors"]
		h, c := newHub(t, small)
		at := rapid.IntRange(0, len(data)).Draw(rt, "cut")
		kept := rapid.IntRange(0, len(data)).Draw(rt, "kept")
		honoursRange := rapid.Bool().Draw(rt, "range")
		leavePart(t, c, "model.safetensors", data, data[:kept])
		first := true
		h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
			if first {
				first = false
				cut(w, "200 OK", fmt.Sprintf("Content-Length: %d\r\nETag: \"cdn\"\r\n", len(data)), data[:at])
				return true
			}
			if !honoursRange {
				r.Header.Del("Range")
			}
			return false
		}
		path, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
		if err != nil {
			rt.Fatal(err)
		}
		if got, _ := os.ReadFile(filepath.Join(path, "model.safetensors")); string(got) != data {
			rt.Fatalf("%d bytes of %d, or others", len(got), len(data))
		}
	})
}

func TestWrongSum(t *testing.T) { synctest.Test(t, testWrongSum) }

func testWrongSum(t *testing.T) {
	h, c := newHub(t, small)
	served := 0
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		served++
		w.Write([]byte(strings.Repeat("WEIGHTS", 1000)))
		return true
	}
	_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
	if !errors.Is(err, ErrChecksum) || served != 2 || !strings.Contains(err.Error(), "model.safetensors") ||
		!strings.Contains(err.Error(), etagOf("model.safetensors", small["model.safetensors"])) {
		t.Fatalf("after %d downloads: %v", served, err)
	}
	if left, _ := filepath.Glob(filepath.Join(c.CacheDir, "models--o--m/blobs/*.incomplete")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	if _, ok, _ := c.Lookup(Name{Repo: "o/m"}); ok {
		t.Error("a model without weights was found")
	}
}

func TestRefusals(t *testing.T) { synctest.Test(t, testRefusals) }

func testRefusals(t *testing.T) {
	for _, tc := range []struct {
		status     int
		code, want string
		is         error
		requests   int
	}{
		{401, "GatedRepo", "HF_TOKEN", ErrDenied, 1},
		{403, "GatedRepo", "accept its terms", ErrDenied, 1},
		{404, "RepoNotFound", "no repository", ErrNotFound, 1},
		{404, "RevisionNotFound", `no revision "main"`, ErrNotFound, 1},
		{429, "", "429", nil, tries},
		{500, "", "gave up after 6 tries", nil, tries},
	} {
		h, c := newHub(t, small)
		h.onHub = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-Error-Code", tc.code)
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(tc.status)
			return true
		}
		_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
		if err == nil || !strings.Contains(err.Error(), tc.want) || tc.is != nil && !errors.Is(err, tc.is) || h.asked("") != tc.requests {
			t.Errorf("%d %s: %v after %d requests", tc.status, tc.code, err, h.asked(""))
		}
	}
}

func TestEscapingNames(t *testing.T) { synctest.Test(t, testEscapingNames) }

func testEscapingNames(t *testing.T) {
	for _, bad := range []string{"../x.safetensors", "/etc/passwd", `a\b.gguf`, "a/../../b", "a\x00b", "c:x", "a//b"} {
		_, c := newHub(t, map[string]string{"config.json": "{}", "model.safetensors": "w", bad: "x"})
		_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestOfflineListRemove(t *testing.T) { synctest.Test(t, testOfflineListRemove) }

func testOfflineListRemove(t *testing.T) {
	h, c := newHub(t, quants)
	pull(t, c, "o/m:Q4_K_M")
	pull(t, c, "o/m:IQ2_XS")
	c.Offline = true
	asked := h.asked("")
	pull(t, c, "o/m:Q4_K_M")
	if _, err := c.Pull(context.Background(), Name{Repo: "o/m", Tag: "Q8_0"}, nil); !errors.Is(err, ErrOffline) || h.asked("") != asked {
		t.Errorf("offline: %v, %d requests", err, h.asked("")-asked)
	}
	models, err := c.List()
	if err != nil || len(models) != 2 || models[0].Name.String() != "o/m:IQ2_XS" || models[0].Size != 6 || len(models[0].Files) != 2 {
		t.Fatalf("List = %+v, %v", models, err)
	}
	if freed, err := c.Remove(models[0].Name); err != nil || freed != 6 {
		t.Fatalf("Remove = %d, %v", freed, err)
	}
	if freed, err := c.Remove(Name{Repo: "o/m"}); err != nil || freed != 4 {
		t.Fatalf("Remove = %d, %v", freed, err)
	}
	if _, err := os.Stat(filepath.Join(c.CacheDir, "models--o--m")); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if _, err := c.Remove(Name{Repo: "o/m"}); !errors.Is(err, ErrMissing) {
		t.Errorf("a second time: %v", err)
	}
}
