// Package panel is the page of a gateway: the fleet, who uses it, and how long answers take, live. The page is plain
// HTML, CSS and one JavaScript module in static, which ask nothing but the gateway's own paths. Read Handler.
package panel

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed static
var static embed.FS

// Prefix is the path of the page. Its files are below.
const Prefix = "/gateway/"

// policy lets the page run and load only the files of this package, and make no HTML of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the page and its files.
func Handler() http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil { // the files are part of the binary
		panic(err)
	}
	serve := http.StripPrefix(Prefix, http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		serve.ServeHTTP(w, r)
	})
}
