//go:build abuse

package server

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

var abuseTime = flag.Duration("abuse", 20*time.Second, "how long the abuse lasts")

// attack is a client that means harm. It asks at most once a call, and never waits long.
type attack func(r *rand.Rand, at string)

// send writes a request as it is, reads at most some bytes of the answer, and hangs up.
func send(at, request string, read int64, wait time.Duration) {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(wait))
	io.WriteString(c, request)
	io.Copy(io.Discard, io.LimitReader(c, read))
}

func rawPost(path, key, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", path, key, len(body), body)
}

// greedy returns a request whose grammar makes its answer find as many states as it can. Few are alike.
func greedy(r *rand.Rand) string {
	n := r.IntN(1000)
	var field, form string
	switch r.IntN(5) {
	case 0: // any of the last letters may be the one that counts
		field, form = "guided_regex", fmt.Sprintf("[a-z %d,.]*[aeiou ][a-z ,.]{%d}[.!]", n, 10+r.IntN(4))
	case 1: // members in any order
		var members []string
		for i := range 200 {
			members = append(members, fmt.Sprintf(`"%c%d":{"type":"string","pattern":"^[a-m]*x?.{%d}[n-z ]"}`, 'a'+i%26, n+i, 3+i%9))
		}
		field, form = "guided_json", `{"type":"object","minProperties":20,"properties":{`+strings.Join(members, ",")+`}}`
	case 2: // nesting that is ambiguous
		field, form = "guided_grammar", fmt.Sprintf("root ::= s+ \"%d\"\ns ::= a | b\na ::= [a-z ] s? [a-y ,.]\nb ::= [a-y ] s? [b-z ,.]", n)
	case 3: // long texts to end with
		var list []string
		for i := range 60 {
			list = append(list, fmt.Sprintf("%q", fmt.Sprint(n+i)+strings.Repeat(string(rune('a'+i%26)), 4000)))
		}
		field, form = "guided_json", `{"enum":[`+strings.Join(list, ",")+`]}`
	default: // one long literal
		field, form = "guided_json", fmt.Sprintf(`{"const":%q}`, fmt.Sprint(n)+strings.Repeat("Once upon a time. ", 12_000))
	}
	if field != "guided_json" {
		form = fmt.Sprintf("%q", form)
	}
	return fmt.Sprintf(`{"stream":true,"temperature":1.5,"max_tokens":400,"messages":[{"role":"user","content":"Tell a story"}],%q:%s}`, field, form)
}

// attacks are of the kinds that have ended or starved servers, by the holder of a key.
func attacks(key string) map[string]attack {
	large := hostile(1 << 20)
	names := []string{}
	for name := range large {
		names = append(names, name)
	}
	slices.Sort(names)
	chat := "/v1/chat/completions"
	return map[string]attack{
		"bodies that decode to much": func(r *rand.Rand, at string) {
			send(at, rawPost(chat, key, large[names[r.IntN(len(names))]]), 1<<20, 5*time.Second)
		},
		"bodies that never come": func(r *rand.Rand, at string) {
			send(at, "POST "+chat+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+key+"\r\nContent-Length: 4000000\r\n\r\n{", 1, time.Second)
		},
		"wrong keys": func(r *rand.Rand, at string) {
			send(at, "POST "+chat+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nContent-Length: 1000\r\n\r\nx", 1<<10, time.Second)
		},
		"half of the headers": func(r *rand.Rand, at string) { send(at, "GET /health HTTP/1.1\r\nX: ", 1, 500*time.Millisecond) },
		"salts and stop strings": func(r *rand.Rand, at string) {
			body := fmt.Sprintf(`{"prompt":"%d","max_tokens":40,"cache_salt":%q,"stop":[%q,%q]}`, r.IntN(1000), strings.Repeat("s", 500),
				strings.Repeat(" ", 1000)+"b", strings.Repeat(" ", 1001)+"c")
			send(at, rawPost("/v1/completions", key, body), 1<<20, 2*time.Second)
		},
		"many answers at once": func(r *rand.Rand, at string) {
			send(at, rawPost("/v1/completions", key, `{"prompt":"a","n":64,"max_tokens":60,"priority":5,"user":"u`+fmt.Sprint(r.Int())+`"}`), 1<<20, 2*time.Second)
		},
		"streams that nobody reads": func(r *rand.Rand, at string) {
			send(at, rawPost("/v1/completions", key, `{"prompt":"a","stream":true,"max_tokens":200,"logprobs":20,"ignore_eos":true}`), 1, time.Second)
		},
		"hang-ups": func(r *rand.Rand, at string) {
			send(at, rawPost(chat, key, `{"stream":true,"messages":[{"role":"user","content":"Tell a story"}]}`), 200, 2*time.Second)
		},
		"tokens and texts": func(r *rand.Rand, at string) {
			send(at, rawPost("/detokenize", key, `{"tokens":`+many("5", 200_000)+`}`), 1<<16, 2*time.Second)
			send(at, rawPost("/v1/embeddings", key, `{"input":"`+strings.Repeat("a", 900_000)+`","truncate_prompt_tokens":-1}`), 1<<16, 5*time.Second)
		},
		"streams of HTTP/2 that end as they begin": func(r *rand.Rand, at string) {
			var all strings.Builder
			all.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, ""))
			for id := uint32(1); id < 400; id += 2 {
				all.WriteString(frame(1, 4, id, headerField(":method", "POST")+headerField(":scheme", "http")+headerField(":path", "/v1/completions")+
					headerField(":authority", "localhost")+headerField("authorization", "Bearer "+key)))
				all.WriteString(frame(0, 1, id, `{"prompt":"a","max_tokens":50}`) + frame(3, 0, id, "\x00\x00\x00\x08"))
			}
			send(at, all.String(), 1<<16, 500*time.Millisecond)
		},
		"grammars that find much": func(r *rand.Rand, at string) {
			send(at, rawPost(chat, key, greedy(r)), 1<<16, 5*time.Second)
		},
		"what is everybody's": func(r *rand.Rand, at string) {
			for _, path := range []string{"/kv/blocks?tokens=true", "/kv/events/snapshot"} {
				send(at, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+key+"\r\n\r\n", 1<<10, time.Second)
			}
			send(at, rawPost("/reset_prefix_cache", key, `{}`), 1<<10, time.Second)
		},
	}
}

