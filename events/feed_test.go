package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/kv"
)

// follower is what a feed told.
type follower struct {
	mu     sync.Mutex
	begun  []bool
	blocks []uint64 // their first tokens
	ended  int
}

func (f *follower) follow(t *testing.T, feed Feed) {
	t.Helper()
	feed.Logger = slog.New(slog.DiscardHandler)
	feed.Begin = func(whole bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.begun, f.blocks = append(f.begun, whole), nil
	}
	feed.Tell = func(told []Told) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, e := range told {
			f.blocks = append(f.blocks, uint64(e.Tokens[0]))
		}
		return nil
	}
	feed.End = func() { f.mu.Lock(); f.ended++; f.mu.Unlock() }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	feed.Start(ctx, func() { close(ended) })
	t.Cleanup(func() { cancel(); <-ended })
}

func (f *follower) told(t *testing.T, begun []bool, blocks ...uint64) {
	t.Helper()
	eventually(t, fmt.Sprint("beginnings ", begun, " and blocks ", blocks), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return reflect.DeepEqual(f.begun, begun) && reflect.DeepEqual(f.blocks, blocks)
	})
}

// one is a batch of one block.
func one(n int) []kv.Event { return []kv.Event{{Name: name(n), Tokens: []int32{int32(n), 0}}} }

func addresses(p *Publisher) (pub, replay string) {
	a, b := p.addrs()
	if b == nil {
		return "tcp://" + a.String(), ""
	}
	return "tcp://" + a.String(), "tcp://" + b.String()
}

// TestFeedReplays follows a publisher that told of blocks before, is restarted at the same addresses, and loses a
// message.
func TestFeedReplays(t *testing.T) {
	p := open(t, Config{Endpoint: "tcp://127.0.0.1:*", Replay: "tcp://127.0.0.1:*"})
	pub, replay := addresses(p)
	p.Publish(one(1))
	p.Publish(one(2))
	var f follower
	f.follow(t, Feed{Endpoint: pub, Replay: replay})
	f.told(t, []bool{true}, 1, 2)
	eventually(t, "a subscription", func() bool { return subscribers(p) == 1 }) // which may come after the replay
	p.Publish(one(3))
	f.told(t, []bool{true}, 1, 2, 3)

	p.mu.Lock() // batches 3 and 4 get lost on their way
	subs := p.subs
	p.subs = nil
	p.mu.Unlock()
	p.Publish(one(4))
	p.Publish(one(5))
	p.mu.Lock()
	p.subs = subs
	p.mu.Unlock()
	p.Publish(one(6))
	f.told(t, []bool{true}, 1, 2, 3, 4, 5, 6)

	p.Close()
	eventually(t, "the end", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.ended == 1 })
	p = open(t, Config{Endpoint: "@" + pub, Replay: replay})
	p.Publish(one(7))
	f.told(t, []bool{true, true}, 7)
}

// TestFeedReplaysWithTopics follows an engine whose replay has topics, as that of vLLM 0.32. The batch is one that it
// sent.
func TestFeedReplaysWithTopics(t *testing.T) {
	pub, _ := addresses(open(t, Config{Endpoint: "tcp://127.0.0.1:*"}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	batch := recorded(t, "others.json")["vllm 0.32"]
	served := make(chan error, 1)
	go func() {
		served <- func() error {
			conn, err := ln.Accept()
			if err != nil {
				return err
			}
			defer conn.Close()
			p, err := shake(conn, "ROUTER", "DEALER")
			if err != nil {
				return err
			}
			if m, err := p.message(nil, nil); err != nil || len(m) != 2 {
				return fmt.Errorf("a question of %d frames: %v", len(m), err)
			}
			return p.write(time.Now().Add(time.Minute), slices.Concat(
				message(nil, []byte("kv"), number(0), batch), message(nil, nil, number(^uint64(0)), nil))...)
		}()
	}()
	var f follower
	f.follow(t, Feed{Endpoint: pub, Replay: "tcp://" + ln.Addr().String()})
	f.told(t, []bool{true}, 5)
	ln.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestFeedForgets holds that what was missed for good makes a feed begin anew.
func TestFeedForgets(t *testing.T) {
	p := open(t, Config{Endpoint: "tcp://127.0.0.1:*", Replay: "tcp://127.0.0.1:*", Buffer: 2})
	pub, replay := addresses(p)
	for n := range 4 {
		p.Publish(one(n))
	}
	var whole, blind follower
	whole.follow(t, Feed{Endpoint: pub, Replay: replay})
	whole.told(t, []bool{false}, 2, 3)
	blind.follow(t, Feed{Endpoint: pub})
	blind.told(t, []bool{false})
	eventually(t, "subscriptions", func() bool { return subscribers(p) == 2 })
	p.Publish(one(4))
	blind.told(t, []bool{false}, 4)
	whole.told(t, []bool{false}, 2, 3, 4)
	p.mu.Lock()
	p.next += 3
	p.recent = nil
	p.mu.Unlock()
	p.Publish(one(8))
	blind.told(t, []bool{false, false})
	whole.told(t, []bool{false, false}, 8)
}

// TestFeedSnapshot holds that batches that a snapshot includes are skipped.
func TestFeedSnapshot(t *testing.T) {
	p := open(t, Config{Endpoint: "tcp://127.0.0.1:*"})
	pub, _ := addresses(p)
	for n := range 3 {
		p.Publish(one(n))
	}
	shots := 0
	var f follower
	f.follow(t, Feed{Endpoint: pub, Snapshot: func(context.Context) ([]byte, uint64, error) {
		if shots++; shots == 1 {
			return nil, 0, errors.New("not yet")
		}
		eventually(t, "a subscription", func() bool { return subscribers(p) == 1 })
		p.Publish(one(3))
		return p.cfg.Encoding.AppendBatch(nil, 1, append(one(10), one(11)...)), 4, nil
	}})
	f.told(t, []bool{true}, 10, 11)
	p.Publish(one(4))
	f.told(t, []bool{true}, 10, 11, 4)
}

// TestFeedOfLiars holds that a publisher that sends what is no batch is left, and asked again.
func TestFeedOfLiars(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var f follower
	f.follow(t, Feed{Endpoint: "tcp://" + ln.Addr().String()})
	good := Encoding{BlockTokens: 2}.AppendBatch(nil, 1, one(1))
	for i, lie := range [][][]byte{
		{nil, number(0)}, {nil, {1}, good}, {nil, number(0), {0xc1}}, {nil, number(0), good, nil},
	} {
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c := client(t, conn, "PUB", "SUB")
		c.receive(t)
		c.send(t, lie...)
		eventually(t, fmt.Sprint("the end of lie ", i), func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.ended == i+1 })
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, conn, "PUB", "SUB")
	c.receive(t)
	c.send(t, nil, number(0), good)
	eventually(t, "the truth", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return reflect.DeepEqual(f.blocks, []uint64{1}) })
}
