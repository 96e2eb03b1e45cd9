package gateway

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/bench/fleet"
)

// TestGreedyTenantThroughHTTP lets eight tenants ask two modelled engines for streams, each at random times for half of
// its share, and then one of them for ten times its share. The others' first words come nearly as soon, and the engines
// have most of what they can do to do.
func TestGreedyTenantThroughHTTP(t *testing.T) {
	const (
		slots   = 16 // of each engine
		tenants = 8
		ttft    = 0.2 // seconds
		tpot    = 0.1
		words   = 10.5 // of an answer, on average
		best    = 2 * slots / (ttft + (words-1)*tpot)
		share   = best / tenants // requests a second
		lasts   = 360            // seconds
	)
	inWorld(t, "models: [{name: m, endpoints: [{url: http://a, max_in_flight: 16}, {url: http://b, max_in_flight: 16}]}]", nil, func(w *world) {
		for i, host := range []string{"a", "b"} { // made here, as time goes on while requests wait for their slots
			w.start(host, fleet.New(fleet.Model{TTFT: seconds(ttft), TPOT: seconds(tpot), Slots: slots}, nil, uint64(i)))
		}
		// load returns the 99th percentile of the times to first words of all tenants but the first, which sends at a
		// rate of its own, and the words a second that all got.
		load := func(rate float64) (p99, speed float64) {
			var mu sync.Mutex
			var waits []float64
			var all sync.WaitGroup
			got := 0
			for tenant := range tenants {
				random := rand.New(rand.NewPCG(1, uint64(tenant)))
				each := share / 2.
				if tenant == 0 {
					each = rate
				}
				for at := random.ExpFloat64() / each; at < lasts; at += random.ExpFloat64() / each {
					asked := 1 + random.IntN(2*words-1)
					all.Go(func() {
						time.Sleep(seconds(at))
						first, n := w.firstWord(fmt.Sprint(tenant), asked)
						mu.Lock()
						defer mu.Unlock()
						if got += n; tenant > 0 {
							waits = append(waits, first.Seconds())
							if n != asked {
								t.Errorf("tenant %d got %d of %d words", tenant, n, asked)
							}
						}
					})
				}
			}
			began := time.Now()
			all.Wait()
			slices.Sort(waits)
			return waits[len(waits)*99/100], float64(got) / time.Since(began).Seconds()
		}
		alone, _ := load(0)
		beside, speed := load(10 * share)
		speed /= best * words
		t.Logf("p99 %.3f s, beside the greedy one %.3f s, %.2f times; %.0f%% of the engines' best", alone, beside, beside/alone, 100*speed)
		if beside > 1.5*alone || speed < 0.84 {
			t.Errorf("beside a greedy tenant the others' 99th percentile is %.3f s with %.0f%% of the engines' best; want at most 1.5 times %.3f s and 84%%",
				beside, 100*speed, alone)
		}
	})
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// firstWord asks for a stream of so many words. It returns how long the first one took, and how many came.
func (w *world) firstWord(tenant string, words int) (ttft time.Duration, n int) {
	began := time.Now()
	body := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}`, words, tenant)
	r, err := http.NewRequest("POST", "http://gateway/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		w.t.Error(err)
		return 0, 0
	}
	r.Header.Set("X-Kvasir-Tenant", tenant)
	res, err := w.client.Do(r)
	if err != nil {
		w.t.Error(err)
		return 0, 0
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), " word") {
			if n++; n == 1 {
				ttft = time.Since(began)
			}
		}
	}
	return ttft, n
}
