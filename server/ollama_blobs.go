package server

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/store"
)

// blobsPath precedes the digest of a file that models are made of.
const blobsPath = "/api/blobs/"

// blobPath is the path of one, as the table has it.
const blobPath = blobsPath + "{digest}"

// maxBlob bounds the bytes of such a file. What all take together is bounded by the store.
const maxBlob = 1 << 40

// errNoBlobs is what a server without a folder for files answers.
var errNoBlobs = refuse(http.StatusNotFound, "", "no_blobs", "This server keeps no files of models: it was started without --state.")

// hasBlob says whether a file is there.
func (s *Server) hasBlob(w http.ResponseWriter, r *http.Request) {
	err := error(errNoBlobs)
	if s.cfg.Blobs != nil {
		_, err = s.cfg.Blobs.Path(strings.TrimPrefix(r.URL.Path, blobsPath))
	}
	if errors.Is(err, store.ErrNotFound) {
		err = refuse(http.StatusNotFound, "", "blob_not_found", "There is no such file.")
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// putBlob keeps a file, if its digest is right. One that is there already is not read.
func (s *Server) putBlob(w http.ResponseWriter, r *http.Request) {
	digest := strings.TrimPrefix(r.URL.Path, blobsPath)
	if s.cfg.Blobs == nil {
		guard.Dismiss(w, r)
		s.fail(w, r, errNoBlobs)
		return
	}
	if _, err := s.cfg.Blobs.Path(digest); err == nil {
		guard.Dismiss(w, r)
		w.WriteHeader(http.StatusOK)
		return
	}
	err := s.cfg.Blobs.Put(digest, patient{r.Body, http.NewResponseController(w), s.cfg.BodyTimeout})
	switch {
	case errors.Is(err, store.ErrDigest):
		err = refuse(http.StatusBadRequest, "digest", wire.CodeInvalidValue, "The digest %q is not the SHA-256 of the file.", digest)
	case errors.Is(err, store.ErrFull):
		err = refuse(http.StatusInsufficientStorage, "", "no_space", "The files take all the place there is for them.")
	}
	if err != nil {
		guard.Dismiss(w, r)
		s.fail(w, r, err)
		return
	}
	s.cfg.Logger.Info("keeps a file", "digest", digest)
	w.WriteHeader(http.StatusCreated)
}

// patient gives each piece of a body as long to come as a whole body else has.
type patient struct {
	io.Reader
	deadline *http.ResponseController
	each     time.Duration
}

func (p patient) Read(b []byte) (int, error) {
	p.deadline.SetReadDeadline(time.Now().Add(p.each)) // not of a writer in a test, which has none
	return p.Reader.Read(b)
}

// blobs finds the files that a request names by their digests.
func (s *Server) blobs(param string, digests map[string]string) (all []File, err error) {
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		if s.cfg.Blobs == nil {
			return nil, errNoBlobs
		}
		path, err := s.cfg.Blobs.Path(digests[name])
		if errors.Is(err, store.ErrNotFound) {
			return nil, refuse(http.StatusBadRequest, param, "blob_not_found", "%s: there is no file %q; it is to be sent to %s first.",
				param, digests[name], blobsPath)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, File{name, path})
	}
	return all, nil
}
