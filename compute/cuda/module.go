package cuda

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:generate go run ./_gen

//go:embed ptx/*.gz
var ptxFiles embed.FS

// Build is one compilation of a file of kernels/ to PTX.
type Build struct {
	Source string // such as "rows.cu"
	Arch   string // such as "sm_80"
	format format // of the weights that products read
	kv     int    // of the cache that attend.cu reads: a number in kvTypes
	wide   bool   // attend.cu for heads of more than narrowHead numbers
}

// earlySources are the files whose kernels begin before those in front of them end, on Hopper and later (waitForRows of
// common.cuh): those of a decode step.
var earlySources = []string{"rows.cu", "cache.cu", "attend.cu", "gemm_few.cu"}

// forGPU returns the compilation for compute capability major.0 and later.
func (b Build) forGPU(major int) Build {
	if major >= 9 && slices.Contains(earlySources, b.Source) {
		b.Arch = "sm_90"
	}
	return b
}

// Builds lists all compilations: every file for sm_80, whose PTX later GPUs run too, earlySources for sm_90 besides,
// and those that use Hopper's own instructions for sm_90a; products once for each format of weights, attention for
// each type of cache.
func Builds() []Build {
	var all []Build
	for _, source := range []string{"rows.cu", "cache.cu", "pack.cu", "attend.cu", "attend_any.cu", "attend_latent.cu", "choose.cu", "experts.cu", "delta.cu"} {
		all = append(all, Build{Source: source, Arch: "sm_80"})
	}
	all = append(all, Build{Source: "attend_wgmma.cu", Arch: "sm_90a"})
	for f := range numFormats {
		all = append(all, productBuilds(f)...)
	}
	for kv := range kvTypes {
		if kv > 0 {
			all = append(all, attendBuild(kv, false))
		}
		all = append(all, attendBuild(kv, true))
	}
	for _, b := range all {
		if later := b.forGPU(9); later != b {
			all = append(all, later)
		}
	}
	return all
}

func attendBuild(kv int, wide bool) Build {
	return Build{Source: "attend.cu", Arch: "sm_80", kv: kv, wide: wide}
}

// productBuilds are the compilations of a format's products.
func productBuilds(f format) []Build {
	all := []Build{{"gemm_few.cu", "sm_80", f, 0, false}, {"gemm.cu", "sm_80", f, 0, false}, {"gemm_wgmma.cu", "sm_90a", f, 0, false}, {"grouped.cu", "sm_80", f, 0, false}}
	if f == formatFP8 {
		all = append(all, Build{"gemm_float8.cu", "sm_90a", f, 0, false})
	}
	return all
}

// File returns the name of the compressed PTX.
func (b Build) File() string {
	name := strings.TrimSuffix(b.Source, ".cu")
	if b.wide {
		name += "_wide"
	}
	return "ptx/" + b.kernel(name) + "." + b.Arch + ".ptx.gz"
}

// kernel returns the name of what a build makes of a kernel.
func (b Build) kernel(name string) string { return b.format.kernel(name) + kvTypes[b.kv].suffix }

// Options returns the compiler's options. Products and sums are joined to one rounding only where the source says
// so.
func (b Build) Options() []string {
	options := []string{"-arch=" + strings.Replace(b.Arch, "sm_", "compute_", 1), "-std=c++17", "-default-device", "--fmad=false"}
	if b.format != formatBF16 {
		options = append(options, fmt.Sprintf("-DFORMAT=%d", b.format))
	}
	if b.kv > 0 {
		options = append(options, fmt.Sprintf("-DKV=%d", b.kv))
	}
	if b.wide {
		options = append(options, "-DWIDE")
	}
	return options
}

