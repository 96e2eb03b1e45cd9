package meter

import (
	"log/slog"
	"strings"
	"testing"
)

// TestWritesThatFail holds that a database which takes no more is told once, and what was used is in it afterwards.
func TestWritesThatFail(t *testing.T) {
	s, err := openLocal("")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var log strings.Builder
	s.logTo(slog.New(slog.NewTextHandler(&log, nil)))
	use := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		key := Row{Key: "ann", Model: "m"}
		if s.rows[key] == nil {
			s.rows[key] = &Use{}
		}
		s.rows[key].add(Use{Requests: 1})
	}
	exec := func(text string) {
		if _, err := s.db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	use()
	s.writeNow()
	exec("ALTER TABLE rows RENAME TO gone")
	for range 3 {
		use()
		s.writeNow()
	}
	if n := strings.Count(log.String(), "cannot be stored"); n != 1 {
		t.Errorf("three writes that fail are told %d times: %s", n, &log)
	}
	exec("ALTER TABLE gone RENAME TO rows")
	s.writeNow()
	var n int
	if err := s.db.QueryRow("SELECT requests FROM rows").Scan(&n); err != nil || n != 4 || strings.Count(log.String(), "stored again") != 1 {
		t.Errorf("%d requests, %v; the log: %s", n, err, &log)
	}
}