// TestAbuse lets 40 hostile clients at a server of the built-in model, beside one who asks politely: that one is always
// answered, what the process takes stays bounded, and afterwards nothing is left: no goroutine, sequence, block,
// descriptor, file or byte of a request.
func TestAbuse(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir := t.TempDir()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	m, err := text.Open(ckpt, text.Options{Name: "mini", KVBytes: 64 << 20, MaxSeqs: 16, Policy: "vtc", MaxQueue: 2 * time.Second,
		DiskKV: dir, DiskKVBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ckpt.Close()
	ctx, stop := context.WithCancel(context.Background())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := build(t, Config{Models: []Served{FromText(m)}, Keys: []Key{{Secret: "good"}, {Secret: "bad", MaxRequests: 64}},
		BodyTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second, DrainTimeout: 10 * time.Second, MaxConns: 512})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	at := ln.Addr().String()
	files := descriptors()
	deadline := time.Now().Add(*abuseTime)
	var wg sync.WaitGroup
	for name, a := range attacks("bad") {
		for i := range uint64(4) {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(i, uint64(len(name))))
				for time.Now().Before(deadline) {
					a(r, at)
				}
			})
		}
	}
	client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	asked, answered := 0, 0
	var slowest time.Duration
	var most uint64
	for time.Now().Before(deadline) {
		req, err := http.NewRequest("POST", "http://"+at+"/v1/completions", strings.NewReader(fmt.Sprintf(`{"prompt":"Once %d","max_tokens":2}`, asked)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer good")
		asked++
		began := time.Now()
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			continue
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if slowest = max(slowest, time.Since(began)); resp.StatusCode == http.StatusOK {
			answered++
		} else if resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("the polite client gets %d", resp.StatusCode)
		}
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		most = max(most, mem.HeapAlloc)
	}
	wg.Wait()
	client.CloseIdleConnections()
	t.Logf("%d of %d polite requests answered, the slowest after %v; at most %d MiB of heap", answered, asked, slowest, most>>20)
	if answered == 0 || answered < asked/2 {
		t.Errorf("%d of %d polite requests are answered", answered, asked)
	}
	if plan := uint64(m.Bytes + m.KVBytes); most > 2*(plan+512<<20) {
		t.Errorf("%d MiB of heap; the plan is %d", most>>20, plan>>20)
	}
	eventually(t, "nothing runs, and no bytes are held", func() bool {
		r := m.Engine.Report()
		return r.Running+r.Waiting+r.Cache.Used == 0 && s.bodies.read.Used()+s.bodies.decode.Used() == 0
	})
	eventually(t, "no descriptor is left", func() bool { return descriptors() <= files })
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	var left []string
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, filepath.Base(path))
		}
		return err
	})
	if slices.Sort(left); !slices.Equal(left, []string{"blocks.kvtier", "blocks.kvtier.lock"}) {
		t.Errorf("files %v are left", left)
	}
	goleak.VerifyNone(t, before)
}

// descriptors counts the open files of the process, 0 where that cannot be told.
func descriptors() int {
	all, _ := os.ReadDir("/proc/self/fd")
	return len(all)
}
