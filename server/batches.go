package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/store"
)

// Bounds on batches.
const (
	maxBatchLines = 50_000         // requests of one
	maxBatches    = 1000           // that have not ended, of all keys
	batchWindow   = 24 * time.Hour // until one expires
	batchAtOnce   = 256            // requests of all batches that are answered at once
	batchesAtOnce = 4              // batches of one key that are read at once
)

// Why a batch ends early.
var (
	errBatchCancelled = errors.New("the batch was cancelled")
	errBatchExpired   = errors.New("the batch has expired")
)

// batchRun is a batch that is under way. later.mu guards what changes.
type batchRun struct {
	openai.Batch
	owner  string
	cancel context.CancelCauseFunc
	saving sync.Mutex // held from a change until it is stored
}

// now returns the batch as it is. The caller does not hold mu.
func (l *later) now(b *batchRun) openai.Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return b.Batch
}

// change changes a batch that is under way.
func (l *later) change(b *batchRun, f func(*openai.Batch)) openai.Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&b.Batch)
	return b.Batch
}

// save stores a changed batch that is under way, with the files that its results were written to, and only then shows
// the change: a client that sees a batch completed finds its files. f runs twice.
func (s *Server) save(b *batchRun, f func(*openai.Batch), files ...*store.FileWriter) (openai.Batch, error) {
	b.saving.Lock()
	defer b.saving.Unlock()
	next := s.later.now(b)
	f(&next)
	if err := putBatch(s.cfg.State, b.owner, &next, files...); err != nil {
		return next, err
	}
	return s.later.change(b, f), nil
}

// batchOf returns an owner's batch that is under way, nil if there is none.
func (l *later) batchOf(owner, id string) *batchRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.batches[id]; b != nil && b.owner == owner {
		return b
	}
	return nil
}

// putBatch stores a batch, and what its results were written to.
func putBatch(kept *store.Store, owner string, b *openai.Batch, files ...*store.FileWriter) error {
	body, err := wire.Encode(b)
	if err != nil {
		return err
	}
	ended := false
	switch b.Status {
	case openai.BatchFailed, openai.BatchCompleted, openai.BatchExpired, openai.BatchCancelled:
		ended = true
	}
	return kept.PutBatch(context.Background(), &store.Batch{ID: b.ID, Owner: owner, Created: b.CreatedAt, Ended: ended,
		Body: body}, files...)
}

