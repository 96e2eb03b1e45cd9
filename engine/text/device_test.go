package text

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

// refuser is a device that supports no model. It is found while refusing is set.
type refuser struct{ *cpu.Device }

var refusing, full bool

// Memory is next to nothing while full is set.
func (r refuser) Memory() (free, total int64, err error) {
	if full {
		return 1 << 20, 1 << 30, nil
	}
	return r.Device.Memory()
}

func (refuser) Compile(*compute.Graph, compute.Cache, compute.Limits) (compute.Program, error) {
	return nil, fmt.Errorf("refuser: operation 1: %w", compute.ErrUnsupported)
}

func init() {
	compute.Register(compute.Kind{
		Name: "refuser", Rank: 1,
		Find: func() []compute.Found {
			if !refusing {
				return nil
			}
			return []compute.Found{{Name: "refuser"}}
		},
		Open: func(string, compute.Options) (compute.Device, error) {
			d, err := cpu.New(cpu.Options{Threads: 1})
			return refuser{d}, err
		},
	})
}

// TestUnsupportedModel holds that a model that the best device does not support runs on the processor, unless that
// device was asked for.
func TestUnsupportedModel(t *testing.T) {
	refusing = true
	defer func() { refusing = false }()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	var log bytes.Buffer
	o := Options{Name: "mini", KVBytes: 16 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	m, err := Open(ckpt, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !strings.HasPrefix(m.Device, "cpu") || !strings.Contains(log.String(), "refuser: operation 1") {
		t.Errorf("on %s; the log says %q", m.Device, log.String())
	}
	o.Device = "refuser"
	if _, err := Open(ckpt, o); err == nil || !strings.Contains(err.Error(), "refuser: operation 1") {
		t.Errorf("a device that was asked for: error %v", err)
	}
	full = true
	defer func() { full = false }()
	if _, err := Open(ckpt, o); err == nil || !strings.Contains(err.Error(), "mini does not fit: of 1024 KiB that are free") {
		t.Errorf("a device that is full: error %v", err)
	}
	log.Reset()
	o.Device = "auto"
	again, err := Open(ckpt, o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if !strings.HasPrefix(again.Device, "cpu") || !strings.Contains(log.String(), "does not fit") {
		t.Errorf("on %s; the log says %q", again.Device, log.String())
	}
}

// TestMemoryForCache holds what is left for the KV cache on the host and on another device.
func TestMemoryForCache(t *testing.T) {
	n := memory{free: 900 << 20, total: 1000 << 20, steps: 100 << 20}
	for _, c := range []struct {
		device string
		share  float64
		want   int64
	}{{"cpu", 0, 400}, {"refuser", 0, 700}, {"refuser", 0.5, 300}, {"refuser", 0.1, 0}, {"refuser", 1, 800}} {
		if got := n.cache(Options{Device: c.device, DeviceShare: c.share}) >> 20; got-c.want > 1 || c.want-got > 1 {
			t.Errorf("%s, %v: %d; want %d", c.device, c.share, got, c.want)
		}
	}
}
