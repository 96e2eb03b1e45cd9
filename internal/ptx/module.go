package ptx

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/kvasir-llm/kvasir/guard"
)

// Module is a parsed PTX file.
type Module struct {
	entries map[string]*Entry
	data    []byte // what .global variables hold at first; kernels do not share changes of it
}

// Entry is a kernel of a module.
type Entry struct {
	module  *Module
	body    *function
	compile sync.Once
	program *program
	err     error // of compiling
}

// Entry returns the kernel of that name, or nil.
func (m *Module) Entry(name string) *Entry { return m.entries[name] }

// Launch says on what, and with what, a kernel runs.
type Launch struct {
	Grid, Block, Cluster [3]int // Cluster zero is what the kernel says, or none
	Shared               int    // dynamic shared memory, bytes
	Params               []byte // the parameters as the kernel's .param space has them
	Memory               Memory
}

// Memory is global memory. Addresses are below 1<<48, and 0 is in no allocation.
type Memory interface {
	// Find returns the allocation that an address lies in: where it begins, and its bytes; nil if there is none.
	// What it returns stays valid for the launch. Several goroutines call it at once.
	Find(address uint64) (base uint64, data []byte)
}

// ParamBytes returns how many bytes of parameters the kernel has.
func (e *Entry) ParamBytes() int { return e.body.paramSize() }

func (f *function) paramSize() int {
	size := 0
	for _, v := range f.params {
		size = v.offset + v.size
	}
	return size
}

// Run runs the kernel on all blocks of the grid, several at a time. An error says which thread did what at which line
// of the PTX.
func (e *Entry) Run(l Launch) error {
	e.compile.Do(func() { e.program, e.err = e.body.compile(e.module) })
	if e.err != nil {
		return e.err
	}
	if volume(l.Cluster) == 0 {
		l.Cluster = [3]int{1, 1, 1}
		if volume(e.body.cluster) > 0 {
			l.Cluster = e.body.cluster
		}
	}
	if err := e.body.accepts(l); err != nil {
		return fmt.Errorf("ptx: %s: %w", e.body.name, err)
	}
	running := &launch{Launch: l, program: e.program}
	clusters := volume(l.Grid) / volume(l.Cluster)
	var at atomic.Int64
	var failed atomic.Bool
	var all guard.Group
	for range min(runtime.GOMAXPROCS(0), clusters) {
		all.Start(func() error {
			c := e.program.take(running)
			for n := int(at.Add(1)) - 1; n < clusters && !failed.Load(); n = int(at.Add(1)) - 1 {
				c.start(n)
				if err := c.run(); err != nil {
					failed.Store(true)
					return err
				}
			}
			e.program.idle.Put(c)
			return nil
		})
	}
	return all.Wait()
}

// take returns a cluster of the launch's form, with memory that was used before if there is one.
func (p *program) take(l *launch) *cluster {
	c, ok := p.idle.Get().(*cluster)
	if !ok || c.launch.Block != l.Block || c.launch.Cluster != l.Cluster || c.launch.Shared != l.Shared {
		return newCluster(l)
	}
	c.launch = l
	for _, b := range c.blocks {
		for _, w := range b.warps {
			clear(w.near) // allocations may be others now
			w.copies.near = window{}
		}
	}
	return c
}

// accepts says what is wrong with a launch of a kernel.
func (f *function) accepts(l Launch) error {
	switch threads := volume(l.Block); {
	case len(l.Params) != f.paramSize():
		return fmt.Errorf("%d bytes of parameters, want %d", len(l.Params), f.paramSize())
	case min(l.Grid[0], l.Grid[1], l.Grid[2], l.Block[0], l.Block[1], l.Block[2]) < 1:
		return fmt.Errorf("grid %v of blocks %v", l.Grid, l.Block)
	case threads > 1024 || f.threads > 0 && threads > f.threads:
		return fmt.Errorf("blocks of %d threads, want %d at most", threads, f.threads)
	case f.cluster != [3]int{} && f.cluster != l.Cluster:
		return fmt.Errorf("clusters %v, want %v", l.Cluster, f.cluster)
	case l.Grid[0]%l.Cluster[0]+l.Grid[1]%l.Cluster[1]+l.Grid[2]%l.Cluster[2] != 0:
		return fmt.Errorf("grid %v of clusters %v", l.Grid, l.Cluster)
	}
	return nil
}
