package events

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kvasir-llm/kvasir/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, cfg Config) *Publisher {
	t.Helper()
	cfg.Encoding.BlockTokens = 2
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// client is a peer of a publisher.
func client(t *testing.T, conn net.Conn, kind, of string) *peer {
	t.Helper()
	c, err := shake(conn, kind, of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	return c
}

func dial(t *testing.T, to net.Addr, kind, of string) *peer {
	t.Helper()
	conn, err := net.Dial(to.Network(), to.String())
	if err != nil {
		t.Fatal(err)
	}
	return client(t, conn, kind, of)
}

func (p *peer) send(t *testing.T, parts ...[]byte) {
	t.Helper()
	if err := p.write(time.Now().Add(time.Minute), message(parts...)...); err != nil {
		t.Fatal(err)
	}
}

func (p *peer) receive(t *testing.T) [][]byte {
	t.Helper()
	m, err := p.message(func(string, []byte) {}, func(frame) {})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// eventually waits for another goroutine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: " + what)
		}
	}
}

// subscribers counts the peers that want the publisher's topic.
func subscribers(p *Publisher) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, s := range p.subs {
		if s.wants(p.cfg.Topic) {
			n++
		}
	}
	return n
}

func stored(n int) []kv.Event { return []kv.Event{{Name: name(n), Tokens: []int32{int32(n), 1}}} }

func TestPublishAndReplay(t *testing.T) {
	p := open(t, Config{Endpoint: "@tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", Topic: "kv-test", Buffer: 3})
	pub, replay := p.addrs()
	p.Publish(stored(0)) // nobody hears
	all, other := dial(t, pub, "SUB", "PUB"), dial(t, pub, "SUB", "PUB")
	other.send(t, []byte("\x01kv-other"))
	all.send(t, []byte("\x01kv"))
	eventually(t, "a subscription", func() bool { return subscribers(p) == 1 })
	p.Publish(stored(1))
	m := all.receive(t)
	if len(m) != 3 || string(m[0]) != "kv-test" || binary.BigEndian.Uint64(m[1]) != 1 || !bytes.Contains(m[2], []byte("BlockStored")) {
		t.Fatalf("got %q", m)
	}
	if err := all.write(time.Now().Add(time.Minute), frame{flagCommand, []byte("\x04PING\x00\x10abc")}); err != nil {
		t.Fatal(err)
	}
	if f, err := all.read(); err != nil || string(f.body) != "\x04PONGabc" {
		t.Errorf("a PING is answered with %q, %v", f.body, err)
	}
	for n := 2; n < 5; n++ {
		p.Publish(stored(n))
	}
	for _, kind := range []string{"REQ", "DEALER"} {
		ask := dial(t, replay, kind, "ROUTER")
		for _, first := range []uint64{0, 4, 5} {
			ask.send(t, nil, number(first))
			for want := max(first, 2); want < 5; want++ { // the last three
				if m := ask.receive(t); len(m) != 3 || len(m[0]) != 0 || binary.BigEndian.Uint64(m[1]) != want || len(m[2]) == 0 {
					t.Fatalf("a replay from %d: %q; want batch %d", first, m, want)
				}
			}
			if m := ask.receive(t); len(m) != 3 || len(m[2]) != 0 || string(m[1]) != strings.Repeat("\xff", 8) {
				t.Fatalf("a replay from %d ends with %q", first, m)
			}
		}
	}
	all.send(t, []byte("\x00kv"))
	eventually(t, "the end of a subscription", func() bool { return subscribers(p) == 0 })
}

