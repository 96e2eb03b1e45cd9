package cuda

// Kernels that read rows and make others, such as norms, run while blocks of the product after them, which begin early,
// fetch weights. On the same multiprocessor, their loads wait for what these asked for before. So blocks of a kernel
// that runs aside ask for shared memory that they do not use, such that most products' blocks have no room beside them,
// and small ones of F8_E4M3 little. A multiprocessor has room for one block with a row where there are up to aloneRows
// rows, otherwise for two.
const (
	asideRows   = 256 // of more rows, a multiprocessor has more blocks
	aloneRows   = 32
	aloneShared = 136 << 10
	pairShared  = 108 << 10
)

// asideShared is what a block asks for that has a row, beside those of so many rows.
func asideShared(rows int) uint32 {
	if rows <= aloneRows {
		return aloneShared
	}
	if rows <= asideRows {
		return pairShared
	}
	return 0
}

// runsAside reports whether kernels run aside on a GPU: they begin early, and blocks can ask for so much.
func (i info) runsAside() bool { return i.major == hopper && i.shared >= aloneShared }

// mayRunAside lets blocks of kernels ask for up to aloneShared.
func (g *gpu) mayRunAside(k *kernels, names ...string) error {
	for _, name := range names {
		if !g.info.runsAside() {
			break
		}
		if err := g.sharedMemory(k, name, aloneShared); err != nil {
			return err
		}
		k.byName[name].shared = 0
	}
	return nil
}

// runAside is run for a kernel that mayRunAside was called for; where it runs aside, its blocks ask for so much shared
// memory.
func runAside[T any](p *program, name string, blocks grid, threads int, shared uint32, args *T) error {
	if f := *p.kernel[name]; p.d.g.info.runsAside() && blocks.x > 0 && blocks.y > 0 {
		f.shared = shared
		return launch(p.s, &f, blocks, threads, args)
	}
	return run(p, name, blocks, threads, args)
}