// createBatch takes a file of requests, which are validated and answered in the background.
func (s *Server) createBatch(w http.ResponseWriter, r *http.Request) {
	q, err := read(w, r, openai.DecodeBatch)
	var kept *store.Store
	var f store.File
	if err == nil {
		kept, f, err = s.storedFile(r.Context(), q.InputFileID)
	}
	if bad := new(failure); errors.As(err, &bad) && bad.code == "not_found" {
		bad.param, bad.status = "input_file_id", http.StatusBadRequest
	}
	if err == nil && f.Purpose != openai.PurposeBatch {
		err = wire.Invalid("input_file_id", wire.CodeInvalidValue, "that file's purpose is %s; expected %s", f.Purpose,
			openai.PurposeBatch)
	}
	if err == nil && errors.Is(kept.Room(r.Context(), f.Owner, 0), store.ErrFull) {
		err = errNoSpace // for its results
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	now := time.Now()
	b := openai.Batch{ID: "batch_" + rand.Text(), Object: openai.ObjectBatch, Endpoint: q.Endpoint, InputFileID: f.ID,
		CompletionWindow: "24h", Status: openai.BatchValidating, CreatedAt: now.Unix(), ExpiresAt: now.Add(batchWindow).Unix(),
		Metadata: q.Metadata, OutputExpires: q.OutputExpires}
	if b.Metadata == nil {
		b.Metadata = map[string]string{}
	}
	if err = s.later.hasPlace(f.Owner); err == nil {
		err = putBatch(kept, f.Owner, &b)
	}
	if err == nil {
		s.startBatch(kept, f.Owner, b)
	}
	s.reply(w, r, b, err)
}

// resume goes on with the batches that the process before has left.
func (s *Server) resume() error {
	if s.cfg.State == nil {
		return nil
	}
	left, err := s.cfg.State.Unfinished(s.later.life)
	if err != nil {
		return err
	}
	for _, one := range left {
		var b openai.Batch
		if err := json.Unmarshal(one.Body, &b); err != nil {
			return err
		}
		done, err := s.cfg.State.Done(s.later.life, b.ID)
		if err == nil {
			count(&b, done)
			s.startBatch(s.cfg.State, one.Owner, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hasPlace refuses another batch of an owner if there are too many.
func (l *later) hasPlace(owner string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := 0
	for _, b := range l.batches {
		if b.owner == owner {
			own++
		}
	}
	if !fairShare(owner, own, len(l.batches), maxBatches) {
		return refuse(http.StatusTooManyRequests, "", "too_many_requests",
			"%d batches are under way already, %d of this API key.", len(l.batches), own)
	}
	return nil
}

// startBatch begins a batch, or goes on with it.
func (s *Server) startBatch(kept *store.Store, owner string, b openai.Batch) {
	ctx, cancel := context.WithCancelCause(s.later.life)
	run := &batchRun{Batch: b, owner: owner, cancel: cancel}
	s.later.mu.Lock()
	s.later.batches[b.ID] = run
	s.later.mu.Unlock()
	if b.Status == openai.BatchCancelling {
		cancel(errBatchCancelled)
	}
	s.later.run(func(context.Context) error { return s.runBatch(ctx, kept, run) }, func(err error) {
		if err != nil && s.later.life.Err() == nil {
			s.cfg.Logger.Error("a batch stopped; it goes on when the server is started again", "batch", b.ID, "error", err)
		}
		s.later.mu.Lock()
		delete(s.later.batches, b.ID)
		s.later.mu.Unlock()
		cancel(nil)
	})
}

// storedBatch returns the batch that a request names, as it is now.
func (s *Server) storedBatch(r *http.Request) (b openai.Batch, run *batchRun, err error) {
	kept, err := s.durable()
	if err != nil {
		return b, nil, err
	}
	owner, id := tenantOf(r.Context()).owner, pathID(r)
	if run = s.later.batchOf(owner, id); run != nil {
		return s.later.now(run), run, nil
	}
	one, err := kept.Batch(r.Context(), owner, id)
	if errors.Is(err, store.ErrNotFound) {
		return b, nil, refuse(http.StatusNotFound, "", "not_found", "No batch found with id '%s'.", wire.Clip([]byte(id)))
	}
	if err == nil {
		err = json.Unmarshal(one.Body, &b)
	}
	return b, nil, err
}

func (s *Server) batch(w http.ResponseWriter, r *http.Request) {
	b, _, err := s.storedBatch(r)
	s.reply(w, r, b, err)
}

func (s *Server) listBatches(w http.ResponseWriter, r *http.Request) {
	q := getQuery{values: r.URL.Query()}
	page := q.page(20, "desc")
	out := openai.Page[openai.Batch]{Object: openai.ObjectList, Data: []openai.Batch{}}
	err := q.err()
	var kept *store.Store
	if err == nil {
		kept, err = s.durable()
	}
	var list []store.Batch
	if err == nil {
		list, out.HasMore, err = kept.Batches(r.Context(), tenantOf(r.Context()).owner, page)
	}
	for _, one := range list {
		var b openai.Batch
		if run := s.later.batchOf(one.Owner, one.ID); run != nil {
			b = s.later.now(run)
		} else if err == nil {
			err = json.Unmarshal(one.Body, &b)
		}
		out.Data = append(out.Data, b)
	}
	if n := len(out.Data); n > 0 {
		out.FirstID, out.LastID = out.Data[0].ID, out.Data[n-1].ID
	}
	s.reply(w, r, out, err)
}

// cancelBatch ends a batch. What was answered by then is in its output.
func (s *Server) cancelBatch(w http.ResponseWriter, r *http.Request) {
	b, run, err := s.storedBatch(r)
	if err == nil && run == nil {
		err = refuse(http.StatusConflict, "", "batch_ended", "The batch is %s and cannot be cancelled.", b.Status)
	}
	if err == nil {
		b, err = s.save(run, func(b *openai.Batch) {
			switch b.Status {
			case openai.BatchValidating, openai.BatchInProgress:
				b.Status, b.CancellingAt = openai.BatchCancelling, time.Now().Unix()
			}
		})
		if b.Status == openai.BatchCancelling {
			run.cancel(errBatchCancelled)
		}
	}
	s.reply(w, r, b, err)
}
