package bench

import (
	"context"
	"fmt"
	"os"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// MemoryRow is what a process takes after some requests.
type MemoryRow struct {
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"`
	Resident int     `json:"resident_bytes,omitempty"` // where the system tells
	Heap     int     `json:"heap_bytes"`               // of live objects, at the last garbage collection
}

// GatewayMemory sends so many requests through a gateway in this process, as Gateway does, but each with a prompt, a
// user and a session of its own. told gets a row after each twentieth of them.
func GatewayMemory(ctx context.Context, o GatewayOptions, requests int, told func(MemoryRow)) error {
	if o.Engines < 1 || o.Clients < 1 || requests < 1 || len(o.Sizes) != 1 || o.Sizes[0] < 512 || len(o.Doors) > 0 {
		return fmt.Errorf("bench: %d engines, %d clients, %d requests, bodies of %v bytes and %d doors; want at least one of each, one size of at least 512 bytes, and no doors",
			o.Engines, o.Clients, requests, o.Sizes, len(o.Doors))
	}
	l, done, err := o.open()
	if err != nil {
		return err
	}
	defer done()
	l.size, l.strangers = o.Sizes[0], true
	begin := time.Now()
	var sent atomic.Int64
	for part := 1; part <= 20; part++ {
		most := int64(requests * part / 20)
		var all sync.WaitGroup
		errs := make(chan error, o.Clients)
		for range o.Clients {
			c, err := l.dial(l.door, 0)
			if err != nil {
				return err
			}
			all.Add(1)
			guard.Go(func() error {
				defer c.conn.Close()
				for ctx.Err() == nil {
					n := sent.Add(1)
					if n > most {
						sent.Add(-1)
						return nil
					}
					if err := c.ask(int(n)); err != nil {
						return err
					}
				}
				return ctx.Err()
			}, func(err error) {
				if err != nil {
					errs <- err
				}
				all.Done()
			})
		}
		all.Wait()
		select {
		case err := <-errs:
			return err
		default:
		}
		told(MemoryRow{Requests: int(most), Seconds: time.Since(begin).Seconds(), Resident: resident(), Heap: liveHeap()})
	}
	return nil
}

// resident returns the memory that the process takes, in bytes; 0 if the system does not tell.
func resident() int {
	var all, pages int
	page, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		fmt.Sscan(string(page), &all, &pages)
	}
	return pages * os.Getpagesize()
}

func liveHeap() int {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}
