package meter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The client of Redis has a goroutine that ends by itself within a second.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

func newMeter(s Store) *Meter {
	return New(s, Options{Log: slog.New(slog.DiscardHandler), Timeout: 10 * time.Second})
}

// forGood is a limit whose window does not end during a test.
func forGood(what string, most float64) Limit { return Limit{What: what, Per: "ever", Most: most} }

// TestRequestsAtOnceDoNotOvershoot sends more requests at once than a key, a team and a model may have together, from
// two gateways where the store can be shared.
func TestRequestsAtOnceDoNotOvershoot(t *testing.T) {
	onAll(t, func(t *testing.T, s Store, again func() Store) {
		meters := []*Meter{newMeter(s)}
		if again != nil {
			meters = append(meters, newMeter(again()))
		}
		subjects := []Subject{
			{"key k", []Limit{forGood("total_tokens", 1000), forGood("requests", 90)}},
			{"team t", []Limit{forGood("cost", 2), {What: "input_tokens", Per: "month", Most: 1e6, Model: "other"}}},
		}
		var all sync.WaitGroup
		var let, refused atomic.Int64
		for i := range 200 {
			all.Go(func() {
				m := meters[i%len(meters)]
				h, err := m.Reserve(t.Context(), fmt.Sprint("a", i), "m", subjects, Use{1, 10, 0, 5, 1e6})
				switch no := (*Refused)(nil); {
				case err == nil:
					let.Add(1)
					h.Settle("k", "t", "m", Use{1, 10, 4, 5, 1e6})
				case errors.As(err, &no) && no.Limit.What == "total_tokens" && no.Subject == "key k":
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if let.Load() != 66 || refused.Load() != 134 {
			t.Errorf("%d went, %d were refused; want 66 of 15 tokens in 1000, and 134", let.Load(), refused.Load())
		}
		for _, m := range meters[1:] {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		drain(t, meters[0])
		for counter, want := range map[string]int64{
			"key k||total_tokens|ever|0": 990, "key k||requests|ever|0": 66, "team t||cost|ever|0": 66e6,
		} {
			if got := value(t, s, counter); got != want {
				t.Errorf("%s is %d; want %d", counter, got, want)
			}
		}
		rows, err := meters[0].Usage(t.Context(), time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		if err != nil || len(rows) == 0 {
			t.Fatalf("%v, %v", rows, err)
		}
		var sum Use
		for _, r := range rows {
			if r.Key != "k" || r.Team != "t" || r.Model != "m" {
				t.Errorf("%+v", r)
			}
			sum.add(r.Use)
		}
		if sum != (Use{66, 660, 264, 330, 66e6}) {
			t.Errorf("used %+v", sum)
		}
		if err := meters[0].Close(); err != nil {
			t.Error(err)
		}
	})
}

// drain waits until nothing is left to settle.
func drain(t *testing.T, m *Meter) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		m.mu.Lock()
		n := len(m.late) + m.busy
		m.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d operations are left to settle", n)
		}
	}
}

// TestSettleCorrects reserves too much and too little.
func TestSettleCorrects(t *testing.T) {
	onAll(t, func(t *testing.T, s Store, _ func() Store) {
		m := newMeter(s)
		defer m.Close()
		limit := []Subject{{"key k", []Limit{forGood("output_tokens", 100)}}}
		reserve := func(id string, n int64) (*Hold, bool) {
			h, err := m.Reserve(t.Context(), id, "m", limit, Use{Output: n})
			if err != nil && !errors.As(err, new(*Refused)) {
				t.Fatal(err)
			}
			return h, err == nil
		}
		settle := func(h *Hold, n int64) {
			h.Settle("k", "", "m", Use{Output: n})
			drain(t, m)
		}
		big, ok := reserve("1", 1000) // more than the limit takes the whole of it
		if _, other := reserve("2", 1); !ok || other {
			t.Fatalf("the first request went: %v, one more: %v", ok, other)
		}
		settle(big, 30)
		low, ok := reserve("3", 70)
		if !ok {
			t.Fatal("what was not used was not given back")
		}
		settle(low, 90)
		if _, ok := reserve("4", 1); ok || value(t, s, "key k||output_tokens|ever|0") != 120 {
			t.Errorf("120 of 100 are used, and one more goes: %v", ok)
		}
	})
}

// TestOperationsCountOnce repeats operations, and takes back what came and what did not come.
func TestOperationsCountOnce(t *testing.T) {
	onAll(t, func(t *testing.T, s Store, _ func() Store) {
		defer s.Close()
		if !s.shared() {
			t.Skip("a store in the process answers every call once")
		}
		add := func(id, undoes string, n int64) {
			c := []charge{{"x", n, 0, time.Now().Add(time.Hour)}}
			if short, err := s.apply(t.Context(), operation{id: id, undoes: undoes, charges: c}); err != nil || short != -1 {
				t.Fatalf("%s: %d, %v", id, short, err)
			}
		}
		for _, step := range []struct {
			id, undoes string
			n, want    int64
		}{
			{"a", "", 5, 5}, {"a", "", 5, 5}, {"undo a", "a", -5, 0}, {"undo a", "a", -5, 0},
			{"undo b", "b", -7, 0}, {"b", "", 7, 0}, // which comes late
			{"c", "", 3, 3},
		} {
			add(step.id, step.undoes, step.n)
			if got := value(t, s, "x"); got != step.want {
				t.Errorf("after %s: %d; want %d", step.id, got, step.want)
			}
		}
	})
}

// TestCountsThroughRestarts kills the server again and again while requests come, and compares the counters with what
// requests used.
func TestCountsThroughRestarts(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *server{"redis": redisServer, "postgres": postgresServer} {
		t.Run(name, func(t *testing.T) {
			srv := start(t)
			s := opened(t, srv.url)
			m := New(s, Options{Log: slog.New(slog.DiscardHandler), Open: true, Timeout: 50 * time.Millisecond})
			subjects := []Subject{{"key k", []Limit{forGood("total_tokens", 1e9)}}}
			var all sync.WaitGroup
			var used, n atomic.Int64
			stop := make(chan struct{})
			for w := range 8 {
				all.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						h, err := m.Reserve(context.Background(), fmt.Sprintf("%d-%d", w, i), "m", subjects, Use{Input: 100, Output: 50})
						if err != nil {
							t.Error(err)
							return
						}
						u := Use{Requests: 1, Input: 90, Output: rand.Int64N(100)}
						h.Settle("k", "", "m", u)
						used.Add(u.Input + u.Output)
						n.Add(1)
						time.Sleep(time.Millisecond)
					}
				})
			}
			for range 3 {
				time.Sleep(300 * time.Millisecond)
				srv.kill()
				time.Sleep(150 * time.Millisecond)
				srv.start()
				opened(t, srv.url).Close()
			}
			close(stop)
			all.Wait()
			drain(t, m)
			if got := value(t, s, "key k||total_tokens|ever|0"); got != used.Load() {
				t.Errorf("the counter is %d; want %d", got, used.Load())
			}
			rows, err := m.Usage(t.Context(), time.Now().Add(-2*time.Hour), time.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			var sum Use
			for _, r := range rows {
				sum.add(r.Use)
			}
			if sum.Requests != n.Load() || sum.Input+sum.Output != used.Load() || m.lost != 0 {
				t.Errorf("used %+v, lost %d; want %d requests and %d tokens", sum, m.lost, n.Load(), used.Load())
			}
			t.Logf("%d requests", n.Load())
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestClosedWithoutStore asks while the server is down.
func TestClosedWithoutStore(t *testing.T) {
	srv := redisServer(t)
	m := New(opened(t, srv.url), Options{Log: slog.New(slog.DiscardHandler), Timeout: 100 * time.Millisecond})
	srv.kill()
	limit := []Subject{{"key k", []Limit{forGood("requests", 10)}}}
	_, err := m.Reserve(t.Context(), "1", "m", limit, Use{Requests: 1})
	if err == nil || errors.As(err, new(*Refused)) || !strings.Contains(err.Error(), "the limits cannot be checked") {
		t.Errorf("%v; want an error that says that the limits cannot be checked", err)
	}
	srv.start()
	opened(t, srv.url).Close()
	var h *Hold
	start := time.Now()
	for i := 0; i == 0 || err != nil && time.Since(start) < 20*time.Second; i++ { // a busy machine takes longer to connect again
		h, err = m.Reserve(t.Context(), fmt.Sprint("again ", i), "m", limit, Use{Requests: 1})
		if err != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	h.Settle("k", "", "m", Use{Requests: 1})
	drain(t, m)
	if got := value(t, m.store, "key k||requests|ever|0"); got != 1 {
		t.Errorf("the counter is %d; want 1", got)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestStoreThatRefuses holds that an error tells what the server said last, not only that time was over, and that the
// log says once that nothing can be counted, and once that it is again.
func TestStoreThatRefuses(t *testing.T) {
	srv := redisServer(t)
	store := opened(t, srv.url)
	set := func(replicas string) {
		t.Helper()
		client := store.(*redis).client
		if err := client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue("min-replicas-to-write", replicas).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	var log safeLog
	m := New(store, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Timeout: time.Second})
	limit := []Subject{{"key k", []Limit{forGood("requests", 10)}}}
	set("1")
	for i := range 2 {
		if _, err := m.Reserve(t.Context(), fmt.Sprint(i), "m", limit, Use{Requests: 1}); err == nil || !strings.Contains(err.Error(), "NOREPLICAS") {
			t.Errorf("%v; want what the server said", err)
		}
	}
	set("0")
	if _, err := m.Reserve(t.Context(), "again", "m", limit, Use{Requests: 1}); err != nil {
		t.Error(err)
	}
	drain(t, m)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if said := log.String(); strings.Count(said, "cannot be counted") != 1 || strings.Count(said, "is counted again") != 1 || !strings.Contains(said, "NOREPLICAS") {
		t.Errorf("the log says %s", said)
	}
}

// safeLog is a log that several goroutines write.
type safeLog struct {
	mu sync.Mutex
	strings.Builder
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

// TestFileOutlivesProcess opens a file again, and once more while it is open.
func TestFileOutlivesProcess(t *testing.T) {
	url := "sqlite:" + t.TempDir() + "/deep/gateway.db"
	limit := []Subject{{"key k", []Limit{forGood("requests", 3)}}}
	for i := range 4 {
		m := newMeter(opened(t, url))
		if _, err := Open(url); err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("a second one: %v", err)
		}
		h, err := m.Reserve(t.Context(), fmt.Sprint(i), "m", limit, Use{Requests: 1})
		if (err == nil) != (i < 3) {
			t.Errorf("request %d: %v", i, err)
		}
		h.Settle("k", "", "m", Use{Requests: 1, Input: 7})
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	m := newMeter(opened(t, url))
	rows, err := m.Usage(t.Context(), time.Now().Add(-2*time.Hour), time.Now().Add(time.Hour))
	total := int64(0)
	for _, r := range rows {
		total += r.Requests
	}
	if err != nil || total != 3 {
		t.Errorf("%v, %v; want 3 requests", rows, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
