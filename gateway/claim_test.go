package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestClaims asks under keys with different rights, and without keys, what a client's words of its tenant and priority
// count for.
func TestClaims(t *testing.T) {
	none := &account{Key{Name: "none", Priority: 3}}
	users := &account{Key{Name: "users", Users: true}}
	ranks := &account{Key{Name: "ranks", Priorities: []int{-5, 5}}}
	for _, c := range []struct {
		account          *account
		tenant, priority string // the headers
		more             string // of the body
		want             string // tenant, priority and body, or an error
	}{
		{nil, "", "", ``, `"" 0 {"model":"m"}`},
		{nil, "t", "-7", `,"user":"u","priority":9`, `"t" -7 {"model":"m","user":"u","priority":9}`},
		{nil, "", "", `,"user":"u","priority":9`, `"u" 9 {"model":"m","user":"u","priority":9}`},
		{nil, "", "101", ``, `X-Kvasir-Priority: expected a whole number from -100 to 100, found 101`},
		{nil, "", "", `,"priority":0.5`, `priority: expected a whole number from -100 to 100, found 0.5`},
		{none, "t", "-7", `,"user":"u","priority": -9`, `"none" 3 {"model":"m","user":"u","priority": 0}`},
		{none, "t", "x", ``, `"none" 3 {"model":"m"}`},
		{users, "t", "-7", `,"user":"u","priority":null`, `"users/t" 0 {"model":"m","user":"u","priority":null}`},
		{users, "", "", `,"user":"u"`, `"users/u" 0 {"model":"m","user":"u"}`},
		{ranks, "t", "5", `,"user":"u"`, `"ranks" 5 {"model":"m","user":"u"}`},
		{ranks, "", "", `,"priority":-5`, `"ranks" -5 {"model":"m","priority":-5}`},
		{ranks, "", "6", ``, `X-Kvasir-Priority: expected a whole number from -5 to 5, found 6`},
		{ranks, "", "", `,"priority":-6`, `priority: expected a whole number from -5 to 5, found -6`},
	} {
		b, err := scan([]byte(`{"model":"m"` + c.more + `}`))
		if err != nil {
			t.Fatal(err)
		}
		x := &exchange{account: c.account, body: b, r: &http.Request{Header: http.Header{}}}
		x.r.Header.Set(tenantHeader, c.tenant)
		x.r.Header.Set(priorityHeader, c.priority)
		got := ""
		if refused := x.claim(); refused != nil {
			got = refused.message
		} else {
			var body strings.Builder
			for _, part := range b.edited(x.demotion) {
				body.Write(part)
			}
			got = fmt.Sprintf("%q %d %s", x.tenant, x.priority, body.String())
		}
		if got != c.want {
			t.Errorf("%s %+v: %s; want %s", c.more, x.r.Header, got, c.want)
		}
	}
}

// TestPriorityCountsIfTheKeyAllows lets clients wait for an endpoint's one place, all with a priority of their own
// making. Only the key that allows it comes first, and the endpoint sees no claims.
func TestPriorityCountsIfTheKeyAllows(t *testing.T) {
	may, mayHash := NewKey()
	not, notHash := NewKey()
	a := &engine{name: "a"}
	a.hook = posts(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Second)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[]}`)
	})
	config := fmt.Sprintf(`
models: [{name: m, endpoints: [{url: http://a, max_in_flight: 1, fixed_limit: true}]}]
keys: [{name: may, hash: %q, priorities: [-9, 0]}, {name: not, hash: %q}]
`, mayHash, notHash)
	inWorld(t, config, map[string]http.Handler{"a": a}, func(w *world) {
		var all sync.WaitGroup
		ask := func(key, name, priority string) {
			all.Go(func() {
				body := strings.Replace(plain, `"hi"`, fmt.Sprintf("%q", name), 1)
				body = strings.Replace(body, "}]}", `}],"priority":`+priority+"}", 1)
				w.want(w.chat(body, "X-Api-Key", key, priorityHeader, priority, tenantHeader, name), 200, "choices")
			})
			time.Sleep(10 * time.Millisecond)
		}
		ask(not, "first", "-9")
		ask(not, "second", "-9")
		ask(not, "third", "-9")
		ask(may, "urgent", "-9")
		all.Wait()
		var order []string
		for _, s := range a.got() {
			_, rest, _ := strings.Cut(s.body, `"content":"`)
			name, _, _ := strings.Cut(rest, `"`)
			order = append(order, name)
			want := `"priority":0`
			if name == "urgent" {
				want = `"priority":-9`
			}
			if !strings.Contains(s.body, want) || s.header.Get(priorityHeader)+s.header.Get(tenantHeader) != "" {
				t.Errorf("the endpoint got %s with %v; want %s", s.body, s.header, want)
			}
		}
		if got := strings.Join(order, " "); got != "first urgent second third" {
			t.Errorf("the order is %s", got)
		}
	})
}

// TestNamesAreBounded holds that what a client names itself, its session and its model outlives the request with a
// bounded length, and that sessions of different accounts are different ones.
func TestNamesAreBounded(t *testing.T) {
	inWorld(t, "models: [{name: m, endpoints: [http://a]}]", map[string]http.Handler{"a": &engine{name: "a"}}, func(w *world) {
		long := strings.Repeat("n", longestName)
		for _, c := range []struct {
			body   string
			tenant string
			status int
		}{
			{`{"model":"m","user":"` + long + `","prompt_cache_key":"` + long + `","cache_salt":"` + long + `","messages":[]}`, long, 200},
			{`{"model":"m","user":"` + strings.Repeat(`\u006e`, longestName) + `","messages":[]}`, "", 200},
			{`{"model":"m","messages":[]}`, long + "n", 400},
			{`{"model":"m","user":"n` + long + `","messages":[]}`, "", 400},
			{`{"model":"m","prompt_cache_key":"n` + long + `","messages":[]}`, "", 400},
			{`{"model":"m","cache_salt":"n` + long + `","messages":[]}`, "", 400},
			{`{"model":"n` + long + `","messages":[]}`, "", 400},
		} {
			r := w.chat(c.body, tenantHeader, c.tenant)
			if w.want(r, c.status, ""); c.status == 400 {
				w.want(r, 400, "expected at most 512 bytes, found 513")
			}
		}
		if n := w.log.Len(); n > 7*2000 {
			t.Errorf("the log of 7 requests has %d bytes", n)
		}
	})
	session := func(of *account, header, key string) string {
		x := &exchange{account: of, body: body{session: key}, r: &http.Request{Header: http.Header{}}}
		x.r.Header.Set("X-Session-Id", header)
		return x.session()
	}
	ann, ben := &account{Key{Name: "ann"}}, &account{Key{Name: "ben"}}
	long := strings.Repeat("s", 60_000)
	switch {
	case session(ann, "", "") != "", len(session(ann, long, "")) != 16, session(ann, "s", "") != session(ann, "", "s"):
		t.Error("a session has another name than it should")
	case session(ann, "s", "") == session(ben, "s", ""), session(nil, "s", "") == session(ann, "s", ""):
		t.Error("two accounts share a session")
	}
}
