package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
)

// File describes a stored file.
type File struct {
	ID, Owner     string
	Name, Purpose string
	Created       int64 // seconds since 1970
	Expires       int64 // 0 is never
	Bytes         int64
}

// Page says which part of an owner's rows a list has, by the time they were made.
type Page struct {
	After string // the id of the row before the first; "" is from the beginning
	Limit int
	Desc  bool // the newest first
}

// chunkBytes is how much of a file is in one row.
const chunkBytes = 1 << 20

// reserve is what files leave free of the disk: it takes space to change and to remove what is stored.
const reserve = 64 << 20

// ErrFull refuses a file for which there is no place left.
var ErrFull = errors.New("store: the files take all the place there is for them")

// Room returns ErrFull if an owner's files, with those that are being written, may not take so many bytes more: they
// may take as many as all files leave free, so that one owner never takes all. An owner "" may. It is returned, too, if
// the disk is about to be full.
func (s *Store) Room(ctx context.Context, owner string, bytes int64) error {
	return s.room(ctx, s.db, owner, bytes)
}

// querier is a database, or a transaction on it.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s *Store) room(ctx context.Context, db querier, owner string, bytes int64) error {
	if s.dir != "" {
		if free, err := s.space(s.dir); err != nil {
			return err
		} else if free < bytes+reserve {
			return fmt.Errorf("%w: %d bytes of the disk are free, of which %d stay so", ErrFull, free, int64(reserve))
		}
	}
	if s.limits.FileBytes == 0 {
		return nil
	}
	var all, own int64
	row := db.QueryRowContext(ctx, `SELECT COALESCE(SUM(bytes), 0), COALESCE(SUM(bytes) FILTER (WHERE owner = ?), 0)
		FROM files`, owner)
	if err := row.Scan(&all, &own); err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	for o, n := range s.coming {
		if all += n; o == owner {
			own += n
		}
	}
	free := s.limits.FileBytes - all - bytes
	if free < 0 || owner != "" && own+bytes > free {
		return fmt.Errorf("%w: %d bytes", ErrFull, s.limits.FileBytes)
	}
	return nil
}

// came counts bytes of files that are being written.
func (s *Store) came(owner string, bytes int64) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.coming[owner] += bytes; s.coming[owner] == 0 {
		delete(s.coming, owner)
	}
}

// FileWriter writes a new file, which exists once it is committed. It is used by one goroutine.
type FileWriter struct {
	s      *Store
	File   File // as it will be; what is written sets Bytes
	buf    []byte
	n      int
	coming int64 // bytes that count in Store.coming
	over   bool  // it is committed, or given up
	always bool  // it is written though there is no room
}

// NewFile begins a file, for which there must be room (Store.Room). f.Bytes is set by what is written.
func (s *Store) NewFile(f File) *FileWriter {
	f.Bytes = 0
	return &FileWriter{s: s, File: f}
}

// NewResults begins a file for Store.PutBatch, in which results move that are stored already: it needs no room.
func (s *Store) NewResults(f File) *FileWriter {
	w := s.NewFile(f)
	w.always = true
	return w
}

// Write appends to the file.
func (w *FileWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	w.File.Bytes += int64(len(p))
	for len(w.buf) >= chunkBytes {
		if err := w.flush(w.buf[:chunkBytes]); err != nil {
			return 0, err
		}
		w.buf = append(w.buf[:0], w.buf[chunkBytes:]...)
	}
	return len(p), nil
}

func (w *FileWriter) flush(data []byte) error {
	n := int64(len(data))
	if err := w.s.Room(context.Background(), w.File.Owner, n); err != nil && !w.always {
		return err
	}
	w.s.came(w.File.Owner, n)
	w.coming += n
	_, err := w.s.db.Exec("INSERT INTO chunks (file, n, data) VALUES (?, ?, ?)", w.File.ID, w.n, bytesOf(data))
	w.n++
	return err
}

// Commit makes the file be there. It refuses one for which there is no room.
func (w *FileWriter) Commit(ctx context.Context) (File, error) {
	err := w.s.write(ctx, func(tx *sql.Tx) error {
		if err := w.s.room(ctx, tx, w.File.Owner, w.File.Bytes-w.coming); err != nil {
			return err
		}
		return w.commit(ctx, tx)
	})
	if err == nil {
		w.end()
	}
	return w.File, err
}

// end forgets what was being written.
func (w *FileWriter) end() {
	w.s.came(w.File.Owner, -w.coming)
	w.coming, w.over = 0, true
}

