package server

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kvasir-llm/kvasir/store"
)

// TestOllamaBlobs leaves files with a server, and makes models of them.
func TestOllamaBlobs(t *testing.T) {
	c := &fakeCatalog{names: []string{"abc"}}
	blobs, err := store.OpenBlobs(t.TempDir(), 30)
	if err != nil {
		t.Fatal(err)
	}
	digest := func(data string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data))) }
	onDemand(t, c, func(s *Server) {
		s.cfg.Blobs = blobs
		one, two := "/api/blobs/"+digest("one"), "/api/blobs/"+digest("two")
		long := strings.Repeat("x", 31)
		for _, e := range [][4]string{
			{"HEAD", one, "", `404 {"error":"There is no such file."}`},
			{"POST", one, "one", "201 "},
			{"HEAD", one, "", "200 "},
			{"POST", one, "anything", "200 "}, // which is not read
			{"POST", two, "three", `400 {"error":"The digest \"` + digest("two") + `\" is not the SHA-256 of the file."}`},
			{"POST", "/api/blobs/sha256:1", "1", `400 {"error":"The digest \"sha256:1\" is not the SHA-256 of the file."}`},
			{"POST", "/api/blobs/" + digest(long), long, `507 {"error":"The files take all the place there is for them."}`},
			{"HEAD", two, "", `404 {"error":"There is no such file."}`},
			{"POST", two, "two", "201 "},
			{"POST", "/api/create", `{"model":"x","files":{"a.gguf":"` + digest("three") + `"}}`,
				`400 {"error":"files: there is no file \"` + digest("three") + `\"; it is to be sent to /api/blobs/ first."}`},
			{"POST", "/api/create", `{"model":"made","files":{"a.gguf":"` + digest("one") + `"},"adapters":{"l.gguf":"` + digest("two") + `"}}`,
				"200 {\"status\":\"writing manifest\"}\n{\"status\":\"success\"}"},
			{"POST", "/api/create", `{"model":"none"}`, `400 {"error":"from: required, and not given; expected the name of the model that it is made of"}`},
		} {
			if got := sent(s, e[0], e[1], e[2]); got != e[3] {
				t.Errorf("%s %s %.60s:\n got %s\nwant %s", e[0], e[1], e[2], got, e[3])
			}
		}
		path := func(data string) string {
			p, err := blobs.Path(digest(data))
			if err != nil {
				t.Error(err)
			}
			return p
		}
		if want := fmt.Sprintf("{ [{a.gguf %s}] [{l.gguf %s}]   0 map[]}", path("one"), path("two")); c.made != want {
			t.Errorf("made of %s; want %s", c.made, want)
		}
		r := httptest.NewRequest("POST", "/api/blobs/"+digest("cut off"), io.MultiReader(strings.NewReader("cut"), iotest.ErrReader(errors.New("gone"))))
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != 500 {
			t.Errorf("an upload that was cut off: %d %s", w.Code, w.Body)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path("one")), ".*")); len(left) > 0 {
			t.Errorf("%v are left of it", left)
		}
	})
}
