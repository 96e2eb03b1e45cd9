package guard_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kvasir-llm/kvasir/guard"
)

// TestBudget holds that claims wait in order of arrival, that one that is given up lets those behind it on, and that
// small claims wait for none of these.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := guard.NewBudget(4096, 0) // 1024 for claims up to 16, and 3072
		all, err := b.Acquire(t.Context(), 1<<40)
		if err != nil || b.Used() != 3072 {
			t.Fatalf("a claim for more than there is takes %d, %v", b.Used(), err)
		}
		var mu sync.Mutex // of order
		var order []int
		gone, leave := context.WithCancelCause(t.Context())
		left := errors.New("left")
		for i, bytes := range []int64{3000, 100, 200} {
			ctx := t.Context()
			if i == 0 {
				ctx = gone
			}
			go func() {
				release, err := b.Acquire(ctx, bytes)
				if err != nil {
					if !errors.Is(err, left) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				release()
			}()
			synctest.Wait()
		}
		if b.Try(false, 17) || !b.Try(true, 16) {
			t.Error("a large claim passes those that wait, or a small one waits for them")
		}
		if release, err := b.Acquire(t.Context(), 16); err != nil {
			t.Error(err)
		} else {
			release()
		}
		b.Give(true, 16)
		leave(left)
		synctest.Wait()
		if len(order) != 0 {
			t.Errorf("%v were admitted, and nothing is free", order)
		}
		all()
		synctest.Wait()
		if len(order) != 2 || !slices.Contains(order, 1) || b.Used() != 0 {
			t.Errorf("%v were admitted, %d bytes are still taken", order, b.Used())
		}
	})
}

// TestTurns holds that those who wait take turns, however many claims each has, that only so many large claims are
// given at once, and that small ones are.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := guard.NewBudget(4096, 1)
		first, err := b.Acquire(guard.As(t.Context(), "a"), 100)
		if err != nil {
			t.Fatal(err)
		}
		small, err := b.Acquire(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		var order string
		for _, who := range []string{"a", "a", "a", "b", "b", "c"} {
			go func() {
				release, err := b.Acquire(guard.As(t.Context(), who), 100)
				if err != nil {
					t.Error(err)
					return
				}
				order += who // one at a time
				release()
			}()
			synctest.Wait()
		}
		if order != "" {
			t.Errorf("%s were given beside another large one", order)
		}
		first()
		synctest.Wait()
		if order != "abcaba" || b.Used() != 10 {
			t.Errorf("the order is %s, and %d bytes are taken; want abcaba and 10", order, b.Used())
		}
		small()
	})
}

// TestHeavy holds that large claims of which few are worked on at once are counted while they have their bytes, and no
// others.
func TestHeavy(t *testing.T) {
	for _, test := range []struct {
		atOnce int
		bytes  int64
		want   int
	}{{1, 16, 0}, {1, 1000, 1}, {0, 1000, 0}} {
		release, err := guard.NewBudget(4096, test.atOnce).Acquire(t.Context(), test.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if n := guard.Heavy(); n != test.want {
			t.Errorf("a claim of %d bytes, of which %d may be worked on at once, makes %d heavy ones; want %d", test.bytes, test.atOnce, n, test.want)
		}
		if release(); guard.Heavy() != 0 {
			t.Errorf("%d heavy ones are left", guard.Heavy())
		}
	}
}
