package guard_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// TestPace holds that while a model computes, one whose large claims follow one another gets a tenth of the time beyond
// a quarter of a second, that another one does not wait for that, and that nobody waits once no model computes.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 50 * time.Millisecond
		b, other := guard.NewBudget(4096, 1), guard.NewBudget(4096, 1)
		claim := func(b *guard.Budget, who string) time.Duration {
			began := time.Now()
			release, err := b.Acquire(guard.As(t.Context(), who), 1000)
			if err != nil {
				t.Fatal(err)
			}
			waited := time.Since(began)
			time.Sleep(each)
			release()
			return waited
		}
		for i := range 20 {
			if waited := claim(b, "idle"); waited != 0 {
				t.Fatalf("claim %d waits %v, and no model computes", i, waited)
			}
		}
		guard.Computing.Begin()
		began, worked := time.Now(), time.Duration(0)
		for time.Since(began) < 20*time.Second {
			claim(b, "busy")
			if worked += each; worked == 10*each {
				if waited := claim(other, "little"); waited != 0 {
					t.Errorf("a claim of another one waits %v", waited)
				}
			}
		}
		lane := time.Duration(guard.AtOnce) * 20 * time.Second / 10
		if most := lane + 500*time.Millisecond; guard.AtOnce == 1 && (worked > most || worked < lane) {
			t.Errorf("%v of work in 20 s; want %v to %v", worked, lane, most)
		}
		guard.Computing.End()
		time.Sleep(2 * time.Second)
		for i := range 20 {
			if waited := claim(b, "busy"); waited != 0 {
				t.Errorf("claim %d waits %v, and no model computes any more", i, waited)
			}
		}
	})
}
