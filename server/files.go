package server

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/store"
)

// Bounds on files.
const (
	maxUpload     = 512 << 20           // bytes of one
	defaultExpiry = 30 * 24 * 3600      // seconds that the input of a batch is kept
	filesPath     = "/v1/files"         // where they are uploaded
	maxField      = openai.MaxLabel + 1 // bytes of a part of an upload that is not the file
)

// fileRoutes are the paths of files and batches.
func (s *Server) fileRoutes() map[string]route {
	return map[string]route{
		filesPath:                 {"POST", s.upload, clients, "store a file"},
		"GET " + filesPath:        {"GET", s.listFiles, clients, "the stored files"},
		"/v1/files/{id}":          {"GET", s.file, clients, "a stored file"},
		"DELETE /v1/files/{id}":   {"DELETE", s.deleteFile, clients, "remove a stored file"},
		"/v1/files/{id}/content":  {"GET", s.fileContent, clients, "what is in a stored file"},
		"/v1/batches":             {"POST", s.createBatch, clients, "answer a file of requests, when there is time"},
		"GET /v1/batches":         {"GET", s.listBatches, clients, "the batches"},
		"/v1/batches/{id}":        {"GET", s.batch, clients, "a batch, and how far it is"},
		"/v1/batches/{id}/cancel": {"POST", s.cancelBatch, clients, "end a batch"},
	}
}

// durable returns what keeps files and batches, which must outlive the process.
func (s *Server) durable() (*store.Store, error) {
	if s.cfg.State == nil {
		return nil, refuse(http.StatusNotFound, "", "no_state",
			"Files and batches need a folder to be kept in, and this server has none (--state).")
	}
	return s.later.store()
}

// noFile refuses an id.
func noFile(id string) error {
	return refuse(http.StatusNotFound, "id", "not_found", "No such File object: %s", wire.Clip([]byte(id)))
}

// describeFile returns a file as answers have it.
func describeFile(f store.File) openai.File {
	out := openai.File{ID: f.ID, Object: openai.ObjectFile, Bytes: f.Bytes, CreatedAt: f.Created, Filename: f.Name,
		Purpose: f.Purpose, Status: "processed"}
	if f.Expires > 0 {
		out.ExpiresAt = &f.Expires
	}
	return out
}

// reply answers with a value, or with an error if that is not nil.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, v)
}

// upload stores the file of a multipart/form-data body.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	kept, err := s.durable()
	if coding := r.Header.Get("Content-Encoding"); err == nil && coding != "" && coding != "identity" {
		err = refuse(http.StatusUnsupportedMediaType, "", "unsupported_encoding", "Files are uploaded without a Content-Encoding.")
	}
	if err != nil {
		guard.Dismiss(w, r)
		s.fail(w, r, err)
		return
	}
	kept.Sweep(r.Context(), time.Now().Unix()) // what it leaves is not found either
	body := kept.NewFile(store.File{ID: "file-" + rand.Text(), Owner: tenantOf(r.Context()).owner, Created: time.Now().Unix()})
	defer body.Abort() // what it leaves is removed when the database is opened
	f, err := s.receive(w, r, body)
	if errors.Is(err, store.ErrFull) {
		err = errNoSpace
	}
	if err != nil {
		guard.Dismiss(w, r)
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, describeFile(f))
}

// receive reads the parts of an upload, in any order. Each read of the body has a deadline of its own.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, into *store.FileWriter) (f store.File, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return f, refuse(http.StatusUnsupportedMediaType, "", "unsupported_media_type",
			"A file is uploaded as multipart/form-data: %v.", err)
	}
	var name, purpose, anchor, seconds string
	given := false
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return f, unreadable(err)
		}
		switch key := part.FormName(); key {
		case "file":
			if given {
				return f, wire.Invalid("file", wire.CodeInvalidValue, "given twice")
			}
			given, name = true, part.FileName()
			err = s.copy(w, into, part)
		case "purpose":
			purpose, err = field(part)
		case "expires_after[anchor]":
			anchor, err = field(part)
		case "expires_after[seconds]":
			seconds, err = field(part)
		default:
			err = wire.Invalid(wire.Clip([]byte(key)), wire.CodeUnsupported, "this parameter is not supported")
		}
		if err != nil {
			return f, err
		}
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // not of a writer in a test, which has none
	switch {
	case !given:
		return f, wire.Missing("file", "a file")
	case purpose == "":
		return f, wire.Missing("purpose", openai.PurposeBatch)
	case purpose != openai.PurposeBatch:
		return f, wire.Invalid("purpose", wire.CodeUnsupported, "expected %s, found %q", openai.PurposeBatch, wire.Clip([]byte(purpose)))
	case len(name) > openai.MaxLabel:
		return f, wire.Invalid("file", wire.CodeInvalidValue, "its name has %d bytes; at most %d are allowed", len(name), openai.MaxLabel)
	case anchor != "" && anchor != "created_at":
		return f, wire.Invalid("expires_after[anchor]", wire.CodeInvalidValue, "expected created_at, found %q", wire.Clip([]byte(anchor)))
	}
	expiry := int64(defaultExpiry)
	if seconds != "" {
		expiry, err = strconv.ParseInt(seconds, 10, 64)
		if err != nil || expiry < openai.MinExpiry || expiry > openai.MaxExpiry {
			return f, wire.Invalid("expires_after[seconds]", wire.CodeInvalidValue, "expected an integer from %d to %d, found %q",
				openai.MinExpiry, openai.MaxExpiry, wire.Clip([]byte(seconds)))
		}
	}
	into.File.Name, into.File.Purpose, into.File.Expires = name, purpose, into.File.Created+expiry
	return into.Commit(r.Context())
}

