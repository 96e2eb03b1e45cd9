package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	firstPiece  = 64 << 10  // of a body; there is room for at most four times what has come of a longer one
	leastMemory = 256 << 20 // for bodies, if the configuration does not say
)

// bodies counts the bytes of bodies from before they are read until their requests have ended.
type bodies struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by the names of accounts
}

// take takes bytes for a body, of which some are taken already, if there are so many: one account gets half of most. A
// quarter beyond most is for small bodies alone, so that these never wait for large ones.
func (b *bodies) take(who string, taken, n, most int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	limit := most
	if taken+n <= firstPiece {
		limit += most / 4
	}
	if b.all+n > limit || who != "" && b.of[who]+n > most/2 {
		return false
	}
	if b.of == nil {
		b.of = map[string]int{}
	}
	b.all += n
	b.of[who] += n
	return true
}

// give gives bytes back.
func (b *bodies) give(who string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.of[who] -= n; b.of[who] == 0 {
		delete(b.of, who)
	}
}

// who is the account that the request is counted for, "" if nobody is known.
func (x *exchange) who() string {
	if x.account == nil {
		return ""
	}
	return x.account.key.Name
}

// read reads the body of the request, whose bytes are held until release.
func (x *exchange) read() ([]byte, *refusal) {
	most, length := x.cfg.MaxBody, int(x.r.ContentLength)
	tooLarge := &refusal{status: http.StatusRequestEntityTooLarge, kind: "invalid_request_error", code: "too_large",
		message: "the request body has more than " + strconv.Itoa(most) + " bytes"}
	if length > most {
		return nil, tooLarge
	}
	if length < 0 {
		length = most + 1
	}
	control := http.NewResponseController(x.w)
	control.SetReadDeadline(time.Now().Add(x.cfg.Timeouts.Body)) // not of a writer in a test, which has none
	var raw []byte
	for {
		if len(raw) == cap(raw) {
			more := min(max(3*cap(raw), firstPiece), length-cap(raw))
			if more == 0 && length > most {
				return nil, tooLarge
			}
			if !x.g.bodies.take(x.who(), x.held, more, x.cfg.BodyMemory) {
				return nil, noRoom()
			}
			x.held += more
			raw = append(make([]byte, 0, cap(raw)+more), raw...)
		}
		n, err := x.r.Body.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		if errors.Is(err, io.EOF) && len(raw) <= most {
			control.SetReadDeadline(time.Time{}) // net/http goes on reading, to notice when the client goes away
			return raw, nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, &refusal{status: http.StatusRequestTimeout, kind: "invalid_request_error", code: "body_timeout",
				message: "the request body did not come within " + x.cfg.Timeouts.Body.String()}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, invalid("", "the request body cannot be read: "+err.Error())
		}
	}
}

// release gives back what the body takes.
func (x *exchange) release() {
	if x.held > 0 {
		x.g.bodies.give(x.who(), x.held)
		x.held = 0
	}
}

func noRoom() *refusal {
	return &refusal{status: http.StatusServiceUnavailable, kind: "server_error", code: "too_many_bytes", retry: time.Second,
		message: "the bodies of other requests take all the memory there is for them"}
}