// TestSlowSubscriber holds that who does not read misses batches, and holds up nobody.
func TestSlowSubscriber(t *testing.T) {
	p := open(t, Config{Endpoint: "tcp://*:0", HWM: 4})
	pub, _ := p.addrs()
	slow := dial(t, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: pub.(*net.TCPAddr).Port}, "SUB", "PUB")
	slow.send(t, []byte{1})
	eventually(t, "a subscription", func() bool { return subscribers(p) == 1 })
	const batches = 3000
	big := stored(1)
	big[0].Tokens = make([]int32, 20_000)
	for range batches { // more than the buffers of connections hold
		p.Publish(big)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // a batch finds room only once the sender has counted what it sent
		defer close(stopped)
		for {
			select {
			case <-time.After(time.Millisecond):
				p.Publish(stored(2))
			case <-stop:
				return
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	got := []uint64{}
	for m := slow.receive(t); ; m = slow.receive(t) {
		got = append(got, binary.BigEndian.Uint64(m[1]))
		if len(got) == 1 {
			p.mu.Lock()
			s := p.subs[0]
			p.mu.Unlock()
			s.mu.Lock()
			waiting := len(s.queue) + s.unsent
			s.mu.Unlock()
			if waiting > 4 {
				t.Errorf("%d batches wait; at most 4 may", waiting)
			}
		}
		if got[len(got)-1] >= batches {
			break
		}
	}
	if len(got) >= batches || !slices.IsSorted(got) {
		t.Errorf("got batches %v", got)
	}
}

// TestConnects holds that a publisher finds a subscriber that listens, again and again.
func TestConnects(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := open(t, Config{Endpoint: "tcp://" + ln.Addr().String()})
	for range 2 {
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c := client(t, conn, "SUB", "PUB")
		c.send(t, []byte{1})
		eventually(t, "a subscription", func() bool { return subscribers(p) == 1 })
		p.Publish(stored(1))
		c.receive(t)
		conn.Close()
		eventually(t, "the end of a connection", func() bool { return subscribers(p) == 0 })
	}
}

func TestEndpoints(t *testing.T) {
	for s, want := range map[string]Endpoint{
		"tcp://*:5557": {"tcp", ":5557", true}, "tcp://[::1]:*": {"tcp", "[::1]:0", true}, "tcp://router:5557": {"tcp", "router:5557", false},
		"@tcp://127.0.0.1:1": {"tcp", "127.0.0.1:1", true}, "ipc:///tmp/kv": {"unix", "/tmp/kv", true}, ">ipc:///tmp/kv": {"unix", "/tmp/kv", false},
	} {
		if got, err := ParseEndpoint(s); got != want || err != nil {
			t.Errorf("%s: %+v, %v; want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "tcp://", "tcp://*", "udp://*:1", "5557", "@>tcp://*:1", "ipc://", "inproc://x"} {
		if got, err := ParseEndpoint(s); err == nil {
			t.Errorf("%q was taken for %+v", s, got)
		}
	}
}

// FuzzPeer gives a publisher what strangers send.
func FuzzPeer(f *testing.F) {
	ready := appendProperty([]byte("\x05READY"), "socket-type", "SUB")
	hello := append(greeting(), append([]byte{flagCommand, byte(len(ready))}, ready...)...)
	f.Add(append(slices.Clone(hello), 0, 3, 1, 'k', 'v'))
	f.Add(append(slices.Clone(hello), flagLong, 0, 0, 0, 0, 0, 0, 0, 1, 1))
	f.Add(append(slices.Clone(hello), flagCommand, 4, 4, 'P', 'I', 'N'))
	f.Fuzz(func(t *testing.T, data []byte) {
		here, there := net.Pipe()
		go func() {
			buf := make([]byte, 1<<10)
			for _, err := there.Read(buf); err == nil; _, err = there.Read(buf) {
			}
		}()
		go func() {
			there.Write(data)
			there.Close()
		}()
		p := &Publisher{cfg: Config{Topic: "kv", HWM: 1}}
		p.subscribe(here)
		here.Close()
		if len(p.subs) != 0 {
			t.Error("a peer that is gone is still subscribed")
		}
	})
}

// cache is a Source.
type cache struct {
	p     *Publisher
	known []kv.Event
}

func (c *cache) CacheSnapshot(_ context.Context, told func()) ([]kv.Event, error) {
	told()
	return slices.Clone(c.known), nil
}

// change stores a block, after the newest, or removes the newest.
func (c *cache) change(n int) {
	if last := len(c.known) - 1; n%3 == 2 {
		c.p.Publish([]kv.Event{{Kind: kv.Removed, Name: c.known[last].Name}})
		c.known = c.known[:last]
		return
	}
	e := stored(n)
	if last := len(c.known) - 1; last >= 0 {
		e[0].Parent = c.known[last].Name
	}
	c.known = append(c.known, e...)
	c.p.Publish(e)
}

// TestWithPyzmq lets a subscriber of libzmq and msgspec follow, which comes late, asks for a replay and reads a
// snapshot.
func TestWithPyzmq(t *testing.T) {
	if err := exec.Command("python3", "-c", "import zmq, msgspec").Run(); err != nil {
		t.Skip("python3 with pyzmq and msgspec is not here: ", err)
	}
	p := open(t, Config{Endpoint: "@tcp://127.0.0.1:0", Replay: "@tcp://127.0.0.1:0", Topic: "kv-test"})
	c := &cache{p: p}
	const missed, last = 20, 59
	for n := range missed {
		c.change(n)
	}
	snapshot := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payload, next, err := p.Snapshot(r.Context(), c)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Kvasir-Kv-Next", fmt.Sprint(next))
		w.Write(payload)
		close(snapshot)
	}))
	defer web.Close()
	pub, replay := p.addrs()
	cmd := exec.Command("python3", "testdata/follow.py", "tcp://"+pub.String(), "tcp://"+replay.String(), web.URL, fmt.Sprint(last))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a subscription", func() bool { return subscribers(p) == 1 })
	for n := missed; n < 40; n++ {
		c.change(n)
	}
	select {
	case <-snapshot:
	case <-time.After(time.Minute):
	}
	for n := 40; n <= last; n++ {
		c.change(n)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	var got struct {
		Missed int
		Blocks []string
	}
	_, line, _ := strings.Cut(out.String(), "\n")
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, e := range c.known {
		want = append(want, fmt.Sprintf("%016x", binary.BigEndian.Uint64(e.Name[24:])))
	}
	slices.Sort(want)
	if got.Missed != missed || !slices.Equal(got.Blocks, want) {
		t.Errorf("it missed %d batches and knows %v; want %d and %v", got.Missed, got.Blocks, missed, want)
	}
}

// addrs returns where the publisher listens for subscribers and for those who ask for a replay; nil is nowhere.
func (p *Publisher) addrs() (pub, replay net.Addr) {
	if p.pub != nil {
		pub = p.pub.Addr()
	}
	if p.replay != nil {
		replay = p.replay.Addr()
	}
	return pub, replay
}
