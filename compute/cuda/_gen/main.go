// Command _gen compiles the kernels of package cuda with NVRTC, which needs no GPU: go generate runs it in
// the package's folder. KVASIR_NVRTC names the library libnvrtc.so; else it is looked for where pip installs it
// (pip install nvidia-cuda-nvrtc==13.0.*). The version is at most 13.0, so that drivers for CUDA 13.0 load what it
// makes. An argument is a part of the names of the files to write; without, all are.
//
// With -ptx, it writes no file of the package, but the PTX for Hopper to the folder of that name, for the emulator
// (package fakecuda), and fails if that is not what the files were made from. That takes about half of the time.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/kvasir-llm/kvasir/compute/cuda"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("gen: ")
	ptx := flag.String("ptx", "", "write the PTX for Hopper to this folder, and nothing else")
	flag.Parse()
	write, c := nvrtc.write, open()
	if *ptx != "" {
		write = func(c nvrtc, b cuda.Build) { c.writePTX(b, *ptx) }
	}
	var all sync.WaitGroup
	places := make(chan struct{}, runtime.NumCPU())
	for _, b := range cuda.Builds() {
		if !strings.Contains(b.File(), flag.Arg(0)) || *ptx != "" && b.Arch != "sm_90a" {
			continue
		}
		places <- struct{}{}
		all.Go(func() {
			write(c, b)
			<-places
		})
	}
	all.Wait()
	if stale.Load() {
		os.Exit(1)
	}
}

// write compiles a build and writes its file, compressed, and its hashes.
func (c nvrtc) write(b cuda.Build) {
	source, headers, err := cuda.ReadSource(".", b)
	if err != nil {
		log.Fatal(err)
	}
	ptx, image := c.compile(b, source, headers, b.Options())
	file := cuda.Compiled(ptx, image)
	var z bytes.Buffer
	w, _ := gzip.NewWriterLevel(&z, gzip.BestCompression)
	_, _ = w.Write(file)
	_ = w.Close()
	sums := cuda.Sums{Sources: b.Sources(source, headers), PTX: sha256.Sum256(ptx), File: sha256.Sum256(z.Bytes())}
	if err := os.WriteFile(b.File(), z.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(b.File()+".sum", []byte(sums.String()), 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d bytes, %x\n", b.File(), len(file), sums.File[:4])
}

// stale says that the PTX of some file has changed since it was written.
var stale atomic.Bool

// writePTX compiles a build to PTX, writes that to a folder, and compares it with what the build's file was made from.
func (c nvrtc) writePTX(b cuda.Build, dir string) {
	source, headers, err := cuda.ReadSource(".", b)
	if err != nil {
		log.Fatal(err)
	}
	options := b.Options()
	options[0] = "-arch=compute_90a"
	ptx, _ := c.compile(b, source, headers, options)
	if err := os.WriteFile(filepath.Join(dir, b.PTX()), cuda.Compiled(ptx, ptx), 0o644); err != nil {
		log.Fatal(err)
	}
	if sums, err := cuda.ReadSums(".", b); err != nil || sums.PTX != sha256.Sum256(ptx) {
		log.Printf("%s is not made from this PTX (%v)", b.File(), err)
		stale.Store(true)
	}
}

// nvrtc is the compiler's library.
type nvrtc map[string]uintptr

func open() nvrtc {
	path := os.Getenv("KVASIR_NVRTC")
	if path == "" {
		path = find()
	}
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		log.Fatalf("%v; set KVASIR_NVRTC to the path of libnvrtc.so, or pip install nvidia-cuda-nvrtc==13.0.*", err)
	}
	c := nvrtc{}
	for _, name := range []string{
		"nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcDestroyProgram", "nvrtcGetPTXSize", "nvrtcGetPTX", "nvrtcGetCUBINSize", "nvrtcGetCUBIN",
		"nvrtcGetProgramLogSize", "nvrtcGetProgramLog", "nvrtcVersion",
	} {
		if c[name], err = purego.Dlsym(h, name); err != nil {
			log.Fatal(err)
		}
	}
	v := new([2]int32)
	purego.SyscallN(c["nvrtcVersion"], at(&v[0]), at(&v[1]))
	if v[0] > 13 || v[0] == 13 && v[1] > 0 {
		log.Fatalf("NVRTC %d.%d writes PTX that drivers for CUDA 13.0 refuse; want 13.0 or before", v[0], v[1])
	}
	return c
}

// find returns the path of libnvrtc in pip's site-packages.
func find() string {
	out, _ := exec.Command("python3", "-c", "import site; print('\\n'.join(site.getsitepackages()+[site.getusersitepackages()]))").Output()
	for _, dir := range strings.Fields(string(out)) {
		for _, pattern := range []string{"nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cuda_nvrtc/lib/libnvrtc.so.1?"} {
			if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
				return found[0]
			}
		}
	}
	return "libnvrtc.so"
}

// at returns the address of a value, which it makes the compiler keep on the heap: a stack would move.
func at[T any](p *T) uintptr {
	if never {
		escaped = unsafe.Pointer(p)
	}
	return uintptr(unsafe.Pointer(p))
}

var (
	never   bool
	escaped unsafe.Pointer
)

func text(s string) *byte { return &append([]byte(s), 0)[0] }

// compile returns what a source becomes: its PTX, and what the driver is to be given.
func (c nvrtc) compile(b cuda.Build, source []byte, headers map[string][]byte, with []string) (ptx, image []byte) {
	prog := new(uintptr)
	var names, bodies []*byte
	for name, body := range headers {
		names, bodies = append(names, text(name)), append(bodies, text(string(body)))
	}
	names, bodies = append(names, nil), append(bodies, nil)
	body, name := text(string(source)), text(b.Source)
	c.check("nvrtcCreateProgram", at(prog), at(body), at(name), uintptr(len(headers)), at(&bodies[0]), at(&names[0]))
	var options []*byte
	for _, o := range with {
		options = append(options, text(o))
	}
	r, _, _ := purego.SyscallN(c["nvrtcCompileProgram"], *prog, uintptr(len(options)), at(&options[0]))
	for _, used := range []any{body, name, names, bodies, options} { // of which the compiler has addresses only
		runtime.KeepAlive(used)
	}
	if said := c.read("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", *prog); r != 0 || len(said) > 2 {
		fmt.Fprintf(os.Stderr, "%s for %s:\n%s\n", b.Source, b.Arch, said)
	}
	if r != 0 {
		os.Exit(1)
	}
	ptx = bytes.TrimRight(c.read("nvrtcGetPTXSize", "nvrtcGetPTX", *prog), "\x00")
	image = ptx
	if with[0] == "-arch=sm_90a" {
		image = c.read("nvrtcGetCUBINSize", "nvrtcGetCUBIN", *prog)
	}
	c.check("nvrtcDestroyProgram", at(prog))
	return ptx, image
}

func (c nvrtc) read(size, get string, prog uintptr) []byte {
	n := new(uint64)
	c.check(size, prog, at(n))
	buf := make([]byte, *n+1)
	c.check(get, prog, at(&buf[0]))
	return buf[:*n]
}

func (c nvrtc) check(name string, args ...uintptr) {
	if r, _, _ := purego.SyscallN(c[name], args...); r != 0 {
		log.Fatalf("%s: error %d", name, r)
	}
}
