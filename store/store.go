// Package store keeps what clients leave with a server: responses, files, batches and the results of these, in one
// SQLite database, on disk or in memory. It knows nothing of models, of HTTP, or of what a body means; whom a row
// belongs to is a string that the caller chooses. Read Store first.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// ErrNotFound is returned for a row that does not exist, or belongs to another owner.
var ErrNotFound = errors.New("store: not found")

// Limits bound what a Store holds. 0 is any number.
type Limits struct {
	Responses     int   // number of responses
	ResponseBytes int64 // of all responses together
	FileBytes     int64 // of all files together
}

// Store is an open database. Its methods may be called from several goroutines.
type Store struct {
	db     *sql.DB
	dir    string // "" is memory
	limits Limits
	space  func(dir string) (free int64, err error)

	mu   sync.Mutex // guards held, and the order of writes that change it
	held map[string]*held

	writing sync.Mutex       // guards coming; nothing else is taken while it is held
	coming  map[string]int64 // bytes of files that are being written, by owner
}

// held is what an owner's responses take.
type held struct {
	n     int
	bytes int64
}

// version is the schema's, in PRAGMA user_version.
const version = 1

const schema = `
CREATE TABLE responses (
	id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL, previous TEXT NOT NULL, status TEXT NOT NULL,
	body BLOB NOT NULL, input BLOB NOT NULL, events BLOB NOT NULL, size INTEGER NOT NULL);
CREATE INDEX responses_by_owner ON responses (owner, created);
CREATE TABLE files (
	id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL, name TEXT NOT NULL,
	purpose TEXT NOT NULL, bytes INTEGER NOT NULL);
CREATE INDEX files_by_owner ON files (owner, created);
CREATE TABLE chunks (
	file TEXT NOT NULL, n INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (file, n)) WITHOUT ROWID;
CREATE TABLE batches (
	id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL, ended INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX batches_by_owner ON batches (owner, created);
CREATE TABLE results (
	batch TEXT NOT NULL, line INTEGER NOT NULL, failed INTEGER NOT NULL, body BLOB NOT NULL,
	PRIMARY KEY (batch, line)) WITHOUT ROWID;
`

// Open opens the database in a folder, which is made if it does not exist and which only its owner may read. One
// process at a time may have it open. With dir "" the database is in memory and ends with the Store.
func Open(dir string, limits Limits) (*Store, error) {
	s := &Store{dir: dir, limits: limits, space: space, held: map[string]*held{}, coming: map[string]int64{}}
	name := ":memory:"
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		path := filepath.Join(dir, "kvasir.db")
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // SQLite gives its other files the mode of this one
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		name = "file:" + (&url.URL{Path: path}).EscapedPath()
	}
	// The driver sorts these. The lock must be exclusive before the journal is opened: then its index is in memory, and
	// not in a file, for which a full disk has no room.
	pragmas := url.Values{"_pragma": {"busy_timeout(2000)", "locking_mode(EXCLUSIVE)", "main.journal_mode(WAL)",
		"synchronous(FULL)"}}
	db, err := sql.Open("sqlite", name+"?"+pragmas.Encode())
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	db.SetMaxOpenConns(1) // a database in memory is its connection's, and a lock is too
	s.db = db
	if err := s.prepare(); err != nil {
		db.Close()
		if strings.Contains(err.Error(), "SQLITE_BUSY") {
			return nil, fmt.Errorf("store: %s is in use by another process", dir)
		}
		return nil, fmt.Errorf("store: %s: %w", dir, err)
	}
	return s, nil
}

// prepare makes the tables of a new database, and counts what an old one holds.
func (s *Store) prepare() error {
	ctx := context.Background()
	return s.write(ctx, func(tx *sql.Tx) error {
		var found int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found); err != nil {
			return err
		}
		switch found {
		case version:
		case 0:
			if _, err := tx.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("the database has version %d; this program knows %d", found, version)
		}
		// Chunks of a file whose upload was cut off:
		if _, err := tx.ExecContext(ctx, "DELETE FROM chunks WHERE file NOT IN (SELECT id FROM files)"); err != nil && !strings.Contains(err.Error(), "disk is full") {
			return err
		}
		rows, err := tx.QueryContext(ctx, "SELECT owner, COUNT(*), SUM(size) FROM responses GROUP BY owner")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var owner string
			h := &held{}
			if err := rows.Scan(&owner, &h.n, &h.bytes); err != nil {
				return err
			}
			s.held[owner] = h
		}
		return rows.Err()
	})
}

// Durable reports whether the store outlives the process.
func (s *Store) Durable() bool { return s.dir != "" }

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// write runs f in a transaction.
func (s *Store) write(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// affected returns ErrNotFound if a statement changed no row.
func affected(r sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return ErrNotFound
}

// found returns ErrNotFound if a query found no row.
func found(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}
