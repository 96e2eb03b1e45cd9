package meter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/kvasir-llm/kvasir/guard"
)

// local is a store of one process: counters in memory, which an SQLite database gets once a second and at the end.
type local struct {
	db   *sql.DB
	stop chan struct{}
	done chan error // gets one value when the writer has ended

	mu       sync.Mutex
	counters map[string]*counter
	rows     map[Row]*Use // by a Row without a Use, since the last write
	log      *slog.Logger // nil before a Meter has the store
	failing  bool         // the last write failed
}

type counter struct {
	value int64
	ends  time.Time
	dirty bool // the database does not have the value
}

const localSchema = `
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL, ends INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS rows (
	hour INTEGER NOT NULL, key TEXT NOT NULL, team TEXT NOT NULL, model TEXT NOT NULL, requests INTEGER NOT NULL,
	input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL, nanos INTEGER NOT NULL,
	PRIMARY KEY (hour, key, team, model)) WITHOUT ROWID;
`

// openLocal opens a database in a file, or in memory if the file is "".
func openLocal(file string) (*local, error) {
	name := ":memory:"
	if file != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nil, fmt.Errorf("meter: %w", err)
		}
		f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600) // SQLite gives its other files the mode of this one
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("meter: %w", err)
		}
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, fmt.Errorf("meter: %w", err)
		}
		name = "file:" + (&url.URL{Path: path}).EscapedPath()
	}
	// In an order that the driver keeps, as in package store.
	pragmas := url.Values{"_pragma": {"busy_timeout(2000)", "locking_mode(EXCLUSIVE)", "main.journal_mode(WAL)"}}
	db, err := sql.Open("sqlite", name+"?"+pragmas.Encode())
	if err != nil {
		return nil, fmt.Errorf("meter: %w", err)
	}
	db.SetMaxOpenConns(1) // a database in memory is its connection's, and a lock is too
	s := &local{db: db, stop: make(chan struct{}), done: make(chan error, 1), counters: map[string]*counter{}, rows: map[Row]*Use{}}
	if err := s.load(); err != nil {
		db.Close()
		if strings.Contains(err.Error(), "SQLITE_BUSY") {
			return nil, fmt.Errorf("meter: %s is in use by another process", file)
		}
		return nil, fmt.Errorf("meter: %s: %w", file, err)
	}
	guard.Go(s.writeOften, func(err error) { s.done <- err })
	return s, nil
}

func (s *local) load() error {
	if _, err := s.db.Exec(localSchema); err != nil {
		return err
	}
	now := time.Now().Unix()
	if _, err := s.db.Exec("DELETE FROM counters WHERE ends < ?", now); err != nil && !strings.Contains(err.Error(), "disk is full") {
		return err
	}
	rows, err := s.db.Query("SELECT name, value, ends FROM counters WHERE ends >= ?", now)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var value, ends int64
		if err := rows.Scan(&name, &value, &ends); err != nil {
			return err
		}
		s.counters[name] = &counter{value: value, ends: time.Unix(ends, 0)}
	}
	return rows.Err()
}

func (s *local) shared() bool { return false }

func (s *local) apply(_ context.Context, op operation) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range op.charges {
		if had := s.counters[c.counter]; c.most > 0 && c.amount > 0 && had != nil && had.value+c.amount > c.most {
			return i, nil
		}
	}
	for _, c := range op.charges {
		had := s.counters[c.counter]
		if had == nil {
			had = &counter{ends: c.ends}
			s.counters[c.counter] = had
		}
		had.value += c.amount
		had.dirty = true
	}
	if op.row != nil {
		key := *op.row
		key.Use = Use{}
		if s.rows[key] == nil {
			s.rows[key] = &Use{}
		}
		s.rows[key].add(op.row.Use)
	}
	return -1, nil
}

func (u *Use) add(v Use) {
	u.Requests += v.Requests
	u.Input += v.Input
	u.Cached += v.Cached
	u.Output += v.Output
	u.Nanos += v.Nanos
}

// writeOften writes once a second until the store closes.
func (s *local) writeOften() error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.writeNow()
		case <-s.stop:
			return s.write()
		}
	}
}

// writeNow writes, and says so when that begins to fail, or goes well again. What it could not write is tried again.
func (s *local) writeNow() {
	err := s.write()
	s.mu.Lock()
	defer s.mu.Unlock()
	if (err != nil) == s.failing || s.log == nil {
		return
	}
	if s.failing = err != nil; s.failing {
		s.log.Error("what was used cannot be stored, and is lost if the gateway is killed", "tried again every", "1s", "error", err)
	} else {
		s.log.Info("what was used is stored again")
	}
}

func (s *local) logTo(log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = log
}

// write brings the database up to date.
func (s *local) write() error {
	now := time.Now()
	s.mu.Lock()
	values, gone := map[string]counter{}, []string(nil)
	for name, c := range s.counters {
		if c.ends.Before(now) {
			gone = append(gone, name)
			delete(s.counters, name)
		} else if c.dirty {
			values[name] = *c
			c.dirty = false
		}
	}
	rows := s.rows
	s.rows = map[Row]*Use{}
	s.mu.Unlock()
	if len(values)+len(gone)+len(rows) == 0 {
		return nil
	}
	err := s.writeAll(values, gone, rows)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for name := range values {
			if c := s.counters[name]; c != nil {
				c.dirty = true
			}
		}
		for key, use := range rows {
			if s.rows[key] != nil {
				use.add(*s.rows[key])
			}
			s.rows[key] = use
		}
	}
	return err
}

func (s *local) writeAll(values map[string]counter, gone []string, rows map[Row]*Use) error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for name, c := range values {
		if _, err := tx.Exec(`INSERT INTO counters VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
			name, c.value, c.ends.Unix()); err != nil {
			return err
		}
	}
	for _, name := range gone {
		if _, err := tx.Exec("DELETE FROM counters WHERE name = ?", name); err != nil {
			return err
		}
	}
	for r, u := range rows {
		if _, err := tx.Exec(`INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hour, key, team, model) DO UPDATE
			SET requests = requests + excluded.requests, input = input + excluded.input, cached = cached + excluded.cached,
			output = output + excluded.output, nanos = nanos + excluded.nanos`,
			r.Hour.Unix(), r.Key, r.Team, r.Model, u.Requests, u.Input, u.Cached, u.Output, u.Nanos); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (s *local) usage(ctx context.Context, from, to time.Time) ([]Row, error) {
	if err := s.write(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, `SELECT hour, key, team, model, requests, input, cached, output, nanos FROM rows
		WHERE hour >= ? AND hour < ?`, from.Unix(), to.Unix())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Row
	for rows.Next() {
		var r Row
		var hour int64
		if err := rows.Scan(&hour, &r.Key, &r.Team, &r.Model, &r.Requests, &r.Input, &r.Cached, &r.Output, &r.Nanos); err != nil {
			return nil, err
		}
		r.Hour = time.Unix(hour, 0).UTC()
		all = append(all, r)
	}
	return all, rows.Err()
}

func (s *local) Close() error {
	close(s.stop)
	return errors.Join(<-s.done, s.db.Close())
}
