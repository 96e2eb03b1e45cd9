package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// open opens a store that ends with the test.
func open(t *testing.T, dir string, limits Limits) *Store {
	t.Helper()
	s, err := Open(dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *Store, owner, id string, bytes int) {
	t.Helper()
	err := s.PutResponse(t.Context(), &Response{ID: id, Owner: owner, Created: 7, Status: "queued", Body: make([]byte, bytes)})
	if err != nil {
		t.Fatal(err)
	}
}

// ids returns which of a list of responses an owner has.
func ids(t *testing.T, s *Store, owner string, of ...string) (out []string) {
	t.Helper()
	for _, id := range of {
		_, err := s.Response(t.Context(), owner, id)
		if err == nil {
			out = append(out, id)
		} else if !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
	}
	return out
}

func TestResponses(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "a?b #%20")} {
		s := open(t, dir, Limits{})
		put(t, s, "ann", "1", 3)
		one := &Response{ID: "2", Owner: "ann", Created: 9, Previous: "1", Status: "done", Body: []byte("b"), Input: []byte("i"), Events: []byte("e")}
		if err := s.PutResponse(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		got, err := s.Response(t.Context(), "ann", "2")
		if err != nil || fmt.Sprint(*got) != fmt.Sprint(*one) {
			t.Errorf("got %v, %v; want %v", got, err, one)
		}
		if got := ids(t, s, "bob", "1", "2"); got != nil {
			t.Errorf("another owner finds %v", got)
		}
		if err := s.DeleteResponse(t.Context(), "bob", "2"); !errors.Is(err, ErrNotFound) {
			t.Errorf("another owner deletes: %v", err)
		}
		if left, err := s.ResponsesWith(t.Context(), "queued"); err != nil || len(left) != 1 || left[0].ID != "1" {
			t.Errorf("%v, %v", left, err)
		}
		if err := s.DeleteResponse(t.Context(), "ann", "2"); err != nil {
			t.Error(err)
		}
		if got := ids(t, s, "ann", "1", "2"); !slices.Equal(got, []string{"1"}) {
			t.Errorf("left %v", got)
		}
		s.Close()
		if dir != "" {
			s = open(t, dir, Limits{})
			if got := ids(t, s, "ann", "1", "2"); !slices.Equal(got, []string{"1"}) {
				t.Errorf("after a restart %v", got)
			}
		}
	}
}

// TestLimits holds that the oldest responses go, of the owner that has most of them.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{Responses: 4, ResponseBytes: 10000})
	put(t, s, "bob", "b1", 10)
	for i := range 5 {
		put(t, s, "ann", fmt.Sprint("a", i), 100)
	}
	if a, b := ids(t, s, "ann", "a0", "a1", "a2", "a3", "a4"), ids(t, s, "bob", "b1"); !slices.Equal(a, []string{"a2", "a3", "a4"}) || len(b) != 1 {
		t.Errorf("left %v and %v", a, b)
	}
	put(t, s, "ann", "a4", 9000) // in place of one
	if a, b := ids(t, s, "ann", "a2", "a3", "a4"), ids(t, s, "bob", "b1"); !slices.Equal(a, []string{"a4"}) && len(a) != 2 || len(b) != 1 {
		t.Errorf("left %v and %v", a, b)
	}
	s.Close()
	s = open(t, dir, Limits{Responses: 4, ResponseBytes: 10000})
	put(t, s, "cat", "c1", 9000) // what was there counts
	if a, c := ids(t, s, "ann", "a2", "a3", "a4"), ids(t, s, "cat", "c1"); len(a) != 0 || len(c) != 1 {
		t.Errorf("left %v and %v", a, c)
	}
	err := s.PutResponse(t.Context(), &Response{ID: "x", Owner: "ann", Body: make([]byte, 10000)})
	if !errors.Is(err, errTooLarge) {
		t.Errorf("a response larger than the limit: %v", err)
	}
}

// TestPrivate holds that nobody else can read the database, and that no second process opens it.
func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir, Limits{})
	put(t, s, "ann", "1", 3)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if i, err := f.Info(); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", f.Name(), i.Mode(), err)
		}
	}
	if i, err := os.Stat(dir); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", i.Mode(), err)
	}
	if _, err := Open(dir, Limits{}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opened twice: %v", err)
	}
	if _, err := s.db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := Open(dir, Limits{}); err == nil || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("a version that is not known: %v", err)
	}
}

