package bench

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeTarget takes 100 ms to the first of its pieces and 10 ms for each other; it fails what says "fail".
type fakeTarget struct {
	mu            sync.Mutex
	running, most int
	prompts       []string
}

func (f *fakeTarget) Answer(ctx context.Context, conversation []Message, output int, piece func()) (Answer, error) {
	var text []byte
	for _, m := range conversation {
		text = append(text, m.Role[0], ':')
		for _, p := range m.Parts {
			text = append(p.appendText(text), ' ')
		}
	}
	f.mu.Lock()
	f.running++
	f.most = max(f.most, f.running)
	f.prompts = append(f.prompts, string(text))
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
	}()
	wait := 100 * tick
	for range output {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
		wait = 10 * tick
		if strings.Contains(string(text), "fail") {
			return Answer{}, errors.New("it says fail")
		}
		piece()
	}
	return Answer{Said: Part{Text: "answer"}, Prompt: 10, Cached: 5, Generated: output}, nil
}

// talk is a conversation that says each of the texts in turn and wants 5 tokens each time.
func talk(at time.Duration, texts ...string) Conversation {
	c := Conversation{At: at}
	for _, text := range texts {
		c.Turns = append(c.Turns, Turn{[]Message{{"user", []Part{{Text: text}}}}, 5})
	}
	return c
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, told := &fakeTarget{}, []Progress(nil)
		o := LoadOptions{Clients: 2, Duration: time.Minute, Progress: func(p Progress) { told = append(told, p) }, Every: 50 * tick}
		rep, err := Load(t.Context(), f, []Conversation{talk(0, "a"), talk(0, "b"), talk(0, "c"), talk(0, "d"), talk(0, "e")}, o)
		if err != nil {
			t.Fatal(err)
		}
		if f.most != 2 || rep.Elapsed != 3*140*tick {
			t.Errorf("%d at once, %v in all; want 2 and three times 140 ms", f.most, rep.Elapsed)
		}
		want := Summary{100, 100, 100, 100, 100}
		if rep.Requests != 5 || rep.Failed != 0 || rep.TTFT != want || rep.TPOT.P50 != 10 || rep.ITL.P99 != 10 || rep.E2E.Mean != 140 || rep.HitRate != 0.5 {
			t.Errorf("%+v", rep)
		}
		last := told[len(told)-1]
		if len(told) < 8 || !last.Over || last.Ended != 5 || last.Running != 0 || last.Pieces != 25 || last.Conversations != 5 {
			t.Errorf("%d times told of progress, at last %+v", len(told), last)
		}
	})
}

func TestOpenLoopWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTarget{}
		rep, err := Load(t.Context(), f, []Conversation{talk(0, "a"), talk(20*tick, "b"), talk(30*tick, "fail"), talk(500*tick, "c")}, LoadOptions{Duration: time.Minute})
		if err != nil || f.most != 3 || rep.Elapsed != 640*tick || rep.Requests != 4 || rep.Failed != 1 || rep.Late.P99 != 0 {
			t.Errorf("%d at once, %+v, %v", f.most, rep, err)
		}
		if diff := cmp.Diff(map[string]int{"it says fail": 1}, rep.Errors); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTurnsHoldWhatWasSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTarget{}
		rep, err := Load(t.Context(), f, []Conversation{talk(0, "one", "two", "fail", "never")}, LoadOptions{Duration: time.Minute})
		want := []string{"u:one ", "u:one a:answer u:two ", "u:one a:answer u:two a:answer u:fail "}
		if diff := cmp.Diff(want, f.prompts); diff != "" || err != nil || rep.Requests != 3 || rep.E2E.P99 != 140 {
			t.Errorf("%v %+v\n%s", err, rep, diff)
		}
	})
}

func TestLoadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := []Conversation{talk(0, "a", "b"), talk(0, "c"), talk(time.Hour, "d")}
		for _, clients := range []int{0, 1} {
			rep, err := Load(t.Context(), &fakeTarget{}, cs, LoadOptions{Clients: clients, Duration: 200 * tick})
			if want := 2 - clients; err != nil || rep.Requests != want || rep.CutOff != 1 || rep.Failed != 0 {
				t.Errorf("%d clients: %+v, %v; want %d ended and 1 cut off", clients, rep, err, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*tick, cancel)
		start := time.Now()
		if _, err := Load(ctx, &fakeTarget{}, cs, LoadOptions{Duration: time.Minute}); !errors.Is(err, context.Canceled) || time.Since(start) != 50*tick {
			t.Errorf("cancelled after 50 ms: %v after %v", err, time.Since(start))
		}
		for _, bad := range []LoadOptions{{}, {Clients: -1, Duration: 1}, {Duration: 1, Progress: func(Progress) {}}} {
			if _, err := Load(t.Context(), &fakeTarget{}, cs, bad); err == nil {
				t.Errorf("%+v was run", bad)
			}
		}
	})
}
