package store

import (
	"context"
	"database/sql"
	"iter"
)

// Batch is a batch of requests. Its body is what the caller made of it.
type Batch struct {
	ID, Owner string
	Created   int64 // seconds since 1970
	Ended     bool  // nothing is left to be done
	Body      []byte
}

// mostEnded is how many batches of an owner are kept that have ended.
const mostEnded = 10_000

// PutBatch stores a batch, in place of one with its ID, together with files that its results were written to, which may
// be nil. One that ends loses its results, and is not changed any more; the owner's oldest may be forgotten for it.
func (s *Store) PutBatch(ctx context.Context, b *Batch, files ...*FileWriter) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		for _, w := range files {
			if w == nil {
				continue
			}
			if err := w.commit(ctx, tx); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO batches (id, owner, created, ended, body) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET ended = excluded.ended, body = excluded.body WHERE NOT ended`,
			b.ID, b.Owner, b.Created, b.Ended, bytesOf(b.Body))
		if err == nil && b.Ended {
			_, err = tx.ExecContext(ctx, "DELETE FROM results WHERE batch = ?", b.ID)
		}
		if err == nil && b.Ended {
			_, err = tx.ExecContext(ctx, `DELETE FROM batches WHERE owner = ?1 AND ended AND rowid <= (SELECT rowid FROM batches
				WHERE owner = ?1 AND ended ORDER BY rowid DESC LIMIT 1 OFFSET ?2)`, b.Owner, mostEnded)
		}
		return err
	})
	for _, w := range files {
		if err == nil && w != nil {
			w.end()
		}
	}
	return err
}

// Batch returns an owner's batch.
func (s *Store) Batch(ctx context.Context, owner, id string) (*Batch, error) {
	b := &Batch{ID: id, Owner: owner}
	row := s.db.QueryRowContext(ctx, "SELECT created, ended, body FROM batches WHERE id = ? AND owner = ?", id, owner)
	if err := row.Scan(&b.Created, &b.Ended, &b.Body); err != nil {
		return nil, found(err)
	}
	return b, nil
}

// Batches lists an owner's batches, and reports whether there are more.
func (s *Store) Batches(ctx context.Context, owner string, p Page) ([]Batch, bool, error) {
	var out []Batch
	more, err := s.list(ctx, "id, created, ended, body", "batches", owner, "TRUE", p, nil, func(rows *sql.Rows) error {
		b := Batch{Owner: owner}
		defer func() { out = append(out, b) }()
		return rows.Scan(&b.ID, &b.Created, &b.Ended, &b.Body)
	})
	if more {
		out = out[:p.Limit]
	}
	return out, more, err
}

// Unfinished returns the batches of all owners that have not ended, the oldest first.
func (s *Store) Unfinished(ctx context.Context) ([]Batch, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT id, owner, created, body FROM batches WHERE ended = 0 ORDER BY created, rowid")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Batch
	for rows.Next() {
		var b Batch
		if err := rows.Scan(&b.ID, &b.Owner, &b.Created, &b.Body); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, rows.Err()
}

// Result is what became of a line of a batch.
type Result struct {
	Line   int // from 0
	Failed bool
	Body   []byte
}

// PutResults stores results of a batch. A line that has one already keeps it.
func (s *Store) PutResults(ctx context.Context, batch string, results []Result) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		for _, r := range results {
			_, err := tx.ExecContext(ctx, "INSERT INTO results (batch, line, failed, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
				batch, r.Line, r.Failed, bytesOf(r.Body))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Done returns which lines of a batch have results, and whether they failed.
func (s *Store) Done(ctx context.Context, batch string) (map[int]bool, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT line, failed FROM results WHERE batch = ?", batch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[int]bool{}
	for rows.Next() {
		var line int
		var failed bool
		if err := rows.Scan(&line, &failed); err != nil {
			return nil, err
		}
		out[line] = failed
	}
	return out, rows.Err()
}

// Results yields the results of a batch in the order of their lines: those that failed, or the others. It holds no more
// than a few at once.
func (s *Store) Results(ctx context.Context, batch string, failed bool) iter.Seq2[Result, error] {
	const few = 64
	return func(yield func(Result, error) bool) {
		for last := -1; ; {
			page, err := s.resultsAfter(ctx, batch, failed, last, few)
			if err != nil {
				yield(Result{}, err)
				return
			}
			for _, r := range page {
				if last = r.Line; !yield(r, nil) {
					return
				}
			}
			if len(page) < few {
				return
			}
		}
	}
}

func (s *Store) resultsAfter(ctx context.Context, batch string, failed bool, last, most int) ([]Result, error) {
	rows, err := s.db.QueryContext(ctx,
		"SELECT line, body FROM results WHERE batch = ? AND failed = ? AND line > ? ORDER BY line LIMIT ?", batch, failed, last, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Result
	for rows.Next() {
		r := Result{Failed: failed}
		if err := rows.Scan(&r.Line, &r.Body); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
