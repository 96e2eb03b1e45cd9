package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBatchOrder holds that requests that begin alike come after each other, the longest first.
func TestBatchOrder(t *testing.T) {
	var in strings.Builder
	for _, p := range []string{"b1", "a1", "b1 and more", "a1", "b2"} {
		system := strings.Repeat(p[:2], 1000)
		in.WriteString(`{"custom_id":"` + p + "/" + string(rune('0'+strings.Count(in.String(), "\n"))) + `","method":"POST","url":"/v1/chat/completions",` +
			`"body":{"max_tokens":1,"messages":[{"role":"system","content":"` + system + `"},{"role":"user","content":"` + p + `"}]}}` + "\n")
	}
	all, models, err := readRequests(strings.NewReader(in.String()))
	if err != nil || len(models) > 0 {
		t.Fatalf("%v, models %v", err, models)
	}
	slices.SortFunc(all, inTurn)
	var got []string
	for _, r := range all {
		got = append(got, r.id)
		if line := in.String()[r.at : r.at+int64(r.length)]; !strings.HasPrefix(line, `{"custom_id":"`+r.id) || !strings.HasSuffix(line, "}") {
			t.Errorf("%s is at %q", r.id, line)
		}
	}
	if want := "a1/1 a1/3 b1 and more/2 b1/0 b2/4"; strings.Join(got, " ") != want {
		t.Errorf("the order is %q, want %q", got, want)
	}
}

// FuzzBatchAnswers holds that an output is refused, or is mended so that the same answers are found again, each with
// its line whole.
func FuzzBatchAnswers(f *testing.F) {
	for _, s := range []string{"", "{\"custom_id\":\"a\"}\n", "{\"custom_id\":\"a\"}\n{\"custom", "{\"custom_id\":\"a\"}", "\n\n{\"custom_id\":\"a\"}\r\n\n",
		"\ufeff{\"custom_id\":\"a\"}\n\x00", "x\ny\n"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	in, err := os.Create(filepath.Join(dir, "in"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { in.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "out")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		out, done, err := openAnswers(name, in)
		if err != nil {
			if left, _ := os.ReadFile(name); string(left) != string(data) {
				t.Errorf("refused (%v), and changed to %q", err, left)
			}
			return
		}
		out.Write([]byte("{\"custom_id\":\"new\"}\n"))
		out.Close()
		out, again, err := openAnswers(name, in)
		if err != nil || !again["new"] {
			t.Fatalf("opened again: %v, %v", again, err)
		}
		out.Close()
		for id := range done {
			if !again[id] {
				t.Errorf("%q is lost", id)
			}
		}
	})
}

// TestBatchLeft holds that the rest is told from the rate since the beginning, not from what was there before.
func TestBatchLeft(t *testing.T) {
	p := &batchProgress{total: 100, before: 40}
	if got, want := p.left(60, 10*time.Second), "2.0/s, 20s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := p.left(40, time.Second); got != "" {
		t.Errorf("nothing done yet: %q", got)
	}
}
