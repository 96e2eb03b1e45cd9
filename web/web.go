// Package web is the page that browsers get at /: a chat, a view of an answer's tokens, and a view of the engine. The
// page is plain HTML, CSS and JavaScript modules in static, without a build step, and asks nothing but this server. The
// Go side serves these files and knows neither models nor the API. Read Handler.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// Prefix is the path below which the page's own files are.
const Prefix = "/web/"

// policy is the page's Content-Security-Policy. A model's answer is hostile text: whatever it contains, the browser
// runs and loads nothing but the files of this package, turns no string into HTML (Trusted Types), and talks to no
// other server. https://www.w3.org/TR/CSP3
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// types are the kinds of files there are. The system's own table of types may lack some or say otherwise.
var types = map[string]string{
	".html":  "text/html; charset=utf-8",
	".css":   "text/css; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".svg":   "image/svg+xml",
	".woff2": "font/woff2",
}

// file is one file of the page.
type file struct {
	body []byte
	kind string // its Content-Type
	etag string
}

// Handler serves the page for every path outside Prefix, and its files below. A file is cached by browsers and
// revalidated with its ETag at each use, so that a page and its modules are always of one version.
func Handler() http.Handler {
	files := map[string]file{}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		kind := types[path.Ext(name)]
		if err != nil || d.IsDir() || kind == "" { // licences are for readers of the source
			return err
		}
		body, err := static.ReadFile(name)
		sum := sha256.Sum256(body)
		files[strings.TrimPrefix(name, "static/")] = file{body, kind, strconv.Quote(hex.EncodeToString(sum[:12]))}
		return err
	})
	if err != nil { // the files are part of the binary
		panic(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, below := strings.CutPrefix(r.URL.Path, Prefix)
		if !below {
			name = "index.html"
		}
		if r.URL.Path == "/docs" {
			name = "docs.html"
		}
		f, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", f.kind)
		h.Set("ETag", f.etag)
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.body))
	})
}

// Wanted reports whether a client asks for a page: its Accept names text/html, as that of every browser does and that
// of no program by default.
func Wanted(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		kind, params, err := mime.ParseMediaType(part)
		if q, bad := strconv.ParseFloat(params["q"], 64); err == nil && kind == "text/html" && (bad != nil || q > 0) {
			return true
		}
	}
	return false
}
