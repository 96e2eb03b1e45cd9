package guard

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	maxGarbage = 128 << 20 // that piles up before it is collected
	spareHeap  = 64 << 20  // of memory that lies free between objects, and the collector's own
)

// BoundGarbage bounds the process's garbage and free memory by constants from now on. By default Go lets as much
// garbage pile up as there is in use, weights and KV cache included, and keeps memory that garbage left for minutes.
// Collecting sooner costs little, since weights and KV caches hold no pointers. What GOGC or GOMEMLIMIT say stands.
func BoundGarbage() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	afterCollections(func() {
		now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		metrics.Read(now)
		percent, limit := garbageBounds(now[0].Value.Uint64(), now[1].Value.Uint64())
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
}

// garbageBounds returns how much garbage may pile up, as a percentage of the bytes in use: as much as these, or
// maxGarbage if that is less, but at least 1%. And how much memory Go may hold in all, so that it returns what lies
// free beyond that: it leaves 3% of such a limit unused.
func garbageBounds(live, stacks uint64) (percent int, limit int64) {
	percent = int(min(100, max(1, 100*maxGarbage/max(1, live))))
	return percent, int64((live + live*uint64(percent)/100 + stacks + spareHeap) / 97 * 100)
}

// afterCollections calls do after each collection of garbage, as long as the process lives.
func afterCollections(do func()) {
	var again func(int)
	again = func(int) {
		do()
		runtime.AddCleanup(new([64]byte), again, 0)
	}
	again(0)
}
