package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/kvasir-llm/kvasir/guard"
)

// Bounds on the bytes of requests.
const (
	defaultRequestMemory = 256 << 20
	bodyBase             = 4 << 20  // of the largest body, before what its model's context adds
	bodyPerToken         = 32       // a token's id takes up to 7 bytes as JSON, and its text, escaped, seldom more
	smallBody            = 64 << 10 // of a body, which never wait for those of larger ones
	decodeFactor         = 24       // bytes of memory for a byte of JSON while it is decoded; TestDecodingCosts measures it
	pieceBytes           = 16 << 10 // that are admitted at once
	lineFactor           = 4        // bytes of memory for a byte of a batch's line until it is answered
)

// bodies bounds what the bodies of all requests take: as they come, until their answers have ended, and while they are
// decoded; and what is kept of answers. What bodies are rendered and encoded to is bounded by the model (text.Model).
type bodies struct {
	read, decode *guard.Budget
	lines        *guard.Budget // of batches, until they are answered
	answers      *guard.Budget
	tenantMost   int64 // of read, and of answers, for one API key
	answersMost  int64
}

// newBodies shares memory among bodies.
func newBodies(memory int64) *bodies {
	b := &bodies{read: guard.NewBudget(memory/4, 0), decode: guard.NewBudget(memory/4+memory/8, guard.AtOnce),
		lines: guard.NewBudget(memory/8, 0), answers: guard.NewBudget(memory/4, 0), answersMost: memory / 4}
	b.tenantMost = memory / 8
	return b
}

// boundBodies decides how large bodies may be, each and together.
func (s *Server) boundBodies() error {
	most := cmp.Or(s.cfg.MaxBodyBytes, bodyBase+bodyPerToken*int64(s.context))
	all := cmp.Or(s.cfg.RequestMemory, max(defaultRequestMemory, 8*most))
	if most < 1 || all/8 < most {
		return fmt.Errorf("server: max-body is %d bytes and request-memory %d; want at least 1, and at least 8 times as much", most, all)
	}
	s.cfg.MaxBodyBytes, s.bodies = most, newBodies(all)
	return nil
}

// errBusy refuses a body for which there is no memory now.
var errBusy = refuse(http.StatusServiceUnavailable, "", "too_many_bytes",
	"The bodies of other requests take all the memory there is for them (--request-memory). Please try again shortly.")

// body is the body of a request, whose bytes are admitted before they are read and held until release.
type body struct {
	io.ReadCloser
	of           *bodies
	tenant       *tenant
	counted      bool   // what is read is in memory already, and counted there
	small, large int64  // bytes held
	closed       func() // ends what unpacks it, if something does
}

func (b *body) Read(p []byte) (int, error) {
	if b.counted {
		return b.ReadCloser.Read(p)
	}
	p = p[:min(len(p), pieceBytes)]
	want := int64(len(p))
	small, err := b.admit(want)
	if err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.of.read.Give(small, want-int64(n))
	b.tenant.held.Add(int64(n) - want)
	b.note(small, int64(n))
	return n, err
}

// admit takes bytes for the body, from what is for small ones or for large ones.
func (b *body) admit(want int64) (small bool, err error) {
	small = b.small+want <= smallBody
	if b.tenant.held.Add(want) > b.of.tenantMost && b.tenant.Name != "" || !b.of.read.Try(small, want) {
		b.tenant.held.Add(-want)
		return small, errBusy
	}
	return small, nil
}

func (b *body) note(small bool, n int64) {
	if small {
		b.small += n
	} else {
		b.large += n
	}
}

// hold takes bytes until release.
func (b *body) hold(n int64) error {
	small, err := b.admit(n)
	if err == nil {
		b.note(small, n)
	}
	return err
}

// release gives back what is held.
func (b *body) release() {
	if b.closed != nil {
		b.closed()
	}
	b.of.read.Give(true, b.small)
	b.of.read.Give(false, b.large)
	b.tenant.held.Add(-b.small - b.large)
	b.small, b.large = 0, 0
}

// keep hands over what is held, beyond the end of the request, to whoever calls release.
func (b *body) keep() (release func()) {
	kept := &body{of: b.of, tenant: b.tenant, small: b.small, large: b.large}
	b.small, b.large = 0, 0
	return kept.release
}

// recall takes memory for n stored bytes that the request needs, until release, and to decode them, until done is
// called.
func (b *body) recall(ctx context.Context, n int64) (done func(), err error) {
	if err := b.hold(n); err != nil {
		return nil, err
	}
	return b.of.decode.Acquire(ctx, decodeFactor*n)
}

// bodyOf returns the body of a request as ServeHTTP and Answer make it.
func bodyOf(r *http.Request) *body { return r.Body.(*body) }

// take reads all of the body and decodes it, when there is memory for that.
func take[T any](r *http.Request, decode func([]byte) (*T, error), opened func()) (*T, error) {
	data, err := io.ReadAll(r.Body)
	if busy := new(failure); errors.As(err, &busy) {
		return nil, busy
	} else if large := new(http.MaxBytesError); errors.As(err, &large) {
		return nil, err
	} else if err != nil {
		return nil, refuse(http.StatusBadRequest, "", "unreadable_body", "Reading the request body: %v.", err)
	}
	opened()
	release, err := bodyOf(r).of.decode.Acquire(r.Context(), decodeFactor*int64(len(data)))
	if err != nil {
		return nil, err
	}
	defer release()
	return decode(data)
}
