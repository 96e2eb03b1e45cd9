// Package cache keeps answers for requests that come again: in memory, or in a Redis that gateways share. It knows
// nothing of HTTP or of what an answer means. Read Store first.
package cache

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Answer is what is kept.
type Answer struct {
	Type string // Content-Type
	Body []byte
	At   time.Time // when it was given
}

// Store keeps answers by their names. Its methods may be called from several goroutines.
type Store interface {
	// Get returns an answer; ok is false if there is none, or the store cannot be reached.
	Get(ctx context.Context, name string) (a Answer, ok bool)
	// Put keeps an answer for a time, if the store can be reached.
	Put(ctx context.Context, name string, a Answer, keep time.Duration)
	Close()
}

// Open opens the store that a URL names: memory:, which holds so many bytes, or redis://….
func Open(url string, size int) (Store, error) {
	if url == "memory:" {
		return &memory{size: size, order: list.New(), items: map[string]*list.Element{}}, nil
	}
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, errors.New("cache: the URL of Redis cannot be read") // the error may show a password
	}
	o.DisableCache = true
	o.Dialer.Timeout = time.Second
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("cache: Redis: %w", err)
	}
	return &redis{client}, nil
}

// CheckURL refuses what is no URL of a store.
func CheckURL(url string) error {
	if url != "memory:" && !strings.HasPrefix(url, "redis://") && !strings.HasPrefix(url, "rediss://") {
		return errors.New("cache: want memory:, redis://… or rediss://…")
	}
	return nil
}

// Name names the answer to a request: a hash of who asks, of what, and of the body, whatever the order of its keys and
// the space between them.
func Name(body []byte, who ...string) (string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return "", err
	}
	all, err := json.Marshal([]any{who, value}) // which sorts keys
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:]), err
}

// memory forgets what was used least recently.
type memory struct {
	mu    sync.Mutex
	size  int // bytes that are left
	order *list.List
	items map[string]*list.Element
}

type item struct {
	Answer
	name string
	ends time.Time
}

// overhead is what an answer takes beside its texts, about.
const overhead = 400

func (i *item) bytes() int { return len(i.Body) + len(i.Type) + overhead }

func (m *memory) Get(_ context.Context, name string) (Answer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.items[name]
	if e == nil {
		return Answer{}, false
	}
	i := e.Value.(*item)
	if !time.Now().Before(i.ends) {
		m.drop(e)
		return Answer{}, false
	}
	m.order.MoveToFront(e)
	return i.Answer, true
}

func (m *memory) drop(e *list.Element) {
	i := m.order.Remove(e).(*item)
	delete(m.items, i.name)
	m.size += i.bytes()
}

func (m *memory) Put(_ context.Context, name string, a Answer, keep time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.items[name]; e != nil {
		m.drop(e)
	}
	i := &item{a, name, time.Now().Add(keep)}
	need := i.bytes()
	for m.size < need && m.order.Len() > 0 {
		m.drop(m.order.Back())
	}
	if m.size >= need {
		m.items[name] = m.order.PushFront(i)
		m.size -= need
	}
}

func (m *memory) Close() {}

type redis struct{ client rueidis.Client }

// patience is how long a request waits for the cache.
const patience = 250 * time.Millisecond

// An answer is a hash with the fields type, body and at, in seconds since 1970.
func (r *redis) Get(ctx context.Context, name string) (Answer, bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := r.client.Do(ctx, r.client.B().Hgetall().Key("kvasir:answer:"+name).Build()).AsStrMap()
	at, bad := time.Parse(time.RFC3339, got["at"])
	if err != nil || bad != nil {
		return Answer{}, false
	}
	return Answer{Type: got["type"], Body: []byte(got["body"]), At: at}, true
}

func (r *redis) Put(ctx context.Context, name string, a Answer, keep time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	key := "kvasir:answer:" + name
	r.client.DoMulti(ctx, r.client.B().Multi().Build(), r.client.B().Del().Key(key).Build(),
		r.client.B().Hset().Key(key).FieldValue().FieldValue("type", a.Type).FieldValue("body", string(a.Body)).
			FieldValue("at", a.At.UTC().Format(time.RFC3339)).Build(),
		r.client.B().Pexpire().Key(key).Milliseconds(keep.Milliseconds()).Build(), r.client.B().Exec().Build())
}

func (r *redis) Close() { r.client.Close() }
