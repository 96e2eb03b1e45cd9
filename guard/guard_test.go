package guard_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/guard"
)

func TestGo(t *testing.T) {
	failed := errors.New("failed")
	ended := make(chan error)
	for _, c := range []struct {
		f    func() error
		want string
	}{
		{func() error { return nil }, ""},
		{func() error { return failed }, "failed"},
		{func() error { panic("boom") }, "panic: boom\n"},
		{func() error { return errors.New([]string{}[len(os.Args[:0])]) }, "guard_test.go"},
	} {
		guard.Go(c.f, func(err error) { ended <- err })
		err := <-ended
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v; want an error with %q", err, c.want)
		}
	}
}
