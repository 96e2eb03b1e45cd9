package cpu

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// Device is a compute.Device on the host's processor. Operations are spread over the threads. Those on rows alone wait
// for the next one of another kind (rowOp); all others return when they are done.
type Device struct {
	k     *kernel.Table
	wide  bool // Options.Wide
	pool  *pool
	done  chan struct{} // closed by Close
	batch *compute.Batch
	rows  int // that operations run over: those of the batch, or of the domain of a program's operation
	err   error
	busy  sync.Mutex // held by the program that computes

	programs []*program // those compiled

	tables *tables // of the running program, or own
	own    tables  // of batches that Begin announces

	waiting  []rowOp       // operations on rows that wait
	op       operation     // the arguments of the running operation of another kind
	head     [1]Product    // the vocabulary projection, as the argument of matmul
	xq       kernel.Rows8  // kernel.Quantised rows of the running product
	x16      kernel.Rows16 // its rows in bfloat16
	lora     adaption      // what the batch's adapters add to the running products
	routed   routedRows    // the rows of the running product by route
	runs     []storeRun    // of the running store
	tiles    []tile        // of the running attention
	apart    []int32       // those of them whose chunks are computed apart
	parts    partial       // what is computed apart
	scratch  []scratch     // by worker
	arena    arena         // of weights
	raw      []*matrix     // weights that may not be packed yet
	idle     *time.Timer   // begins to pack them; nil before there are any
	idleTime time.Duration // that it waits
	before   *matrix       // the first weight of the product before
	chains   []chain       // of the running step's choices
	choosing *step
	jobs     jobs
}

// jobs are the operations' bodies for one item, bound to the device once: binding a method allocates.
type jobs struct {
	squash, shrink, expand, attend, join, heads, convolve, delta, gather, quantiseRoute, roundRoute, expert, choose func(worker, item int)
	rows, product                                                                                                   func(worker, from, to int)
}

// Options choose how a Device computes. None but Wide changes a result.
type Options struct {
	Threads int    // 0 is defaultThreads
	Kernels string // the implementation's name, such as "avx2"; "" is the best of this machine
	Pin     bool   // bind each worker thread to a processor of its own
	Wide    bool   // take activations in float32 for weights of F16 and BF16 too, and those as they are: slower, and nearer to float32
}

// New starts a device.
func New(o Options) (*Device, error) {
	if o.Threads < 0 || o.Threads > 1024 {
		return nil, fmt.Errorf("cpu: %d threads; want 1 to 1024, or 0 for one per core", o.Threads)
	}
	if o.Threads == 0 {
		o.Threads = defaultThreads()
	}
	k, err := kernel.Pick(o.Kernels)
	if err != nil {
		return nil, err
	}
	var cpus [][]int
	all := processors("/sys", allowed())
	place := placementOf(all, o.Threads)
	if o.Pin {
		for _, p := range all {
			cpus = append(cpus, []int{p.id})
		}
	} else if len(place.cpus) > 0 {
		cpus = [][]int{place.cpus}
	}
	d := &Device{k: k, wide: o.Wide, idleTime: idleTime, done: make(chan struct{}), pool: newPool(o.Threads, cpus), arena: arena{nodes: place.nodes}, scratch: make([]scratch, o.Threads), batch: new(compute.Batch), waiting: make([]rowOp, 0, mostWaiting)}
	d.jobs = jobs{
		squash: d.squashRow, shrink: d.shrinkItem, expand: d.expandItem, attend: d.attendItem, join: d.joinItem, heads: d.headsItem,
		convolve: d.convolveItem, delta: d.deltaItem, gather: d.gatherRoute, quantiseRoute: d.quantiseRoute, roundRoute: d.roundRoute,
		expert: d.expertItem, choose: d.chooseChain, rows: d.rowItems, product: d.productItems,
	}
	return d, nil
}

// Name implements compute.Device.
func (d *Device) Name() string {
	return fmt.Sprintf("cpu (%s, %d threads)", d.k.Name, len(d.scratch))
}

// Kernels returns the names of the implementations that this machine can run, best first.
func Kernels() []string {
	var names []string
	for _, k := range kernel.Implementations() {
		names = append(names, k.Name)
	}
	return names
}

// vector is a float32 vector in memory.
type vector []float32

func (v vector) Len() int { return len(v) }

// Vector implements compute.Device.
func (d *Device) Vector(v []float32) (compute.Vector, error) {
	return vector(append([]float32(nil), v...)), nil
}

// Tensor makes an activation buffer, zeroed.
func (d *Device) Tensor(rows, cols int) (Tensor, error) {
	if rows < 1 || cols < 1 {
		return Tensor{}, fmt.Errorf("cpu: a tensor of [%d, %d]", rows, cols)
	}
	return Tensor{Rows: rows, Cols: cols, Host: kernel.View[float32](aligned(rows * cols * 4))}, nil
}

// Begin announces the batch that the following operations work on, and edits the block tables.
func (d *Device) Begin(b *compute.Batch) {
	d.flush()
	d.begin(b, &d.own)
}

// begin is Begin with the block tables of a program.
func (d *Device) begin(b *compute.Batch, t *tables) {
	d.batch, d.rows, d.tables = b, b.Rows(), t
	t.edit(b.Edits)
	d.lora.group(b)
}

// Sync does what waits and returns the first fault since the last Sync.
func (d *Device) Sync() error {
	d.flush()
	err := d.err
	d.err = nil
	return err
}

// Read returns row of t.
func (d *Device) Read(t Tensor, row int) []float32 { return rowOf(t, row) }

// Close implements compute.Device.
func (d *Device) Close() error {
	for _, p := range slices.Clone(d.programs) {
		p.Close()
	}
	select {
	case <-d.done:
	default:
		close(d.done)
	}
	d.letGo()
	d.pool.close()
	return nil
}

// rowOf returns row r of t.
func rowOf(t Tensor, r int) []float32 { return t.Host[r*t.Cols:][:t.Cols:t.Cols] }

// each runs an operation's job for every item on the pool and keeps the first fault.
func (d *Device) each(items int, job func(worker, item int)) {
	if err := d.pool.run(items, job); err != nil && d.err == nil {
		d.err = err
	}
}

// spread is each for a job that takes up to most items at once.
func (d *Device) spread(items, most int, job func(worker, from, to int)) {
	if err := d.pool.runs(items, most, job); err != nil && d.err == nil {
		d.err = err
	}
}
