package cpu

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

func init() {
	compute.Register(compute.Kind{Name: "cpu", Rank: 100, Host: true, Find: find, Open: open, Meter: measure, Implementations: Kernels})
}

// find returns the host's processor.
func find() []compute.Found {
	_, total, _ := memory()
	return []compute.Found{{Name: "cpu", What: fmt.Sprintf("%d threads, kernels %s", defaultThreads(), strings.Join(Kernels(), ", ")), Memory: total}}
}

// only refuses a device other than the one there is.
func only(which string) error {
	if which != "" {
		return fmt.Errorf("cpu: no device %q; the processor is named cpu", "cpu:"+which)
	}
	return nil
}

// spareProcessors are Go's processors beside those of the device's threads.
const spareProcessors = 4

// open starts the device.
func open(which string, o compute.Options) (compute.Device, error) {
	if err := only(which); err != nil {
		return nil, err
	}
	d, err := New(Options{Threads: o.Threads, Kernels: o.Kernels, Pin: o.Pin, Wide: o.Wide})
	if err != nil {
		return nil, err
	}
	// The device's threads keep one of Go's processors each. With more, HTTP and all else need not wait for one of them
	// to rest, and Go looks for what came over the network as it comes, not every 10 ms: the system shares out the real
	// ones.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), len(d.scratch)+spareProcessors))
	return d, nil
}

// measure starts a meter.
func measure(which string, o compute.Options) (compute.Meter, error) {
	if err := only(which); err != nil {
		return nil, err
	}
	m, err := newMeter(Options{Threads: o.Threads, Kernels: o.Kernels, Pin: o.Pin, Wide: o.Wide})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Threads returns the number of threads that compute.
func (d *Device) Threads() int { return len(d.scratch) }

// Memory implements compute.Device. What weights of this process still to be packed will take is not free.
func (d *Device) Memory() (free, total int64, err error) {
	free, total, err = memory()
	return max(0, free-unpacked.Load()), total, err
}

// StepRows implements compute.Device.
func (d *Device) StepRows() int { return 512 }

// KVTypes implements compute.Device.
func (d *Device) KVTypes() []quant.Type { return KVTypes }
