package server

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
)

// stream writes a job's answer as server-sent events, each as soon as it is there.
type stream struct {
	*job
	encoder    *openai.Encoder
	usageLast  bool // a last event tells the usage of everything
	usageEvery bool // each event tells the usage of its choice so far
	timeout    time.Duration

	mu    sync.Mutex // guards the rest
	w     http.ResponseWriter
	flush *http.ResponseController
	buf   []byte // reused for each write
	begun bool   // something was written
	wrote bool   // something was written since the last ping was due
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, j *job) {
	out := &stream{job: j, timeout: s.cfg.WriteTimeout, w: w, flush: http.NewResponseController(w)}
	if o := j.sampling.StreamOptions; o != nil {
		out.usageLast, out.usageEvery = o.IncludeUsage, o.ContinuousUsageStats
	}
	object := openai.ObjectCompletion
	if j.chat {
		object = openai.ObjectChatChunk
	}
	out.encoder = openai.NewEncoder(object, j.id, j.title(), j.created, out.usageLast)
	err := out.run(r.Context(), s.cfg.Ping)
	defer out.flush.SetWriteDeadline(time.Time{}) // the connection may serve another request
	switch {
	case err == nil:
		out.end()
	case !out.begun:
		s.fail(w, r, err)
	default:
		if f := classify(err); f.status != statusGone {
			s.cfg.Logger.Error("a stream broke", "id", w.Header().Get(requestID), "error", err)
			out.send(func(dst []byte) []byte { return openai.AppendErrorEvent(dst, f.body) })
		}
	}
}

// run writes the events of all choices. Until it returns, comments are sent where a silence lasts longer than ping.
func (o *stream) run(ctx context.Context, ping time.Duration) error {
	if ping > 0 {
		var wg sync.WaitGroup
		stop := make(chan struct{})
		wg.Go(func() { o.ping(ping, stop) })
		defer wg.Wait()
		defer close(stop)
	}
	return o.each(ctx, o.choice)
}

// choice writes the events of one choice.
func (o *stream) choice(ctx context.Context, c *choice) error {
	var p openai.Piece
	for {
		d, err := c.next(ctx, o.job)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		p = openai.Piece{Index: c.index, Text: d.Text, Finish: d.Finish}
		if o.logprobs && o.chat {
			p.Chat = chatLogprobs(d.Tokens)
		} else if o.logprobs {
			p.Logprobs = o.completionLogprobs(c, d.Tokens, c.first && c.echo)
		}
		if o.sampling.ReturnTokenIDs {
			p.TokenIDs = d.IDs
		}
		if o.usageEvery {
			p.Usage = o.job.usage([]*choice{c})
		}
		if err := o.piece(c, &p); err != nil {
			return err
		}
	}
}

// piece writes the events of one piece: a chat's role comes first, and its finish last, in events of their own.
func (o *stream) piece(c *choice, p *openai.Piece) error {
	role, finish := o.chat && c.first, p.Finish
	apart := o.chat && finish != "" && (p.Text != "" || len(p.Chat) > 0)
	var prompt []int32
	if c.first && o.sampling.ReturnTokenIDs {
		prompt = c.request.IDs
	}
	c.first = false
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = o.buf[:0]
	if role {
		o.buf = o.encoder.AppendPiece(o.buf, &openai.Piece{Index: p.Index, Role: true, Prompt: prompt, Usage: p.Usage})
		prompt = nil
	}
	p.Prompt = prompt
	if apart {
		p.Finish = ""
		o.buf = o.encoder.AppendPiece(o.buf, p)
		*p = openai.Piece{Index: p.Index, Finish: finish, Usage: p.Usage}
	}
	o.buf = o.encoder.AppendPiece(o.buf, p)
	return o.write()
}

// send writes an event that no choice owns. An error means that nobody reads, which the next piece finds out too.
func (o *stream) send(event func([]byte) []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = event(o.buf[:0])
	return o.write()
}

// write sends buf. The caller holds mu.
func (o *stream) write() error {
	if !o.begun {
		h := o.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // nginx must not hold events back
		o.begun = true
	}
	o.wrote = true
	if err := o.flush.SetWriteDeadline(time.Now().Add(o.timeout)); err != nil && !unsupported(err) {
		return gone(err)
	}
	if _, err := o.w.Write(o.buf); err != nil {
		return gone(err)
	}
	if err := o.flush.Flush(); err != nil && !unsupported(err) {
		return gone(err)
	}
	return nil
}

// end writes what comes after all choices.
func (o *stream) end() {
	o.send(func(dst []byte) []byte {
		if o.usageLast {
			dst = o.encoder.AppendUsage(dst, o.job.usage(o.choices))
		}
		return append(dst, openai.Done...)
	})
}

// ping writes a comment whenever nothing was written for as long as every, until stop is closed.
func (o *stream) ping(every time.Duration, stop <-chan struct{}) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		o.mu.Lock()
		if !o.wrote {
			o.buf = append(o.buf[:0], ": ping\n\n"...)
			o.write()
		}
		o.wrote = false
		o.mu.Unlock()
	}
}
