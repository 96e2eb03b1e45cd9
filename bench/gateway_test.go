package bench

import (
	"runtime"
	"testing"
	"time"
)

// TestGateway measures for a moment, and looks whether there are numbers.
func TestGateway(t *testing.T) {
	var rows []GatewayRow
	o := GatewayOptions{Engines: 2, Sizes: []int{1 << 10, 32 << 10}, Clients: 2, Time: 300 * time.Millisecond}
	if err := Gateway(t.Context(), o, func(r GatewayRow) { rows = append(rows, r) }); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[1].BodyBytes != 32<<10 || rows[1].RequestsPerSecond <= 0 || rows[0].ChunksPerSecond <= 0 {
		t.Errorf("%+v", rows)
	}
	if err := Gateway(t.Context(), GatewayOptions{Engines: 1, Sizes: []int{1}, Clients: 1, Time: time.Second}, nil); err == nil {
		t.Error("bodies of one byte were measured")
	}
}

// TestGatewayMemory sends some requests, and looks whether memory was measured all the while.
func TestGatewayMemory(t *testing.T) {
	var rows []MemoryRow
	o := GatewayOptions{Engines: 2, Sizes: []int{1 << 10}, Clients: 4}
	if err := GatewayMemory(t.Context(), o, 2000, func(r MemoryRow) { rows = append(rows, r) }); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 20 || rows[19].Requests != 2000 || rows[0].Heap <= 0 || rows[19].Seconds <= rows[0].Seconds {
		t.Errorf("%+v", rows)
	}
	if runtime.GOOS == "linux" && rows[0].Resident < rows[0].Heap {
		t.Errorf("%d bytes are resident, of which %d are live objects", rows[0].Resident, rows[0].Heap)
	}
	if err := GatewayMemory(t.Context(), o, 0, nil); err == nil {
		t.Error("no requests were sent")
	}
}
