package guard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// timed is a writer that counts the deadlines it is given.
type timed struct {
	*httptest.ResponseRecorder
	write, read int
}

func (w *timed) SetWriteDeadline(time.Time) error { w.write++; return nil }
func (w *timed) SetReadDeadline(time.Time) error  { w.read++; return nil }

// TestEndedStream gives no deadline to a stream of HTTP/2 that its client has ended: it would stay in memory for it.
func TestEndedStream(t *testing.T) {
	for _, ended := range []bool{false, true} {
		ctx, end := context.WithCancel(t.Context())
		if ended {
			end()
		}
		r := httptest.NewRequestWithContext(ctx, "POST", "/", http.NoBody)
		r.ProtoMajor, r.ContentLength = 2, 100
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		a := NewAnswer(w, r, time.Minute)
		a.WriteHeader(http.StatusBadRequest)
		if _, err := a.Write([]byte("no")); err != nil {
			t.Fatal(err)
		}
		Dismiss(a, r)
		a.End()
		if got := w.write > 0 || w.read > 0; got == ended {
			t.Errorf("ended %v: %d deadlines of writes, %d of reads", ended, w.write, w.read)
		}
		end()
	}
}