// commit is Commit in a transaction, of any size.
func (w *FileWriter) commit(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO chunks (file, n, data) VALUES (?, ?, ?)", w.File.ID, w.n,
		bytesOf(w.buf)); err != nil {
		return err
	}
	f := &w.File
	_, err := tx.ExecContext(ctx, `INSERT INTO files (id, owner, created, expires, name, purpose, bytes)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, f.ID, f.Owner, f.Created, f.Expires, f.Name, f.Purpose, f.Bytes)
	return err
}

// Abort gives up a file, if it is not committed.
func (w *FileWriter) Abort() error {
	if w.over {
		return nil
	}
	w.end()
	_, err := w.s.db.Exec("DELETE FROM chunks WHERE file = ?", w.File.ID)
	return err
}

// File returns an owner's file that has not expired at a time, in seconds since 1970.
func (s *Store) File(ctx context.Context, owner, id string, now int64) (File, error) {
	f := File{ID: id, Owner: owner}
	row := s.db.QueryRowContext(ctx, `SELECT created, expires, name, purpose, bytes FROM files
		WHERE id = ? AND owner = ? AND (expires = 0 OR expires > ?)`, id, owner, now)
	return f, found(row.Scan(&f.Created, &f.Expires, &f.Name, &f.Purpose, &f.Bytes))
}

// Files lists an owner's files of a purpose, "" for any, and reports whether there are more.
func (s *Store) Files(ctx context.Context, owner, purpose string, now int64, p Page) ([]File, bool, error) {
	var out []File
	more, err := s.list(ctx, "id, created, expires, name, purpose, bytes", "files", owner,
		"(?3 = '' OR purpose = ?3) AND (expires = 0 OR expires > ?4)", p, []any{purpose, now}, func(rows *sql.Rows) error {
			f := File{Owner: owner}
			defer func() { out = append(out, f) }()
			return rows.Scan(&f.ID, &f.Created, &f.Expires, &f.Name, &f.Purpose, &f.Bytes)
		})
	if more {
		out = out[:p.Limit]
	}
	return out, more, err
}

// list reads a page of an owner's rows of a table, and one more. ?1 is the owner and ?2 the row before the first; what
// is in where begins with ?3.
func (s *Store) list(ctx context.Context, columns, table, owner, where string, p Page, args []any,
	row func(*sql.Rows) error) (more bool, err error) {
	order, beyond := "ASC", ">"
	if p.Desc {
		order, beyond = "DESC", "<"
	}
	if p.After != "" {
		where += fmt.Sprintf(" AND (created, rowid) %s (SELECT created, rowid FROM %s WHERE id = ?2 AND owner = ?1)", beyond, table)
	}
	query := fmt.Sprintf("SELECT %s FROM %s WHERE owner = ?1 AND ?2 = ?2 AND %s ORDER BY created %s, rowid %s LIMIT %d",
		columns, table, where, order, order, p.Limit+1)
	rows, err := s.db.QueryContext(ctx, query, append([]any{owner, p.After}, args...)...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		if err := row(rows); err != nil {
			return false, err
		}
	}
	return n > p.Limit, rows.Err()
}

// DeleteFile removes an owner's file.
func (s *Store) DeleteFile(ctx context.Context, owner, id string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		err := affected(tx.ExecContext(ctx, "DELETE FROM files WHERE id = ? AND owner = ?", id, owner))
		if err == nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM chunks WHERE file = ?", id)
		}
		return err
	})
}

// Sweep removes the files that have expired at a time.
func (s *Store) Sweep(ctx context.Context, now int64) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		const expired = "expires > 0 AND expires <= ?"
		_, err := tx.ExecContext(ctx, "DELETE FROM chunks WHERE file IN (SELECT id FROM files WHERE "+expired+")", now)
		if err == nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM files WHERE "+expired, now)
		}
		return err
	})
}

// Read returns the content of a file. A file that is removed meanwhile ends with an error.
func (s *Store) Read(ctx context.Context, f File) io.Reader {
	return &fileReader{ctx: ctx, s: s, f: f, left: f.Bytes}
}

type fileReader struct {
	ctx  context.Context
	s    *Store
	f    File
	left int64
	buf  []byte
	n    int
}

func (r *fileReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if len(r.buf) == 0 {
		row := r.s.db.QueryRowContext(r.ctx, "SELECT data FROM chunks WHERE file = ? AND n = ?", r.f.ID, r.n)
		if err := row.Scan(&r.buf); err != nil {
			return 0, fmt.Errorf("store: file %s: %w", r.f.ID, found(err))
		}
		r.n++
	}
	n := copy(p, r.buf)
	r.buf, r.left = r.buf[n:], r.left-int64(n)
	return n, nil
}
