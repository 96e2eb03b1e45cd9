package web

import (
	"io/fs"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func get(target string, header ...string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest("GET", target, nil), httptest.NewRecorder()
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	Handler().ServeHTTP(w, r)
	return w
}

// TestHeaders holds that the page and its files come with their types, the policy and an ETag that spares a second
// copy.
func TestHeaders(t *testing.T) {
	for target, kind := range map[string]string{
		"/":                         "text/html; charset=utf-8",
		"/web/app.js":               "text/javascript; charset=utf-8",
		"/web/style.css":            "text/css; charset=utf-8",
		"/docs":                     "text/html; charset=utf-8",
		"/web/docs.js":              "text/javascript; charset=utf-8",
		"/web/vendor/Temml.woff2":   "font/woff2",
		"/web/vendor/markdown.js":   "",
		"/web/../web.go":            "",
		"/web/":                     "",
		"/web/vendor/LICENSE.temml": "",
	} {
		w := get(target)
		if kind == "" {
			if w.Code != 404 {
				t.Errorf("%s: status %d; want 404", target, w.Code)
			}
			continue
		}
		h := w.Header()
		if w.Code != 200 || h.Get("Content-Type") != kind || w.Body.Len() == 0 {
			t.Errorf("%s: status %d, %s, %d bytes; want 200, %s", target, w.Code, h.Get("Content-Type"), w.Body.Len(), kind)
		}
		for name, want := range map[string]string{"Content-Security-Policy": policy, "Cache-Control": "no-cache",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q; want %q", target, name, h.Get(name), want)
			}
		}
		again := get(target, "If-None-Match", h.Get("ETag"))
		if again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s with its ETag %s: status %d, %d bytes; want 304 and none", target, h.Get("ETag"), again.Code, again.Body.Len())
		}
		if w := get(target, "If-None-Match", `"other"`); w.Code != 200 {
			t.Errorf("%s with another ETag: status %d; want 200", target, w.Code)
		}
	}
}

func TestPolicyHasNoHoles(t *testing.T) {
	for _, hole := range []string{"unsafe-", "*", "http:", "https:", "data:", "blob:"} {
		if strings.Contains(policy, hole) {
			t.Errorf("the policy allows %s", hole)
		}
	}
}

// outside finds what a page would load from elsewhere, and what the policy forbids it.
var outside = regexp.MustCompile(`(?i)(src|href)\s*=\s*["']?(https?:)?//|@import|url\(["']?(https?:)?//|\son[a-z]+\s*=\s*["']|` +
	`\sstyle\s*=\s*["']|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function`)

// named finds the files that a page or a module asks for.
var named = regexp.MustCompile(`(?:src|href)="(web/[^"]+)"|from "(\./[^"]+)"|import "(\./[^"]+)"`)

// TestFiles holds that our own files load nothing from elsewhere, make no HTML of strings, and ask only for files that
// there are.
func TestFiles(t *testing.T) {
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Dir(name) != "static" {
			return err
		}
		body, err := static.ReadFile(name)
		for n, line := range strings.Split(string(body), "\n") {
			if m := outside.FindString(line); m != "" {
				t.Errorf("%s:%d has %q", name, n+1, m)
			}
			for _, m := range named.FindAllStringSubmatch(line, -1) {
				want := path.Join("static", strings.TrimPrefix(m[1], "web/"), m[2], m[3])
				if _, err := static.Open(want); err != nil {
					t.Errorf("%s:%d asks for %s, which is not there", name, n+1, want)
				}
			}
		}
		if n := strings.Count(string(body), "\n"); n > 600 {
			t.Errorf("%s has %d lines; split it, at most 600", name, n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWanted(t *testing.T) {
	for accept, want := range map[string]bool{
		"":    false,
		"*/*": false,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
		"application/json, text/html;q=0.5":                               true,
		"text/html;q=0":                                                   false,
		"text/plain":                                                      false,
		"text/html;q":                                                     false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		if Wanted(r) != want {
			t.Errorf("Accept %q: %v; want %v", accept, !want, want)
		}
	}
}

func FuzzWanted(f *testing.F) {
	f.Add("text/html;q=0.9,*/*")
	f.Fuzz(func(t *testing.T, accept string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", accept)
		if Wanted(r) && !strings.Contains(strings.ToLower(accept), "text/html") {
			t.Errorf("Accept %q wants a page", accept)
		}
	})
}
