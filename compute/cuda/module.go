package cuda

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/quant"
)

//go:generate go run ./_gen

//go:embed compiled/*.gz
var compiledFiles embed.FS

// Build is one compilation of a file of kernels/: to PTX for sm_80, which drivers compile for it and later GPUs, to
// machine code for sm_90a, which Hopper alone runs.
type Build struct {
	Source string // such as "rows.cu"
	Arch   string // "sm_80" or "sm_90a"
	format format // of the weights that products read
	kv     int    // of the cache that attend.cu reads: a number in kvTypes
	wide   bool   // attend.cu and attend_wgmma.cu for heads of more than narrowHead numbers
}

// hopper is the compute capability that has machine code of its own.
const hopper = 9

// forGPU returns the compilation for a major compute capability; ok is false if it has none.
func (b Build) forGPU(major int) (_ Build, ok bool) {
	if major == hopper {
		b.Arch = "sm_90a"
	}
	return b, b.Arch == "sm_80" || major == hopper
}

// Builds lists all compilations: every file for sm_80, but for those that use Hopper's own instructions, and for
// sm_90a; products once for each format of weights, attention for each type of cache.
func Builds() []Build {
	all := append(common(), peakBuild)
	for f := range numFormats {
		all = append(all, productBuilds(f)...)
	}
	for kv := range kvTypes {
		if kv > 0 {
			all = append(all, attendBuilds(kv, false)...)
		}
		all = append(all, attendBuilds(kv, true)...)
	}
	for _, b := range all {
		if on, _ := b.forGPU(hopper); on != b {
			all = append(all, on)
		}
	}
	return all
}

// common are the compilations that every model needs.
func common() []Build {
	var all []Build
	for _, source := range []string{"rows.cu", "cache.cu", "pack.cu", "attend.cu", "attend_any.cu", "attend_latent.cu", "choose.cu", "experts.cu", "delta.cu", "adapt.cu"} {
		all = append(all, Build{Source: source, Arch: "sm_80"})
	}
	for _, source := range []string{"attend_ring.cu", "attend_wgmma.cu", "attend_latent_wgmma.cu", "attend_latent_few.cu", "heads_wgmma.cu"} {
		all = append(all, Build{Source: source, Arch: "sm_90a"})
	}
	return all
}

// attendBuilds are the compilations of attention to a type of cache.
func attendBuilds(kv int, wide bool) []Build {
	all := []Build{{Source: "attend.cu", Arch: "sm_80", kv: kv, wide: wide}}
	if !wide || !coded(kvTypes[kv].typ) {
		all = append(all, Build{Source: "attend_wgmma.cu", Arch: "sm_90a", kv: kv, wide: wide})
	}
	if !wide && kvTypes[kv].typ != quant.Q8_0 { // its codes take too long for so few warps
		all = append(all, Build{Source: "attend_ring.cu", Arch: "sm_90a", kv: kv})
	}
	return all
}

// productBuilds are the compilations of a format's products.
func productBuilds(f format) []Build {
	all := []Build{{"gemm_few.cu", "sm_80", f, 0, false}, {"gemm.cu", "sm_80", f, 0, false}, {"gemm_wgmma.cu", "sm_90a", f, 0, false},
		{"gemm_turned.cu", "sm_90a", f, 0, false}, {"grouped.cu", "sm_80", f, 0, false},
		{"grouped_few.cu", "sm_80", f, 0, false}, {"grouped_wgmma.cu", "sm_90a", f, 0, false}, {"route_few.cu", "sm_90a", f, 0, false}}
	if f.ringed() {
		all = append(all, Build{"gemm_ring.cu", "sm_90a", f, 0, false})
	}
	if f == formatFP8 {
		for _, source := range []string{"gemm_float8.cu", "gemm_float8_few.cu", "grouped_float8.cu", "grouped_float8_few.cu"} {
			all = append(all, Build{source, "sm_90a", f, 0, false})
		}
	}
	return all
}

// File returns the name of the compressed file.
func (b Build) File() string {
	name := strings.TrimSuffix(b.Source, ".cu")
	if b.wide {
		name += "_wide"
	}
	return "compiled/" + b.kernel(name) + "." + b.Arch + ".gz"
}

// PTX returns the name of the file of its PTX, where the generator is told to keep it.
func (b Build) PTX() string {
	return strings.TrimSuffix(filepath.Base(b.File()), ".gz") + ".ptx"
}

// kernel returns the name of what a build makes of a kernel.
func (b Build) kernel(name string) string { return b.format.kernel(name) + kvTypes[b.kv].suffix }

