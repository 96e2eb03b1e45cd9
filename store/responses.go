package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Response is an answer that was stored. Its bodies are what the caller made of it.
type Response struct {
	ID, Owner string
	Created   int64  // seconds since 1970
	Previous  string // the response that it continues; "" is none
	Status    string
	Body      []byte // of the answer
	Input     []byte // the items of the request
	Events    []byte // of its stream, if they are kept
}

func (r *Response) size() int64 { return int64(len(r.Body) + len(r.Input) + len(r.Events) + 256) }

// errTooLarge refuses what is larger than all that a Store may hold.
var errTooLarge = errors.New("store: too large")

// PutResponse stores a response, in place of one with its ID. Beyond the Limits, the oldest responses go, of the owner
// whose responses take most.
func (s *Store) PutResponse(ctx context.Context, r *Response) error {
	size := r.size()
	if s.limits.ResponseBytes > 0 && size > s.limits.ResponseBytes {
		return fmt.Errorf("%w: a response of %d bytes; %d are kept", errTooLarge, size, s.limits.ResponseBytes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var before int64
	err := s.write(ctx, func(tx *sql.Tx) error {
		row := tx.QueryRowContext(ctx, "SELECT size FROM responses WHERE id = ? AND owner = ?", r.ID, r.Owner)
		if err := row.Scan(&before); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO responses (id, owner, created, previous, status, body, input, events, size)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET status = excluded.status, body = excluded.body,
			input = excluded.input, events = excluded.events, size = excluded.size WHERE owner = excluded.owner`,
			r.ID, r.Owner, r.Created, r.Previous, r.Status, bytesOf(r.Body), bytesOf(r.Input), bytesOf(r.Events), size)
		return err
	})
	if err != nil {
		return err
	}
	h := s.held[r.Owner]
	if h == nil {
		h = &held{}
		s.held[r.Owner] = h
	}
	if before == 0 {
		h.n++
	}
	h.bytes += size - before
	return s.shrink(ctx, r)
}

// bytesOf makes of nil a value that is not NULL.
func bytesOf(b []byte) []byte { return append([]byte{}, b...) }

// shrink removes responses until the rest is within the limits, but not the one that was put last. The caller holds mu.
func (s *Store) shrink(ctx context.Context, last *Response) error {
	for {
		n, bytes, most := 0, int64(0), ""
		for owner, h := range s.held {
			n, bytes = n+h.n, bytes+h.bytes
			if owner == last.Owner && h.n == 1 {
				continue
			}
			if most == "" || h.bytes > s.held[most].bytes || h.bytes == s.held[most].bytes && owner < most {
				most = owner
			}
		}
		if (s.limits.Responses == 0 || n <= s.limits.Responses) &&
			(s.limits.ResponseBytes == 0 || bytes <= s.limits.ResponseBytes) {
			return nil
		}
		var id string
		err := s.db.QueryRowContext(ctx, "SELECT id FROM responses WHERE owner = ? AND id <> ? ORDER BY created, rowid LIMIT 1",
			most, last.ID).Scan(&id)
		if err == nil {
			err = s.remove(ctx, most, id)
		}
		if err != nil {
			return found(err)
		}
	}
}

// remove removes a response. The caller holds mu.
func (s *Store) remove(ctx context.Context, owner, id string) error {
	var size int64
	err := s.db.QueryRowContext(ctx, "DELETE FROM responses WHERE id = ? AND owner = ? RETURNING size", id, owner).Scan(&size)
	if err != nil {
		return found(err)
	}
	h := s.held[owner]
	h.n, h.bytes = h.n-1, h.bytes-size
	if h.n == 0 {
		delete(s.held, owner)
	}
	return nil
}

// Response returns an owner's response.
func (s *Store) Response(ctx context.Context, owner, id string) (*Response, error) {
	r := &Response{ID: id, Owner: owner}
	row := s.db.QueryRowContext(ctx,
		"SELECT created, previous, status, body, input, events FROM responses WHERE id = ? AND owner = ?", id, owner)
	if err := row.Scan(&r.Created, &r.Previous, &r.Status, &r.Body, &r.Input, &r.Events); err != nil {
		return nil, found(err)
	}
	return r, nil
}

// DeleteResponse removes an owner's response.
func (s *Store) DeleteResponse(ctx context.Context, owner, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(ctx, owner, id)
}

// ResponsesWith returns the responses of all owners that have a status, such as those that a process left unfinished.
func (s *Store) ResponsesWith(ctx context.Context, status string) ([]Response, error) {
	rows, err := s.db.QueryContext(ctx,
		"SELECT id, owner, created, previous, status, body, input, events FROM responses WHERE status = ?", status)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Response
	for rows.Next() {
		var r Response
		if err := rows.Scan(&r.ID, &r.Owner, &r.Created, &r.Previous, &r.Status, &r.Body, &r.Input, &r.Events); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