// Sum returns the hash of what the PTX is made from.
func (b Build) Sum(source []byte, headers map[string][]byte) string {
	h := sha256.New()
	fmt.Fprintln(h, b.Options())
	h.Write(source)
	for _, name := range headerFiles {
		h.Write(headers[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// headerFiles are the files of kernels/ that others include.
var headerFiles = []string{"common.cuh", "mma.cuh", "weights.cuh", "gemm.cuh", "attend.cuh", "kv.cuh"}

// ReadSource reads a source and the headers from the package's folder.
func ReadSource(dir string, b Build) (source []byte, headers map[string][]byte, err error) {
	headers = map[string][]byte{}
	for _, name := range headerFiles {
		if headers[name], err = os.ReadFile(filepath.Join(dir, "kernels", name)); err != nil {
			return nil, nil, err
		}
	}
	source, err = os.ReadFile(filepath.Join(dir, "kernels", b.Source))
	return source, headers, err
}

// ptx returns the PTX of a build.
func (b Build) ptx() ([]byte, error) {
	z, err := ptxFiles.ReadFile(b.File())
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(z))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// kernelEntry finds a kernel in PTX: its name and the bytes of its parameter.
var kernelEntry = regexp.MustCompile(`\.visible \.entry (\w+)\(\s*\.param \.align \d+ \.b8 \w+\[(\d+)\]\s*\)`)

// kernels are the functions of all modules by name, those of products with the format that they read. Products of
// formats other than BF16 are there once a weight has the format, and attention of other types and of wide heads once a
// cache has them.
type kernels struct {
	modules []uintptr
	byName  map[string]*function
	formats [numFormats]bool
	attends map[Build]bool
}

// loadKernels gives the driver the PTX for the device.
func (g *gpu) loadKernels(k *kernels, builds []Build) error {
	for _, b := range builds {
		if b.Arch == "sm_90a" && g.info.major != 9 {
			continue
		}
		b = b.forGPU(g.info.major)
		ptx, err := b.ptx()
		if err != nil {
			return fmt.Errorf("cuda: %w", err)
		}
		if err := g.load(k, b, ptx); err != nil {
			return err
		}
	}
	return nil
}

// loadProducts gives the driver the products of a format, once.
func (g *gpu) loadProducts(k *kernels, f format) error {
	if k.formats[f] {
		return nil
	}
	if err := g.loadKernels(k, productBuilds(f)); err != nil {
		return err
	}
	for name, n := range f.sharedSizes(g.info.shared) {
		if err := g.sharedMemory(k, name, n); err != nil {
			return err
		}
	}
	k.formats[f] = true
	return nil
}

// loadAttention gives the driver attention with tensor cores to a type of cache, once.
func (g *gpu) loadAttention(k *kernels, kv int, wide bool) error {
	b := attendBuild(kv, wide)
	if k.attends[b] || kv == 0 && !wide {
		return nil
	}
	if err := g.loadKernels(k, []Build{b}); err != nil {
		return err
	}
	for dim, name := range attendDims {
		if (dim > narrowHead) != wide {
			continue
		}
		for kernel, n := range attendShared(dim, name) {
			if err := g.sharedMemory(k, b.kernel(kernel), n); err != nil {
				return err
			}
		}
	}
	k.attends[b] = true
	return nil
}

// attendShared returns the shared memory of the kernels of attend.cu for heads of dim numbers.
func attendShared(dim int, name string) map[string]int {
	half := chunkTokens * (dim + 8) * 2
	return map[string]int{"attend_tile_" + name: 4 * half, "attend_chunk_" + name: half}
}

// load makes a module of PTX and finds its kernels.
func (g *gpu) load(k *kernels, b Build, ptx []byte) error {
	const errorLog, errorLogBytes = 5, 6
	said := make([]byte, 8192)
	image := append(bytes.Clone(ptx), 0)
	names := []int32{errorLog, errorLogBytes}
	values := []uintptr{address(&said[0]), uintptr(len(said))}
	c := g.lib.call(cuModuleLoadDataEx, address(&g.out[0]), address(&image[0]), uintptr(len(names)), address(&names[0]), address(&values[0]))
	keepAlive(image, said, names, values)
	if c != success {
		err := fail(g.lib, c, "compiling %s for %s", b.File(), g.info.name)
		err.Details = cString(&said[0])
		return err
	}
	module := uintptr(g.out[0])
	k.modules = append(k.modules, module)
	g.live++
	early := bytes.Contains(ptx, []byte("griddepcontrol.wait"))
	for _, m := range kernelEntry.FindAllSubmatch(ptx, -1) {
		name := append(bytes.Clone(m[1]), 0)
		err := g.try(cuModuleGetFunction, []uintptr{address(&g.out[0]), module, address(&name[0])}, "finding the kernel %s", m[1])
		if keepAlive(name); err != nil {
			return err
		}
		size, _ := strconv.Atoi(string(m[2]))
		k.byName[b.kernel(string(m[1]))] = &function{name: string(m[1]), handle: uintptr(g.out[0]), param: size, early: early}
	}
	return nil
}

// sharedMemory lets a kernel have n bytes of dynamic shared memory, and launches it with that. Where a block cannot
// have so much, the kernel is forgotten.
func (g *gpu) sharedMemory(k *kernels, name string, n int) error {
	const maxDynamicShared = 8
	f := k.byName[name]
	if f == nil || n > g.info.shared {
		delete(k.byName, name)
		return nil
	}
	f.shared = uint32(n)
	return g.try(cuFuncSetAttribute, []uintptr{f.handle, maxDynamicShared, uintptr(n)}, "giving %s %d bytes of shared memory", name, n)
}

func (k *kernels) close(g *gpu) error {
	var first error
	for _, m := range k.modules {
		g.live--
		if err := g.try(cuModuleUnload, []uintptr{m}, "unloading kernels"); first == nil {
			first = err
		}
	}
	return first
}