var errNoSpace = refuse(http.StatusInsufficientStorage, "", "no_space",
	"The stored files take all the place there is for them, or those of this API key as much as is left, or the disk is full.")

// copy writes a part to a file.
func (s *Server) copy(w http.ResponseWriter, into io.Writer, part io.Reader) error {
	deadline, buf := http.NewResponseController(w), make([]byte, 256<<10)
	for {
		deadline.SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout)) // not of a writer in a test, which has none
		n, err := part.Read(buf)
		if _, failed := into.Write(buf[:n]); failed != nil {
			return failed
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unreadable(err)
		}
	}
}

// field reads a short part of an upload.
func field(part *multipart.Part) (string, error) {
	v, err := io.ReadAll(io.LimitReader(part, maxField))
	if err != nil {
		return "", unreadable(err)
	}
	if len(v) == maxField {
		return "", wire.Invalid(part.FormName(), wire.CodeInvalidValue, "at most %d bytes are allowed", maxField-1)
	}
	return string(v), nil
}

// unreadable words an error of reading an upload.
func unreadable(err error) error {
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return err
	}
	return refuse(http.StatusBadRequest, "", "unreadable_body", "Reading the request body: %v.", err)
}

// storedFile returns the file that a request names.
func (s *Server) storedFile(ctx context.Context, id string) (*store.Store, store.File, error) {
	kept, err := s.durable()
	if err != nil {
		return nil, store.File{}, err
	}
	f, err := kept.File(ctx, tenantOf(ctx).owner, id, time.Now().Unix())
	if errors.Is(err, store.ErrNotFound) {
		err = noFile(id)
	}
	return kept, f, err
}

func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	_, f, err := s.storedFile(r.Context(), pathID(r))
	s.reply(w, r, describeFile(f), err)
}

func (s *Server) deleteFile(w http.ResponseWriter, r *http.Request) {
	kept, f, err := s.storedFile(r.Context(), pathID(r))
	if err == nil {
		err = kept.DeleteFile(r.Context(), f.Owner, f.ID)
	}
	s.reply(w, r, openai.Deleted{ID: f.ID, Object: openai.ObjectFile, Deleted: true}, err)
}

func (s *Server) fileContent(w http.ResponseWriter, r *http.Request) {
	kept, f, err := s.storedFile(r.Context(), pathID(r))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(f.Bytes, 10))
	if r.Method == http.MethodHead {
		return
	}
	if _, err := io.Copy(w, kept.Read(r.Context(), f)); err != nil {
		s.cfg.Logger.Debug("a file was not sent whole", "file", f.ID, "error", err)
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) listFiles(w http.ResponseWriter, r *http.Request) {
	q := getQuery{values: r.URL.Query()}
	page, purpose := q.page(10000, "desc"), q.take("purpose")
	out := openai.Page[openai.File]{Object: openai.ObjectList, Data: []openai.File{}}
	err := q.err()
	var kept *store.Store
	if err == nil {
		kept, err = s.durable()
	}
	if err == nil {
		var list []store.File
		list, out.HasMore, err = kept.Files(r.Context(), tenantOf(r.Context()).owner, purpose, time.Now().Unix(), page)
		for _, f := range list {
			out.Data = append(out.Data, describeFile(f))
		}
	}
	if n := len(out.Data); n > 0 {
		out.FirstID, out.LastID = out.Data[0].ID, out.Data[n-1].ID
	}
	s.reply(w, r, out, err)
}
