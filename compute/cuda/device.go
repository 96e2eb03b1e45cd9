package cuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

func init() {
	compute.Register(compute.Kind{Name: "cuda", Rank: 0, Find: find, Probe: probe, Open: open, Meter: openMeter})
}

// find lists the devices that the driver shows, or why there is none.
func find() []compute.Found {
	lib, err := openLibrary()
	n := 0
	if err == nil {
		n, err = count(lib)
	}
	if err != nil {
		return []compute.Found{{Name: "cuda", What: "NVIDIA GPU", Unused: err.Error()}}
	}
	var all []compute.Found
	for i := range n {
		f := compute.Found{Name: fmt.Sprintf("cuda:%d", i), What: "NVIDIA GPU"}
		info, err := describe(lib, i)
		if f.Memory = info.total; info.name != "" {
			f.What = info.name
		}
		if err != nil {
			f.Unused = err.Error()
		}
		all = append(all, f)
	}
	return all
}

// probe opens a device that was found.
func probe(f *compute.Found) {
	lib, err := openLibrary()
	if err == nil {
		n, _ := strconv.Atoi(strings.TrimPrefix(f.Name, "cuda:"))
		f.Free, err = freeOf(lib, n)
	}
	if err != nil {
		f.Unused = err.Error()
	}
}

// leastFree is the memory that kernels and weights on their way take before any model: with less, no device is opened.
const leastFree = 256 << 20

// freeOf returns how many bytes of a device are free for models, or why it cannot be opened.
func freeOf(lib library, ordinal int) (int64, error) {
	g, err := openGPU(lib, ordinal)
	if err != nil {
		return 0, err
	}
	if err := g.enter(); err != nil {
		return 0, err
	}
	defer g.leave()
	free, total, err := g.memory()
	if err == nil && free < leastFree {
		err = fmt.Errorf("cuda: out of memory: %s of %s are free; want %s, and a model's besides", gigabytes(free), gigabytes(total), gigabytes(leastFree))
	}
	return free, errors.Join(err, g.close())
}

// open opens a device by its number, "" for the first.
func open(which string, o compute.Options) (compute.Device, error) {
	if o.Kernels != "" || o.Wide {
		return nil, errors.New("cuda: the device has one implementation of its kernels, with activations of bfloat16")
	}
	lib, n, err := driverOf(which)
	if err != nil {
		return nil, err
	}
	return newDevice(lib, n)
}

// driverOf opens the driver, and returns the number of the device that a name says, "" for the first.
func driverOf(which string) (lib library, n int, err error) {
	if which != "" {
		if n, err = strconv.Atoi(which); err != nil {
			return nil, 0, fmt.Errorf("cuda: device %q; want a number", which)
		}
	}
	if lib, err = openLibrary(); err != nil {
		return nil, 0, fmt.Errorf("cuda: %w", err)
	}
	return lib, n, nil
}

// device is a compute.Device on an NVIDIA GPU.
type device struct {
	g       *gpu
	kernels *kernels
	loading *stream // copies and repacks weights
	staging [2]pinned
	emptied [2]*event // when each half of staging may be written again
	half    int
	raw     [2]pointer  // what staging is copied to, before it is repacked
	lost    atomic.Bool // a fault has spoilt the context
	mu      sync.Mutex
	taken   map[pointer]*held // memory that lives as long as the device, unless it is dropped
	arenas  []*arena
	asleep  bool // weights are in memory of the host (sleep.go)
}

// held is memory that lives as long as the device.
type held struct {
	at     *pointer // where its owner finds it
	n      int64
	what   string
	in     *arena // of a weight, which comes back from sleep; nil: it is an allocation of its own
	offset int64  // in the arena
}

// stagingBytes is what weights pass through, twice, on the host and on the device.
const stagingBytes = 32 << 20

