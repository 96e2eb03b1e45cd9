package server

import (
	"context"
	"net/http"
	"time"
)

const (
	refusalTime     = 100 * time.Millisecond
	mostSlowRefused = 256
)

// refusals holds refusals back for refusalTime. A client that asks again as soon as it is refused otherwise takes as
// much of the processors as others for their answers. Beyond mostSlowRefused, refusals are sent at once.
type refusals chan struct{}

func newRefusals() refusals { return make(refusals, mostSlowRefused) }

// hold waits, if a status says that a request is refused for its key or for too many requests, and its client is there.
// All that the request held is to be free, but for its connection.
func (r refusals) hold(ctx context.Context, status int) {
	if status != http.StatusTooManyRequests && status != http.StatusUnauthorized {
		return
	}
	select {
	case r <- struct{}{}:
	default:
		return
	}
	defer func() { <-r }()
	wait := time.NewTimer(refusalTime)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}
