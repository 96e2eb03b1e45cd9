package store

import (
	"errors"
	"fmt"
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