// Options returns the compiler's options. Products and sums are joined to one rounding only where the source says
// so.
func (b Build) Options() []string {
	arch := b.Arch
	if arch == "sm_80" {
		arch = "compute_80" // PTX alone
	}
	options := []string{"-arch=" + arch, "-std=c++17", "-default-device", "--fmad=false"}
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

// Sums are hashes of a file of compiled/: of the sources and options that it is made from, of the PTX that these
// become, and of its bytes. A file beside it has them as text.
type Sums struct{ Sources, PTX, File [sha256.Size]byte }

func (s Sums) String() string {
	return fmt.Sprintf("sources %x\nptx     %x\nfile    %x\n", s.Sources, s.PTX, s.File)
}

// Sources returns the hash of what a file is made from.
func (b Build) Sources(source []byte, headers map[string][]byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintln(h, b.Options())
	h.Write(source)
	for _, name := range included(source, headers) {
		h.Write(headers[name])
	}
	h.Sum(sum[:0])
	return sum
}

// ReadSums reads the hashes of a file from the package's folder.
func ReadSums(dir string, b Build) (s Sums, err error) {
	text, err := os.ReadFile(filepath.Join(dir, b.File()+".sum"))
	if err != nil {
		return s, err
	}
	var sources, ptx, file []byte
	if _, err := fmt.Sscanf(string(text), "sources %x\nptx %x\nfile %x\n", &sources, &ptx, &file); err != nil {
		return s, fmt.Errorf("%s.sum: %w", b.File(), err)
	}
	copy(s.Sources[:], sources)
	copy(s.PTX[:], ptx)
	copy(s.File[:], file)
	return s, nil
}

var includes = regexp.MustCompile(`(?m)^#include "(.*)"`)

// included lists the headers that a source includes, or that they do, sorted.
func included(source []byte, headers map[string][]byte) []string {
	seen := map[string]bool{}
	for todo := [][]byte{source}; len(todo) > 0; todo = todo[1:] {
		for _, m := range includes.FindAllSubmatch(todo[0], -1) {
			if name := string(m[1]); !seen[name] {
				seen[name] = true
				todo = append(todo, headers[name])
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// headerFiles are the files of kernels/ that others include.
var headerFiles = []string{
	"common.cuh", "barrier.cuh", "mma.cuh", "weights.cuh", "gemm.cuh", "wgmma.cuh", "gemm_store.cuh", "gemm_wgmma.cuh", "grouped.cuh",
	"route.cuh", "attend.cuh", "attend_page.cuh", "attend_few.cuh", "attend_wgmma.cuh", "latent.cuh", "kv.cuh", "cache.cuh", "turn.cuh",
	"gemm_turned.cuh", "gemm_scaled.cuh", "grouped_wgmma.cuh", "operand.cuh", "float8.cuh", "ahead.cuh",
}

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

// compiled is what a file of compiled/ holds: a line for each kernel, its name and the bytes of its parameter, an empty
// line, and what the driver is given.
type compiled struct {
	names []string
	bytes []int
	image []byte
}

// Compiled makes the contents of a file of PTX, where the kernels are found, and what the driver is to be given.
func Compiled(ptx, image []byte) []byte {
	var file bytes.Buffer
	for _, m := range kernelEntry.FindAllSubmatch(ptx, -1) {
		fmt.Fprintf(&file, "%s %s\n", m[1], m[2])
	}
	file.WriteByte('\n')
	file.Write(image)
	return file.Bytes()
}

// kernelEntry finds a kernel in PTX: its name and the bytes of its parameter.
var kernelEntry = regexp.MustCompile(`\.visible \.entry (\w+)\(\s*\.param \.align \d+ \.b8 \w+\[(\d+)\]\s*\)`)

// kernelFile returns the file of a build, decompressed. The emulator has others for Hopper.
var kernelFile = func(b Build) ([]byte, error) {
	z, err := compiledFiles.ReadFile(b.File())
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(z))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// read reads the file of a build.
func (b Build) read() (c compiled, err error) {
	file, err := kernelFile(b)
	if err != nil {
		return c, err
	}
	for {
		line, rest, _ := bytes.Cut(file, []byte("\n"))
		if file = rest; len(line) == 0 {
			c.image = append(rest, 0) // PTX is a string
			return c, nil
		}
		var name string
		var n int
		if _, err := fmt.Sscan(string(line), &name, &n); err != nil {
			return c, err
		}
		c.names, c.bytes = append(c.names, name), append(c.bytes, n)
	}
}

// earlySources are the files whose kernels begin before those in front of them end, on Hopper (waitForRows of
// common.cuh): those of a decode step.
var earlySources = []string{
	"rows.cu", "cache.cu", "attend.cu", "attend_ring.cu", "attend_wgmma.cu", "attend_latent.cu", "attend_latent_wgmma.cu", "attend_latent_few.cu",
	"gemm_few.cu", "gemm_ring.cu", "gemm_wgmma.cu", "gemm_turned.cu", "gemm_float8.cu", "gemm_float8_few.cu",
	"adapt.cu", "experts.cu", "grouped.cu", "grouped_few.cu", "grouped_wgmma.cu",
	"grouped_float8.cu", "grouped_float8_few.cu", "heads_wgmma.cu", "route_few.cu",
}

// kernels are the functions of all modules by name, those of products with the format that they read. Products of
// formats other than BF16 are there once a weight has the format, and attention of other types and of wide heads once a
// cache has them.
type kernels struct {
	modules []uintptr
	byName  map[string]*function
	formats [numFormats]bool
	attends map[Build]bool
}

// module is a build that the driver is given, and what the driver made of it.
type module struct {
	build Build
	compiled
	handle uintptr
}

// loadKernels gives the driver the kernels for the device: all files at once, since it takes seconds to compile PTX
// that it does not have in its cache.
func (g *gpu) loadKernels(k *kernels, builds []Build) error {
	var all guard.Group
	modules := make([]module, len(builds))
	for i, b := range builds {
		if on, ok := b.forGPU(g.info.major); ok {
			modules[i].build = on
			all.Start(func() error { return g.load(&modules[i]) })
		}
	}
	err := all.Wait()
	for i := range modules {
		m := &modules[i]
		if m.handle == 0 {
			continue
		}
		k.modules = append(k.modules, m.handle)
		g.live++
		if err == nil {
			err = g.find(k, m)
		}
	}
	return err
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
	if f == formatFP8 {
		if err := g.mayRunAside(k, f.kernel("float8_rows"), f.kernel("float8_norm")); err != nil {
			return err
		}
	}
	k.formats[f] = true
	return nil
}

// loadAttention gives the driver attention with tensor cores to a type of cache, once.
func (g *gpu) loadAttention(k *kernels, kv int, wide bool) error {
	builds := attendBuilds(kv, wide)
	b := builds[0]
	if k.attends[b] || kv == 0 && !wide {
		return nil
	}
	if err := g.loadKernels(k, builds); err != nil {
		return err
	}
	for dim, name := range attendDims {
		if (dim > narrowHead) != wide {
			continue
		}
		for kernel, n := range attendShared(kvTypes[kv].typ, dim, name, g.info.shared) {
			if err := g.sharedMemory(k, b.kernel(kernel), n); err != nil {
				return err
			}
		}
	}
	k.attends[b] = true
	return nil
}

// attendShared returns the most shared memory of the kernels of attend.cu, attend_ring.cu and attend_wgmma.cu for heads
// of dim numbers, where blocks can have `most` in all.
func attendShared(kv quant.Type, dim int, name string, most int) map[string]int {
	return map[string]int{
		"attend_tile_" + name: 4 * chunkTokens * (dim + 8) * 2, "attend_wgmma_" + name: wgmmaShared(kv, dim),
		"attend_few_" + name: most, "attend_few_" + name + fewTurned: most,
		"attend_ring_" + name: ringShared(kv, dim), "attend_ring_" + name + fewTurned: ringShared(kv, dim),
	}
}

// load gives the driver a module. Unlike other methods it may be called from several goroutines, none of which has
// entered.
func (g *gpu) load(m *module) (err error) {
	if m.compiled, err = m.build.read(); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	if err := g.enter(); err != nil {
		return err
	}
	defer g.leave()
	const errorLog, errorLogBytes = 5, 6
	said, made := make([]byte, 8192), make([]uintptr, 1)
	names := []int32{errorLog, errorLogBytes}
	values := []uintptr{address(&said[0]), uintptr(len(said))}
	c := g.lib.call(cuModuleLoadDataEx, address(&made[0]), address(&m.image[0]), uintptr(len(names)), address(&names[0]), address(&values[0]))
	keepAlive(made, m.image, said, names, values)
	if c != success {
		err := fail(g.lib, c, "loading %s for %s", m.build.File(), g.info.name)
		err.Details = cString(&said[0])
		return err
	}
	m.handle = made[0]
	return nil
}

// find finds the kernels of a module.
func (g *gpu) find(k *kernels, m *module) error {
	early := m.build.Arch == "sm_90a" && slices.Contains(earlySources, m.build.Source)
	for i, kernel := range m.names {
		name := append([]byte(kernel), 0)
		err := g.try(cuModuleGetFunction, []uintptr{address(&g.out[0]), m.handle, address(&name[0])}, "finding the kernel %s", kernel)
		if keepAlive(name); err != nil {
			return err
		}
		k.byName[m.build.kernel(kernel)] = &function{name: kernel, handle: uintptr(g.out[0]), param: m.bytes[i], early: early}
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
