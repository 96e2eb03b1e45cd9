package gateway

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	kvevents "github.com/kvasir-llm/kvasir/events"
	"github.com/kvasir-llm/kvasir/internal/freeport"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/route"
)

// teller is an engine that tells of blocks of two tokens. Its tokens are bytes.
type teller struct {
	*httptest.Server
	pub      *kvevents.Publisher
	events   string
	rendered int
}

func (e *teller) publish(t *testing.T) {
	t.Helper()
	var err error
	e.pub, err = kvevents.Open(kvevents.Config{Endpoint: "@" + e.events, Encoding: kvevents.Encoding{BlockTokens: 2}})
	if err != nil {
		t.Fatal(err)
	}
}

func newTeller(t *testing.T) *teller {
	t.Helper()
	e := &teller{events: "tcp://127.0.0.1:" + freeport.Port(t)}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/completions/render":
			e.rendered++
			body, _ := io.ReadAll(r.Body)
			b, _ := scan(body)
			var ids []string
			for _, c := range b.prompt[1 : len(b.prompt)-1] {
				ids = append(ids, fmt.Sprint(c))
			}
			fmt.Fprintf(w, `[{"token_ids":[%s]}]`, strings.Join(ids, ","))
		case r.Method == http.MethodPost:
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"choices":[{"text":"x"}]}`)
		case strings.HasPrefix(r.URL.Path, "/kv/"):
			http.NotFound(w, r)
		}
	}))
	e.publish(t)
	t.Cleanup(func() { e.pub.Close(); e.Close() })
	return e
}

// prompt publishes the blocks of a text, two bytes each.
func (e *teller) prompt(text string, keys kv.Keys) {
	var list []kv.Event
	var before kv.Hash
	for i := 0; i+2 <= len(text); i += 2 {
		var name kv.Hash
		copy(name[24:], text[:i+2])
		name[23], name[31] = byte(len(keys.Salt)+len(keys.AdapterName)), byte(i+1)
		list = append(list, kv.Event{Name: name, Parent: before, Keys: keys, Tokens: []int32{int32(text[i]), int32(text[i+1])}})
		before = name
	}
	e.pub.Publish(list)
}

// TestExactPrefixes asks a gateway for endpoints that tell what they hold. What they tell of never went through the
// gateway.
func TestExactPrefixes(t *testing.T) {
	a, b := newTeller(t), newTeller(t)
	config := "models:\n- name: m\n  policy: {prefix: 1}\n  adapters: [{name: pirate}]\n  endpoints:\n"
	for _, e := range []*teller{a, b} {
		config += fmt.Sprintf("  - {url: %q, events: %q}\n", e.URL, e.events)
	}
	c, err := Parse("fleet.yaml", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(c, Options{Logger: slog.New(slog.DiscardHandler), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	door := httptest.NewServer(g)
	defer door.Close()
	explain := func(body string) string {
		t.Helper()
		r, _ := http.NewRequest(http.MethodPost, door.URL+"/v1/completions", strings.NewReader(body))
		r.Header.Set("X-Kvasir-Explain", "1")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		why := res.Header.Get("X-Kvasir-Explain")
		why = strings.NewReplacer(a.URL, "a", b.URL, "b").Replace(why)
		var short []string
		for part := range strings.SplitSeq(why, "; ") {
			name, _, _ := strings.Cut(part, " ")
			_, blocks, _ := strings.Cut(part, "in flight, ")
			short = append(short, name+" "+strings.TrimSuffix(blocks, " blocks)"))
		}
		return strings.Join(short, ", ")
	}
	want := func(body, want string) {
		t.Helper()
		var got string
		for deadline := time.Now().Add(time.Minute); got != want; time.Sleep(5 * time.Millisecond) {
			if got = explain(body); got != want && time.Now().After(deadline) {
				t.Fatalf("%s: %s; want %s", body, got, want)
			}
		}
	}
	held := func(id, n int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			got := g.fleetHeld(id)
			if got == n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("endpoint %d holds %d blocks; want %d", id, got, n)
			}
		}
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(explain(`{"model":"m","prompt":"zz"}`), "a"); {
		if time.Now().After(deadline) {
			t.Fatal("no answer")
		}
	}
	// A subscription takes a moment; the first block that is told of may get lost.
	for g.fleetHeld(0) == 0 || g.fleetHeld(1) == 0 {
		a.prompt("##", kv.Keys{})
		b.prompt("##", kv.Keys{})
		time.Sleep(5 * time.Millisecond)
	}
	a.prompt("abcdef", kv.Keys{})
	b.prompt("ghij", kv.Keys{})
	b.prompt("abcdef", kv.Keys{Model: "w", Salt: "secret"})
	a.prompt("ghijkl", kv.Keys{Model: "w", AdapterName: "pirate", AdapterID: "1f"})
	held(0, 7)
	held(1, 6)
	want(`{"model":"m","prompt":"abcdefgh"}`, "a* 3 of 4, b 0 of 4")
	want(`{"model":"m","prompt":"ghijklm"}`, "a 0 of 3, b* 2 of 3")
	want(`{"model":"m","prompt":"abcdefgh","cache_salt":"secret"}`, "a 0 of 4, b* 3 of 4")
	want(`{"model":"pirate","prompt":"ghijkl"}`, "a* 3 of 3, b 0 of 3")
	want(`{"model":"m","prompt":[97,98,99,100]}`, "a* 2 of 2, b 0 of 2")
	rendered := a.rendered + b.rendered
	want(`{"model":"m","prompt":[[97,98,99,100],[1]]}`, "a* 2 of 2, b 0 of 2")
	if a.rendered+b.rendered != rendered {
		t.Error("a prompt of tokens was rendered")
	}
	a.pub.Publish([]kv.Event{{Kind: kv.Cleared}})
	held(0, 0)
	a.prompt("abcd", kv.Keys{})
	want(`{"model":"m","prompt":"abcdefgh"}`, "a* 2 of 4, b 0 of 4")
	a.pub.Close() // it is started anew, and holds nothing
	held(0, 0)
	a.publish(t)
	for g.fleetHeld(0) == 0 {
		a.prompt("##", kv.Keys{})
		time.Sleep(5 * time.Millisecond)
	}
	want(`{"model":"m","prompt":"ghijkl"}`, "a 0 of 3, b* 2 of 3")
}

func (g *Gateway) fleetHeld(id int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fleet.Held(id)
}

// TestBlockSeeds holds that blocks which differ in more than adapter and salt match no prompt.
func TestBlockSeeds(t *testing.T) {
	for _, c := range []struct {
		first   bool
		adapter string
		keys    []string
		want    uint64
	}{
		{true, "", nil, route.Seed("", "")},
		{true, "", []string{"salt"}, route.Seed("", "salt")},
		{true, "", []string{"model", "x bf16", "salt"}, route.Seed("", "salt")},
		{true, "pirate", []string{"pirate"}, route.Seed("pirate", "")},
		{true, "pirate", []string{"model", "x", "adapter", "pirate", "adapter-id", "1f", "s"}, route.Seed("pirate", "s")},
		{false, "pirate", []string{"pirate"}, 0},
		{false, "", nil, 0},
		{false, "", []string{"image", "3"}, route.Seed("", "image", "3")},
		{true, "", []string{"image", "3", "salt"}, route.Seed("", "image", "3", "salt")},
	} {
		if got := blockSeed(c.first, c.adapter, c.keys); got != c.want {
			t.Errorf("%+v: %x", c, got)
		}
	}
}
