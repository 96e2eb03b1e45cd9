package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/store"
)

// runBatch takes a batch from where it is to its end. An error, or the end of the server, leaves it to be resumed.
func (s *Server) runBatch(ctx context.Context, kept *store.Store, run *batchRun) error {
	now := s.later.now(run)
	ctx, cancel := context.WithDeadlineCause(ctx, time.Unix(now.ExpiresAt, 0), errBatchExpired)
	defer cancel()
	done, err := s.later.turn(ctx, run.owner)
	if err != nil {
		if s.later.life.Err() != nil {
			return errShutdown
		}
		return s.finishBatch(kept, run, err) // cancelled or expired
	}
	defer done()
	if now.Status == openai.BatchValidating {
		ok, err := s.validate(ctx, kept, run)
		if !ok || err != nil {
			return err
		}
	}
	if err := s.answerLines(ctx, kept, run); err != nil {
		return err
	}
	return s.finishBatch(kept, run, context.Cause(ctx))
}

// turn waits until few of an owner's batches are read, since each takes memory, and reads of the database, from the
// batches of others. done ends the turn.
func (l *later) turn(ctx context.Context, owner string) (done func(), err error) {
	l.mu.Lock()
	places := l.turns[owner]
	if places == nil {
		places = make(chan struct{}, batchesAtOnce)
		l.turns[owner] = places
	}
	l.mu.Unlock()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// lines yields the requests of a file with their numbers, from 0. Empty lines have none.
func (s *Server) lines(ctx context.Context, kept *store.Store, owner, file string,
	each func(n int, line []byte) error) error {
	f, err := kept.File(ctx, owner, file, 0) // also if it expires meanwhile
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(kept.Read(ctx, f), 64<<10)
	for n := 0; ; {
		line, err := readLine(in, s.cfg.MaxBodyBytes)
		if n == 0 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // that editors of some systems write
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := each(n, line); err != nil {
				return err
			}
			n++
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// errLongLine is a line that is larger than a request may be.
var errLongLine = errors.New("the line is too long")

// readLine reads up to the end of a line, of at most most bytes.
func readLine(in *bufio.Reader, most int64) (line []byte, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if line = append(line, piece...); int64(len(line)) > most {
			return nil, errLongLine
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// maxBatchErrors bounds the errors that a batch lists.
const maxBatchErrors = 100

// validate reads all requests of a batch. ok is false if it has ended: with an error in them, or early.
func (s *Server) validate(ctx context.Context, kept *store.Store, run *batchRun) (ok bool, err error) {
	b := s.later.now(run)
	seen := map[[16]byte]int{} // by digests of the ids
	var wrong []openai.BatchError
	note := func(n int, code, param, message string) {
		if len(wrong) < maxBatchErrors {
			at := n + 1
			wrong = append(wrong, openai.BatchError{Code: code, Line: &at, Param: param, Message: message})
		}
	}
	total := 0
	err = s.lines(ctx, kept, run.owner, b.InputFileID, func(n int, line []byte) error {
		total = n + 1
		one, err := openai.DecodeBatchLine(line)
		if bad := new(wire.Error); errors.As(err, &bad) {
			note(n, bad.Code, bad.Path, bad.Message)
			return nil
		}
		sum := sha256.Sum256([]byte(one.CustomID))
		id := [16]byte(sum[:])
		if before, twice := seen[id]; twice {
			note(n, "duplicate_custom_id", "custom_id", fmt.Sprintf("line %d has the same custom_id", before+1))
		}
		seen[id] = n
		if one.URL != b.Endpoint {
			note(n, "mismatched_url", "url", fmt.Sprintf("expected %s, the endpoint of the batch", b.Endpoint))
		}
		if n == maxBatchLines {
			note(n, "too_many_requests", "", fmt.Sprintf("a batch may have %d requests", maxBatchLines))
			return io.EOF
		}
		return nil
	})
	switch {
	case errors.Is(err, errLongLine):
		note(total, "line_too_long", "", fmt.Sprintf("a request may have %d bytes", s.cfg.MaxBodyBytes))
	case errors.Is(err, store.ErrNotFound):
		note(total, "file_not_found", "input_file_id", "the file was removed")
	case ctx.Err() != nil && s.later.life.Err() == nil: // cancelled or expired
		return false, s.finishBatch(kept, run, context.Cause(ctx))
	case err != nil && err != io.EOF:
		return false, err
	case total == 0:
		note(0, "empty_file", "input_file_id", "the file has no request")
	}
	now := time.Now().Unix()
	if wrong != nil {
		_, err = s.save(run, func(b *openai.Batch) {
			b.Status, b.FailedAt = openai.BatchFailed, now
			b.Errors = &openai.BatchErrors{Object: openai.ObjectList, Data: wrong}
		})
		return false, err
	}
	_, err = s.save(run, func(b *openai.Batch) {
		if b.InProgressAt, b.RequestCounts.Total = now, total; b.Status == openai.BatchValidating {
			b.Status = openai.BatchInProgress
		}
	})
	return true, err
}

// answerLines answers the requests of a batch that have no result yet, many at once, until ctx ends.
func (s *Server) answerLines(ctx context.Context, kept *store.Store, run *batchRun) error {
	b := s.later.now(run)
	done, err := kept.Done(s.later.life, b.ID)
	if err != nil {
		return err
	}
	t := s.ring().owner(run.owner)
	work := context.WithValue(ctx, backgroundKey{}, b.ID)
	results := make(chan store.Result, batchAtOnce)
	var under sync.WaitGroup
	written := make(chan error, 1)
	guard.Go(func() error { return s.writeResults(kept, run, results) }, func(err error) { written <- err })
	err = s.lines(ctx, kept, run.owner, b.InputFileID, func(n int, line []byte) error {
		if _, ok := done[n]; ok {
			return nil
		}
		one, err := openai.DecodeBatchLine(line)
		if err != nil {
			return err // it was read before
		}
		release, err := s.bodies.lines.Acquire(ctx, lineFactor*int64(len(line)))
		if err != nil {
			return err
		}
		select {
		case s.later.lines <- struct{}{}:
		case <-ctx.Done():
			release()
			return context.Cause(ctx)
		}
		under.Add(1)
		guard.Go(func() error {
			if t == nil {
				results <- unanswered(n, one, "invalid_api_key", "The API key of the batch is none of those that the server has.")
			} else if response := s.Answer(from(work, t), one); response != nil {
				results <- result(n, one, response, nil)
			}
			return nil
		}, func(err error) {
			if err != nil {
				s.cfg.Logger.Error("a request of a batch failed", "batch", b.ID, "line", n+1, "error", err)
				results <- unanswered(n, one, "internal_error", "The server made a mistake.")
			}
			<-s.later.lines
			release()
			under.Done()
		})
		return nil
	})
	under.Wait()
	close(results)
	if failed := <-written; failed != nil {
		return failed
	}
	if s.later.life.Err() != nil {
		return errShutdown
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// count sets the counts of a batch to those of the lines that are done.
func count(b *openai.Batch, done map[int]bool) {
	failed := 0
	for _, one := range done {
		if one {
			failed++
		}
	}
	b.RequestCounts.Completed, b.RequestCounts.Failed = len(done)-failed, failed
}

// writeResults stores results as they come, those that come together in one transaction.
func (s *Server) writeResults(kept *store.Store, run *batchRun, results <-chan store.Result) (failed error) {
	for r := range results {
		page := []store.Result{r}
	more:
		for {
			select {
			case r, ok := <-results:
				if !ok {
					break more
				}
				page = append(page, r)
			default:
				break more
			}
		}
		if failed != nil {
			continue // whoever sends must not wait
		}
		if failed = kept.PutResults(context.Background(), run.ID, page); failed != nil {
			run.cancel(failed)
			continue
		}
		s.later.change(run, func(b *openai.Batch) {
			for _, r := range page {
				if r.Failed {
					b.RequestCounts.Failed++
				} else {
					b.RequestCounts.Completed++
				}
			}
		})
	}
	return failed
}

// result writes a line of an output, for the n-th line of the input.
func result(n int, one *openai.BatchLine, response *openai.BatchResponse, problem *openai.BatchRequestError) store.Result {
	body, err := wire.Encode(&openai.BatchResult{ID: "batch_req_" + rand.Text(), CustomID: one.CustomID, Response: response,
		Error: problem})
	if err != nil { // all members are of the kinds that encoding/json takes, and answers are JSON
		panic(err)
	}
	return store.Result{Line: n, Failed: response == nil || response.StatusCode != http.StatusOK, Body: body}
}

// unanswered is the result of a request without an answer.
func unanswered(n int, one *openai.BatchLine, code, message string) store.Result {
	return result(n, one, nil, &openai.BatchRequestError{Code: code, Message: message})
}

// backgroundKey marks the context of requests in the background; the value is the id of their batch.
type backgroundKey struct{}

// busyPause is how long a request of a batch waits before it is asked again, if the server has no place for it now.
const busyPause = 500 * time.Millisecond

// Answer answers a request of a batch as if it had come over HTTP, and waits as long as there is no place for it. It
// returns nil if ctx ends before.
func (s *Server) Answer(ctx context.Context, one *openai.BatchLine) *openai.BatchResponse {
	if tenantOf(ctx) == nil {
		ctx = from(ctx, s.ring().nobody)
	}
	ctx, letGo := s.holding(ctx)
	defer letGo()
	var how struct {
		Stream     bool `json:"stream"`
		Background bool `json:"background"`
	}
	json.Unmarshal(one.Body, &how) // what is wrong with it, decoding finds
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, one.URL, bytes.NewReader(one.Body))
		if err != nil { // the URL is one of a few
			panic(err)
		}
		in := &body{ReadCloser: r.Body, of: s.bodies, tenant: tenantOf(ctx), counted: true}
		r.Body = in
		w := &answered{header: http.Header{}, status: http.StatusOK}
		id := rand.Text()
		w.header.Set(requestID, id)
		found, ok := s.find(r)
		span := s.tracedLine(r, found, id, one)
		r = r.WithContext(withTrace(ctx, span, id))
		func() {
			defer in.release()
			if !ok {
				s.fail(w, r, refuse(http.StatusNotFound, "", "unknown_url", "Unknown URL: %s.", one.URL))
			} else if how.Stream || how.Background {
				s.fail(w, r, wire.Invalid("stream", wire.CodeInvalidValue, "stream and background must be false in a batch"))
			} else {
				found.handler(w, r)
			}
		}()
		if ctx.Err() != nil {
			return nil
		}
		if w.status != http.StatusTooManyRequests && w.status != http.StatusServiceUnavailable {
			endTrace(span, w.status)
			return &openai.BatchResponse{StatusCode: w.status, RequestID: id, Body: bytes.TrimSpace(w.body.Bytes())}
		}
		select {
		case <-time.After(busyPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// answered is an http.ResponseWriter that keeps an answer.
type answered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answered) Header() http.Header         { return a.header }
func (a *answered) WriteHeader(status int)      { a.status = status }
func (a *answered) Write(p []byte) (int, error) { return a.body.Write(p) }

// finishBatch writes the results of a batch to files and ends it. why is nil if all requests are done.
func (s *Server) finishBatch(kept *store.Store, run *batchRun, why error) error {
	now := time.Now().Unix()
	s.later.change(run, func(b *openai.Batch) {
		if b.FinalizingAt = now; b.Status != openai.BatchCancelling {
			b.Status = openai.BatchFinalizing
		}
	})
	if errors.Is(why, errBatchExpired) {
		if err := s.expireLines(kept, run); err != nil {
			return err
		}
	}
	var files [2]*store.FileWriter
	for i, name := range []string{"output", "errors"} {
		var err error
		if files[i], err = s.writeFile(kept, run, name, i == 1); err != nil {
			return err
		}
	}
	now = time.Now().Unix()
	_, err := s.save(run, func(b *openai.Batch) {
		switch {
		case errors.Is(why, errBatchExpired):
			b.Status, b.ExpiredAt = openai.BatchExpired, now
		case why != nil:
			b.Status, b.CancelledAt = openai.BatchCancelled, now
		default:
			b.Status, b.CompletedAt = openai.BatchCompleted, now
		}
		if files[0] != nil {
			b.OutputFileID = files[0].File.ID
		}
		if files[1] != nil {
			b.ErrorFileID = files[1].File.ID
		}
	}, files[:]...)
	return err
}

// expireLines gives an error to the requests of a batch that have no result.
func (s *Server) expireLines(kept *store.Store, run *batchRun) error {
	ctx := context.Background()
	done, err := kept.Done(ctx, run.ID)
	if err != nil {
		return err
	}
	var late []store.Result
	err = s.lines(ctx, kept, run.owner, run.InputFileID, func(n int, line []byte) error {
		if _, ok := done[n]; ok {
			return nil
		}
		one, err := openai.DecodeBatchLine(line)
		if err != nil {
			return err
		}
		late = append(late, unanswered(n, one, "batch_expired",
			"This request could not be executed before the completion window expired."))
		done[n] = true
		return nil
	})
	if errors.Is(err, store.ErrNotFound) { // the input was removed
		err = nil
	}
	if err == nil {
		err = kept.PutResults(ctx, run.ID, late)
	}
	s.later.change(run, func(b *openai.Batch) { count(b, done) })
	return err
}

// writeFile writes results to a new file, nil if there are none.
func (s *Server) writeFile(kept *store.Store, run *batchRun, name string, failed bool) (w *store.FileWriter, err error) {
	f := store.File{ID: "file-" + rand.Text(), Owner: run.owner, Created: time.Now().Unix(),
		Name: run.ID + "_" + name + ".jsonl", Purpose: openai.PurposeOutput}
	if run.OutputExpires > 0 {
		f.Expires = f.Created + run.OutputExpires
	}
	for r, err := range kept.Results(context.Background(), run.ID, failed) {
		if err != nil {
			return nil, err
		}
		if w == nil {
			w = kept.NewResults(f)
		}
		if _, err := w.Write(r.Body); err != nil {
			return nil, err
		}
	}
	return w, nil
}
