package cache

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/internal/freeport"
)

func TestNames(t *testing.T) {
	name := func(body string, who ...string) string {
		n, err := Name([]byte(body), who...)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if name(`{"a":1,"b":{"c":"é","d":[1.50]}}`, "x") != name(" {\"b\": {\"d\":[1.50],\n\"c\":\"\\u00e9\"}, \"a\":1}", "x") {
		t.Error("the order of keys and spaces make another name")
	}
	seen := map[string]bool{}
	for _, n := range []string{name(`{"a":1}`, "x"), name(`{"a":1}`, "y"), name(`{"a":1}`, "x", ""), name(`{"a":1.0}`, "x"),
		name(`{"a":12345678901234567890}`, "x"), name(`{"a":12345678901234567891}`, "x"), name(`{"a":[1,2]}`, "x"), name(`{"a":[2,1]}`, "x")} {
		if seen[n] {
			t.Error("two requests have one name")
		}
		seen[n] = true
	}
}

func TestMemoryForgets(t *testing.T) {
	s, err := Open("memory:", 3*(overhead+100))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, size int) { s.Put(t.Context(), name, Answer{Body: make([]byte, size)}, time.Hour) }
	has := func(name string) bool { _, ok := s.Get(t.Context(), name); return ok }
	for i := range 3 {
		put(fmt.Sprint(i), 100)
	}
	has("0")
	put("3", 100)
	put("big", 10_000)
	if has("0") || has("big") || has("1") {
		t.Error("what was too much is there")
	}
	put("0", 100)
	put("0", 200)
	if !has("0") || s.(*memory).size != 3*(overhead+100)-overhead-200 {
		t.Errorf("%d bytes are left", s.(*memory).size)
	}
	s.Put(t.Context(), "typed", Answer{Type: strings.Repeat("t", 3*(overhead+100))}, time.Hour)
	if has("typed") {
		t.Error("the type of an answer takes no room")
	}
}

func TestStores(t *testing.T) {
	for _, url := range []string{"memory:", redisServer(t)} {
		s, err := Open(url, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		want := Answer{Type: "text/event-stream", Body: []byte("data: \x00ü\n\n"), At: time.Now().Truncate(time.Second)}
		if _, ok := s.Get(t.Context(), "x"); ok {
			t.Error("an empty store has an answer")
		}
		s.Put(t.Context(), "x", Answer{Type: "old"}, time.Hour)
		s.Put(t.Context(), "x", want, time.Hour)
		got, ok := s.Get(t.Context(), "x")
		if !ok || got.Type != want.Type || !bytes.Equal(got.Body, want.Body) || !got.At.Equal(want.At) {
			t.Errorf("%s: %+v", url, got)
		}
		s.Put(t.Context(), "x", want, time.Millisecond)
		for end := time.Now().Add(time.Minute); ok; time.Sleep(time.Millisecond) {
			if _, ok = s.Get(t.Context(), "x"); ok && time.Now().After(end) {
				t.Fatal("the answer is still there after its time")
			}
		}
		s.Close()
	}
}

func redisServer(t *testing.T) string {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-server is not installed")
		}
		t.Skip("redis-server is not installed (apt-get install redis-server)")
	}
	port := freeport.Port(t)
	cmd := exec.Command(program, "--port", port, "--save", "", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for range 500 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			return "redis://127.0.0.1:" + port
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("redis-server does not answer")
	return ""
}
