package tier

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/kv"
)

// TestReaderGoesOn lets a read panic, which is the error of that read, and then whoever is told of one: the next is
// read all the same.
func TestReaderGoesOn(t *testing.T) {
	var log strings.Builder // which is read once the reader is closed
	r := newReader(func(slot int32, _ kv.Name, _ []byte) error {
		if slot == 0 {
			panic("the disk is gone")
		}
		return nil
	}, slog.New(slog.NewTextHandler(&log, nil)))
	told := make(chan error)
	tell := func(_ time.Duration, err error) { told <- err }
	r.add(read{slot: 0, done: tell})
	r.add(read{slot: 1, done: func(time.Duration, error) { panic("nobody listens") }})
	r.add(read{slot: 2, done: tell})
	if p, err := new(guard.Panic), <-told; !errors.As(err, &p) || p.Value != "the disk is gone" {
		t.Errorf("a read that panics: %v", err)
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
	r.close()
	if !strings.Contains(log.String(), "nobody listens") {
		t.Errorf("the log has %q", log.String())
	}
}
