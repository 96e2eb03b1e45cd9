package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

const hubCommit = "0123456789abcdef0123456789abcdef01234567"

// hubFolder is a hub that holds the files of a folder, as owner/name/file.
type hubFolder string

// startHub DIR starts a hub and sets $HF_ENDPOINT to its address.
func startHub(ts *testscript.TestScript, neg bool, args []string) {
	s := httptest.NewServer(hubFolder(ts.MkAbs(args[0])))
	ts.Defer(s.Close)
	ts.Setenv("HF_ENDPOINT", s.URL)
}

func (root hubFolder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if listing, ok := strings.CutPrefix(r.URL.Path, "/api/models/"); ok {
		parts := strings.Split(listing, "/")
		root.list(w, filepath.Join(string(root), parts[0], parts[1]))
		return
	}
	repo, file, _ := strings.Cut(r.URL.Path, "/resolve/"+hubCommit+"/")
	data, err := os.ReadFile(filepath.Join(string(root), repo, file))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("X-Repo-Commit", hubCommit)
	w.Header().Set("X-Linked-Etag", sum(data))
	w.Header().Set("X-Linked-Size", fmt.Sprint(len(data)))
	w.Header().Set("ETag", `"`+sum(data)+`"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
}

func (root hubFolder) list(w http.ResponseWriter, dir string) {
	files, err := os.ReadDir(dir)
	if err != nil {
		w.Header().Set("X-Error-Code", "RepoNotFound")
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var siblings []any
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		lfs := map[string]any{"sha256": sum(data), "size": len(data)}
		siblings = append(siblings, map[string]any{"rfilename": f.Name(), "size": len(data), "lfs": lfs})
	}
	json.NewEncoder(w).Encode(map[string]any{"sha": hubCommit, "siblings": siblings})
}

func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