// TestFiles holds that a file is read as it was written, once it is committed, by its owner until it expires.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{FileBytes: 11 << 20})
	content := []byte(strings.Repeat("0123456789", 250_000)) // more than two chunks
	write := func(f File) *FileWriter {
		w := s.NewFile(f)
		for at := 0; at < len(content); at += 7777 {
			if _, err := w.Write(content[at:min(at+7777, len(content))]); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
		}
		return w
	}
	w := write(File{ID: "f1", Owner: "ann", Name: "a.jsonl", Purpose: "batch", Created: 5, Expires: 9})
	if _, err := s.File(t.Context(), "ann", "f1", 6); !errors.Is(err, ErrNotFound) {
		t.Errorf("before it is committed: %v", err)
	}
	f, err := w.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.File(t.Context(), "ann", "f1", 6)
	if err != nil || got != f || f.Bytes != int64(len(content)) {
		t.Errorf("%+v, %v; want %+v", got, err, f)
	}
	if data, err := io.ReadAll(s.Read(t.Context(), f)); err != nil || !bytes.Equal(data, content) {
		t.Errorf("read %d bytes, %v", len(data), err)
	}
	for _, c := range []struct {
		owner string
		now   int64
	}{{"bob", 6}, {"ann", 9}} {
		if _, err := s.File(t.Context(), c.owner, "f1", c.now); !errors.Is(err, ErrNotFound) {
			t.Errorf("%+v finds the file: %v", c, err)
		}
	}
	if _, err := write(File{ID: "f2", Owner: "ann", Created: 5}).Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w = write(File{ID: "f3", Owner: "ann", Created: 7})
	if _, err := w.Commit(t.Context()); !errors.Is(err, ErrFull) {
		t.Errorf("a third file, beside which less than what ann has is free: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	w = write(File{ID: "f4", Owner: "bob", Created: 7}) // and is not committed
	if err := s.Room(t.Context(), "cid", 3<<20); !errors.Is(err, ErrFull) {
		t.Errorf("what is being written does not count: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	s.space = func(string) (int64, error) { return reserve + 1000, nil }
	if err := s.Room(t.Context(), "cid", 1001); !errors.Is(err, ErrFull) || s.Room(t.Context(), "cid", 1000) != nil {
		t.Errorf("with 1000 bytes of the disk free: %v", err)
	}
	s.space = space
	if err := errors.Join(s.Room(t.Context(), "cid", 3<<20), s.Room(t.Context(), "", 6<<20)); err != nil {
		t.Errorf("what was given up counts: %v", err)
	}
	for _, c := range []struct {
		purpose string
		page    Page
		want    string
		more    bool
	}{
		{"", Page{Limit: 5}, "f1 f2", false}, {"", Page{Limit: 5, Desc: true}, "f2 f1", false}, {"batch", Page{Limit: 5}, "f1", false},
		{"", Page{Limit: 1}, "f1", true}, {"", Page{Limit: 1, After: "f1"}, "f2", false}, {"", Page{Limit: 1, After: "f2", Desc: true}, "f1", false},
	} {
		list, more, err := s.Files(t.Context(), "ann", c.purpose, 6, c.page)
		var names []string
		for _, f := range list {
			names = append(names, f.ID)
		}
		if strings.Join(names, " ") != c.want || more != c.more || err != nil {
			t.Errorf("%+v: %v, %v, %v", c, names, more, err)
		}
	}
	if err := s.Sweep(t.Context(), 9); err != nil {
		t.Error(err)
	}
	if err := s.DeleteFile(t.Context(), "ann", "f1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an expired file: %v", err)
	}
	if err := s.DeleteFile(t.Context(), "ann", "f2"); err != nil {
		t.Error(err)
	}
	var left int
	write(File{ID: "f4", Owner: "ann"}) // and the process ends
	s.Close()
	s = open(t, dir, Limits{})
	if err := s.db.QueryRow("SELECT COUNT(*) FROM chunks").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d chunks of files are left, %v", left, err)
	}
}

// TestBatches holds that each line of a batch has one result, the first, and that all are gone when it ends with the
// files that they were written to.
func TestBatches(t *testing.T) {
	s := open(t, t.TempDir(), Limits{})
	b := &Batch{ID: "b1", Owner: "ann", Created: 3, Body: []byte("new")}
	if err := s.PutBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	var all []Result
	for i := range 200 {
		all = append(all, Result{Line: 199 - i, Failed: i%3 == 0, Body: fmt.Append(nil, "line ", 199-i)})
	}
	again := slices.Clone(all[:50])
	for i := range again {
		again[i].Body, again[i].Failed = []byte("twice"), false
	}
	for _, r := range [][]Result{all[:100], again, all[100:]} {
		if err := s.PutResults(t.Context(), "b1", r); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, failed := range []bool{false, true} {
		last := -1
		for r, err := range s.Results(t.Context(), "b1", failed) {
			if err != nil || r.Line <= last || string(r.Body) != fmt.Sprint("line ", r.Line) || r.Failed != ((199-r.Line)%3 == 0) {
				t.Errorf("%+v after line %d, %v", r, last, err)
			}
			last, n = r.Line, n+1
		}
	}
	if done, err := s.Done(t.Context(), "b1"); err != nil || n != 200 || len(done) != 200 || !done[199] || done[198] {
		t.Errorf("%d results, %d lines done, %v", n, len(done), err)
	}
	if list, err := s.Unfinished(t.Context()); err != nil || len(list) != 1 || list[0].Owner != "ann" {
		t.Errorf("%v, %v", list, err)
	}
	w := s.NewFile(File{ID: "out", Owner: "ann"})
	w.Write([]byte("all"))
	b.Ended, b.Body = true, []byte("done")
	if err := s.PutBatch(t.Context(), b, w, nil); err != nil {
		t.Fatal(err)
	}
	done, err := s.Done(t.Context(), "b1")
	if _, found := s.File(t.Context(), "ann", "out", 1); err != nil || len(done) > 0 || found != nil {
		t.Errorf("%d lines are left, %v; the file: %v", len(done), err, found)
	}
	if got, err := s.Batch(t.Context(), "ann", "b1"); err != nil || !got.Ended || string(got.Body) != "done" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.Batch(t.Context(), "bob", "b1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("another owner: %v", err)
	}
	if list, more, err := s.Batches(t.Context(), "ann", Page{Limit: 3, Desc: true}); err != nil || more || len(list) != 1 {
		t.Errorf("%v, %v, %v", list, more, err)
	}
	if list, err := s.Unfinished(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestKilled opens what a process left that was killed: nothing is lost, and no file is needed beside the database and
// its journal, since the disk may be full.
func TestKilled(t *testing.T) {
	dir, left := t.TempDir(), t.TempDir()
	put(t, open(t, dir, Limits{}), "ann", "r", 10)
	for _, name := range []string{"kvasir.db", "kvasir.db-wal"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(left, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := open(t, left, Limits{}).Response(t.Context(), "ann", "r"); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(left)
	if err != nil || len(files) != 2 {
		t.Errorf("there are %v, %v; want the database and its journal", files, err)
	}
}
