package server

import (
	"context"
	"io"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

func TestReadKeys(t *testing.T) {
	got, err := ReadKeys([]byte("# a shop\n\n" +
		`{"name":"shop","key":"0123456789abcdef","group":"g","max_requests":8,"priorities":[-1,10],"models":["small"]}` + "\r\n" +
		` {"name":"lab","key":"fedcba9876543210"}`))
	want := []Key{{Name: "shop", Secret: "0123456789abcdef", Group: "g", MaxRequests: 8, Priorities: []int{-1, 10}, Models: []string{"small"}},
		{Name: "lab", Secret: "fedcba9876543210"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	const good = `{"name":"shop","key":"0123456789abcdef"}`
	for lines, want := range map[string]string{
		`{"name":"shop","key":"short-secret"}`:                                 `line 1, key "shop": key: expected at least 16`,
		good + "\n" + good:                                                     `line 2, key "shop": its`,
		good + "\n\n" + `{"name":"lab","key":"0123456789abcdef"}`:              `line 3, key "lab": its key is that of line 1`,
		`{"key":"0123456789abcdef"}`:                                           `line 1, key "": name: required`,
		`{"name":"shop"}`:                                                      `line 1, key "shop": key: required`,
		`{"name":"a b","key":"0123456789abcdef"}`:                              `line 1, key "a b": its name has to match`,
		`{"name":"shop","key":" 0123456789abcdef"}`:                            `white space around it`,
		`{"name":"shop","key":"0123456789abcdef","limit":3}`:                   `line 1, key "shop": limit`,
		`{"name":"shop","key":"0123456789abcdef","max_requests":0}`:            `max_requests: expected an integer from 1`,
		`{"name":"shop","key":"0123456789abcdef","priorities":[3,1]}`:          `priorities: expected the lowest and the highest`,
		`{"name":"shop","name":"lab","key":"0123456789abcdef"}`:                `line 1, key "shop": name`,
		"# one\n" + `["name"]`:                                                 `line 2, key "": expected a JSON object`,
		`{"name":"shop","key":"0123456789abcdef"} {"name":"shop","key":"fed"}`: `line 1, key "shop"`,
	} {
		_, err := ReadKeys([]byte(lines))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456789") || strings.Contains(err.Error(), "short-") {
			t.Errorf("%s: got %v; want an error with %q, and no secret", lines, err, want)
		}
	}
}

func FuzzReadKeys(f *testing.F) {
	f.Add([]byte(`{"name":"shop","key":"0123456789abcdef","priorities":[0,1],"models":["a"]}` + "\n# x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := ReadKeys(data)
		if err != nil || len(keys) == 0 {
			return
		}
		if _, err := newKeyring(&Config{}, keys, nil); err != nil {
			t.Errorf("a file that is good gives keys that are not: %v", err)
		}
	})
}

// TestWhatAKeyMay holds that a key has the accounts, priorities and models that it was given, and that it sees no
// others.
func TestWhatAKeyMay(t *testing.T) {
	fake, other := newFake("fake", "a"), newFake("other", "b")
	s := build(t, Config{Models: []Served{served(fake), served(other)}, Keys: []Key{{Name: "low", Secret: "low"},
		{Name: "high", Secret: "high", Priorities: []int{-5, -2}, Models: []string{"fake"}}}})
	for _, c := range []struct {
		key, body string
		status    int
		tenant    string
		priority  int
	}{
		{"low", `{"model":"fake","prompt":"x"}`, 200, "low", 0},
		{"low", `{"model":"fake","prompt":"x","user":"low/u","priority":7}`, 200, "low/low/u", 7},
		{"low", `{"model":"fake","prompt":"x","priority":-1}`, 400, "", 0},
		{"high", `{"model":"fake","prompt":"x","user":"u"}`, 200, "high/u", -2},
		{"high", `{"model":"fake","prompt":"x","priority":-5}`, 200, "high", -5},
		{"high", `{"model":"fake","prompt":"x","priority":-6}`, 400, "", 0},
		{"high", `{"model":"other","prompt":"x"}`, 404, "", 0},
		{"low", `{"model":"other","prompt":"x"}`, 200, "", 0},
	} {
		before := len(fake.asked)
		code, answer := post(s, c.key, "/v1/completions", c.body)
		if code != c.status || code == 404 && strings.Contains(answer, "there are fake, other") {
			t.Errorf("key %s, %s: %d %s", c.key, c.body, code, answer)
		}
		if c.tenant == "" {
			continue
		}
		if r := fake.asked[before].Request; r.Tenant != c.tenant || r.Priority != c.priority {
			t.Errorf("key %s, %s: tenant %q, priority %d; want %q, %d", c.key, c.body, r.Tenant, r.Priority, c.tenant, c.priority)
		}
	}
	for path, want := range map[string]string{"/v1/models": `"id":"other"`, "/v1/models/other": `"id":"other"`, "/": "other"} {
		for key, see := range map[string]bool{"low": true, "high": false} {
			r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
			r.Header.Set("Authorization", "Bearer "+key)
			s.ServeHTTP(w, r)
			if strings.Contains(strings.Split(w.Body.String(), "GET")[0], want) != see {
				t.Errorf("%s with key %s: %s", path, key, w.Body)
			}
		}
	}
}

// TestRequestsAtOnce holds that a key has no more requests under way than it may, also when keys are replaced.
func TestRequestsAtOnce(t *testing.T) {
	fake := held("fake")
	keys := []Key{{Name: "one", Secret: "a", MaxRequests: 1}, {Name: "any", Secret: "b"}}
	s := build(t, Config{Models: []Served{served(fake)}, Keys: keys})
	const body = `{"prompt":"x"}`
	done := make(chan int)
	ask := func(key string) {
		code, _ := post(s, key, "/v1/completions", body)
		done <- code
	}
	go ask("a")
	fake.hold <- struct{}{} // it runs
	check := func(key string, status int, says string) {
		t.Helper()
		if code, answer := post(s, key, "/v1/embeddings", `{"input":"x"}`); code != status || !strings.Contains(answer, says) {
			t.Errorf("key %s: %d %s", key, code, answer)
		}
	}
	check("a", 429, "1 requests at once")
	check("b", 200, "")
	if err := s.SetKeys([]Key{{Name: "one", Secret: "c", MaxRequests: 1}}); err != nil {
		t.Fatal(err)
	}
	check("c", 429, "1 requests at once")
	check("a", 401, "invalid_api_key")
	check("b", 401, "invalid_api_key")
	close(fake.hold)
	if code := <-done; code != 200 {
		t.Errorf("the request that was under way as its key went: %d", code)
	}
	check("c", 200, "")
	if err := s.SetKeys(nil); err == nil {
		t.Error("a server with keys was opened to everybody")
	}
	if err := s.SetKeys([]Key{{Secret: "a", Name: "a/b"}}); err == nil {
		t.Error("the name a/b was accepted")
	}
	check("c", 200, "")
}

// TestStreamThatHasEnded holds that a stream of HTTP/2 that its client ended before it was looked at costs no work.
func TestStreamThatHasEnded(t *testing.T) {
	fake := newFake("fake")
	s := build(t, Config{Models: []Served{served(fake)}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "POST", "/v1/completions", unread{t})
	r.ProtoMajor = 2
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Body.Len() > 0 {
		t.Errorf("it is answered: %s", w.Body)
	}
	if text := sent(s, "GET", "/metrics", ""); !strings.Contains(text, `http_requests_total{handler="/v1/completions",method="POST",status="4xx"} 1`) {
		t.Error("it is not counted")
	}
}

// unread is a body that is not to be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("its body is read")
	return 0, io.EOF
}