// newDevice opens a device of the driver.
func newDevice(lib library, ordinal int) (*device, error) {
	g, err := openGPU(lib, ordinal)
	if err != nil {
		return nil, err
	}
	d := &device{g: g, kernels: &kernels{byName: map[string]*function{}, attends: map[Build]bool{}}, taken: map[pointer]*held{}}
	if err := g.enter(); err != nil {
		return nil, err
	}
	defer g.leave()
	if err := d.start(); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

func (d *device) start() (err error) {
	g := d.g
	if err = g.loadKernels(d.kernels, common()); err != nil {
		return err
	}
	for name, n := range sharedSizes(g.info.shared) {
		if err := g.sharedMemory(d.kernels, name, n); err != nil {
			return err
		}
	}
	if err = g.mayRunAside(d.kernels, slices.Concat(asideAdapters, []string{"norm_wide"})...); err != nil {
		return err
	}
	if err = g.loadProducts(d.kernels, formatBF16); err != nil {
		return err
	}
	if d.loading, err = g.newStream(); err != nil {
		return err
	}
	for i := range d.staging {
		if d.staging[i], err = g.allocPinned(stagingBytes, "weights on their way"); err != nil {
			return err
		}
		if d.raw[i], err = g.alloc(stagingBytes, "weights on their way"); err != nil {
			return err
		}
		if d.emptied[i], err = g.newEvent(false); err != nil {
			return err
		}
	}
	return nil
}

// sharedSizes returns the dynamic shared memory that kernels are written for.
func sharedSizes(most int) map[string]int {
	sizes := map[string]int{}
	for _, name := range []string{"attend_latent_tile", "attend_latent_chunk"} {
		sizes[name] = latentShared
	}
	sizes[gateDown] = most // a rank says how much of it
	sizes["attend_latent_wgmma"], sizes["attend_latent_few"] = latentWgmmaShared, latentFewShared
	for _, in := range headsIns {
		sizes[headsKernel(in)] = headsShared(in)
	}
	for dim, name := range attendDims {
		if dim <= narrowHead {
			maps.Copy(sizes, attendShared(quant.BF16, dim, name, most))
		}
	}
	return sizes
}

// Name says which GPU it is and which driver.
func (d *device) Name() string {
	i := d.g.info
	return fmt.Sprintf("%s (compute capability %d.%d, driver for CUDA %d.%d)", i.name, i.major, i.minor, i.driver/1000, i.driver%1000/10)
}

// Memory returns what the driver says is free, and all of the device's.
func (d *device) Memory() (free, total int64, err error) {
	if err := d.g.enter(); err != nil {
		return 0, 0, err
	}
	defer d.g.leave()
	return d.g.memory()
}

// StepRows returns 8192, for which products reach three quarters of the tensor cores' speed.
func (d *device) StepRows() int { return 8192 }

// KVTypes returns what a cache can hold: BF16 first.
func (d *device) KVTypes() []quant.Type {
	var types []quant.Type
	for _, k := range kvTypes {
		types = append(types, k.typ)
	}
	return types
}

// Close gives everything back: weights and caches, too. What a fault has spoilt goes with the context.
func (d *device) Close() error {
	g := d.g
	if d.lost.Load() {
		return g.close()
	}
	errs := []error{g.enter()}
	defer g.leave()
	if d.asleep {
		errs = append(errs, d.freeHost())
	}
	errs = append(errs, d.freeTaken(), d.freeArenas())
	for i := range d.staging {
		errs = append(errs, g.freePinned(d.staging[i]), g.free(d.raw[i]))
		if d.emptied[i] != nil {
			errs = append(errs, d.emptied[i].close())
		}
	}
	if d.loading != nil {
		errs = append(errs, d.loading.close())
	}
	errs = append(errs, d.kernels.close(g), g.close())
	return errors.Join(errs...)
}

// take allocates memory that lives as long as the device, zeroed, and sets where its owner finds it.
func (d *device) take(at *pointer, n int64, what string) (err error) {
	if *at, err = d.g.alloc(n, what); err != nil {
		return err
	}
	return d.keep(&held{at: at, n: max(n, 16), what: what})
}

// takeWeight is take for what comes back from sleep.
func (d *device) takeWeight(at *pointer, n int64, what string) error {
	h := &held{at: at, n: max(n, 16), what: what}
	d.mu.Lock()
	err := d.place(h)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return d.keep(h)
}

// keep notes what was taken, and queues its zeros.
func (d *device) keep(h *held) error {
	d.mu.Lock()
	d.taken[*h.at] = h
	d.mu.Unlock()
	return d.loading.fill(*h.at, 0, h.n)
}

// drop frees memory that was taken, by way of a program's g. Nothing on the device reads it any more.
func (d *device) drop(g *gpu, p pointer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.taken[p]
	if h == nil {
		return nil
	}
	delete(d.taken, p)
	if h.in != nil {
		return d.leave(g, h)
	}
	return g.free(p)
}

// freeTaken frees all that was taken but weights.
func (d *device) freeTaken() error {
	var errs []error
	for p, h := range d.taken {
		if h.in == nil {
			errs = append(errs, d.g.free(p))
		}
	}
	clear(d.taken)
	return errors.Join(errs...)
}
