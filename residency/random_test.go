package residency

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEveryRequestIsAnswered lets clients ask for models at random, each again when it is answered. However loading,
// closing and answering take their time, every request is admitted at last, and few of them cause a load.

func TestEveryRequestIsAnswered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := rapid.Int64Range(10, 40).Draw(t, "memory")
		r := New(Config{Memory: memory, Most: rapid.IntRange(0, 3).Draw(t, "most")})
		sizes := rapid.SliceOfN(rapid.Int64Range(1, memory), 1, 6).Draw(t, "sizes")
		now, next := int64(0), uint64(0)
		loading, closing := "", map[string]bool{}
		waits, runs := map[uint64]string{}, map[uint64]string{}
		do := func(all []Action) {
			for _, a := range all {
				switch a.Verb {
				case Admit:
					if waits[a.Request] != a.Model {
						t.Fatalf("request %d, for %q, is given %q", a.Request, waits[a.Request], a.Model)
					}
					delete(waits, a.Request)
					runs[a.Request] = a.Model
				case Refuse:
					t.Fatalf("request %d is refused", a.Request)
				case Load:
					if loading != "" {
						t.Fatalf("%s is loaded while %s is", a.Model, loading)
					}
					loading = a.Model
				case Close:
					for id, m := range runs {
						if m == a.Model {
							t.Fatalf("%s is closed while request %d runs", m, id)
						}
					}
					closing[a.Model] = true
				}
			}
		}
		step := func(ask bool) {
			now += rapid.Int64Range(0, 3000).Draw(t, "time")
			switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
			case kind <= 1 && ask:
				i := rapid.IntRange(0, len(sizes)-1).Draw(t, "model")
				next++
				waits[next] = fmt.Sprint("m", i)
				do(r.Ask(next, Want{Model: waits[next], Size: sizes[i], Keep: rapid.Int64Range(-1, 4000).Draw(t, "keep")}, now))
			case kind == 2 && loading != "":
				name := loading
				loading = ""
				size, _ := r.Known(name)
				do(r.Loaded(name, size, now))
			case kind == 3 && len(closing) > 0:
				for name := range closing {
					delete(closing, name)
					do(r.Closed(name, now))
					break
				}
			case kind == 4 && len(runs) > 0:
				id := rapid.SampledFrom(keys(runs)).Draw(t, "done")
				delete(runs, id)
				do(r.Done(id, now))
			default:
				if ask && len(waits) > 0 && rapid.IntRange(0, 9).Draw(t, "leaves") == 0 {
					id := rapid.SampledFrom(keys(waits)).Draw(t, "who")
					delete(waits, id)
					do(r.Done(id, now))
				}
				do(r.Tick(now))
			}
			sum := int64(0)
			for _, s := range r.Models() {
				if s.State != Absent {
					sum += s.Size
				}
			}
			if sum > memory {
				t.Fatalf("%d of %d bytes are taken", sum, memory)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			step(true)
		}
		for range 2000 { // whatever still waits is answered, in any order of events
			if len(waits) == 0 {
				return
			}
			now += 1000
			do(r.Tick(now))
			if loading != "" {
				name := loading
				loading = ""
				size, _ := r.Known(name)
				do(r.Loaded(name, size, now))
			}
			for _, name := range keys(closing) {
				delete(closing, name)
				do(r.Closed(name, now))
			}
			for _, id := range keys(runs) {
				delete(runs, id)
				do(r.Done(id, now))
			}
		}
		t.Fatalf("%d requests still wait: %v", len(waits), r.Models())
	})
}

func keys[K uint64 | string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// TestTwoThatDoNotFit plays two clients, each of which asks for a model of its own as soon as it is answered, for an
// hour. Loading takes 20 s and an answer 1 s. Both get about as many answers, and at most two thirds of the time, and
// what ends the last answers, goes to loading.
func TestTwoThatDoNotFit(t *testing.T) {
	const loadTime, answerTime, hour = 20_000, 1_000, 3_600_000
	r := New(Config{Memory: 10})
	type event struct {
		at int64
		do func(now int64) []Action
	}
	var events []event
	answers, loads := map[string]int{}, 0
	var act func(all []Action, now int64)
	ids := uint64(0)
	ask := func(model string, now int64) {
		ids++
		act(r.Ask(ids, Want{Model: model, Size: 10, Keep: Forever}, now), now)
	}
	act = func(all []Action, now int64) {
		for _, a := range all {
			switch a.Verb {
			case Admit:
				events = append(events, event{now + answerTime, func(now int64) []Action {
					answers[a.Model]++
					out := r.Done(a.Request, now)
					events = append(events, event{now, func(now int64) []Action { ask(a.Model, now); return nil }})
					return out
				}})
			case Load:
				loads++
				events = append(events, event{now + loadTime, func(now int64) []Action { return r.Loaded(a.Model, 10, now) }})
			case Close:
				events = append(events, event{now, func(now int64) []Action { return r.Closed(a.Model, now) }})
			}
		}
	}
	ask("a", 0)
	ask("b", 0)
	for now := int64(0); now < hour; {
		i := -1
		for k, e := range events {
			if i < 0 || e.at < events[i].at {
				i = k
			}
		}
		if at, ok := r.Wake(); ok && (i < 0 || at < events[i].at) {
			now = at
			act(r.Tick(now), now)
			continue
		}
		if i < 0 {
			t.Fatalf("at %d nothing happens any more: %v", now, r.Models())
		}
		e := events[i]
		events = slices.Delete(events, i, i+1)
		now = e.at
		act(e.do(now), now)
	}
	if d := answers["a"] - answers["b"]; d > 100 || d < -100 || answers["a"] < 1000 || loads > hour/(3*loadTime)+2 {
		t.Errorf("%v answers, %d loads; want about equally many, and at most %d loads", answers, loads, hour/(3*loadTime)+2)
	}
}
