package ptx

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// compiled returns the PTX that is part of the product, by the names of its files.
func compiled(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../compute/cuda/compiled/*.sm_80.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no compiled kernels: %v", err)
	}
	all := map[string][]byte{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		_, text, _ = bytes.Cut(text, []byte("\n\n")) // what stands before is not PTX
		all[filepath.Base(name)] = text
	}
	return all
}

// All kernels of the product parse, and all that they execute is known.
func TestCompiledKernels(t *testing.T) {
	for name, text := range compiled(t) {
		m, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(m.entries) == 0 {
			t.Errorf("%s has no kernels", name)
		}
		for _, e := range m.entries {
			if _, err := e.body.compile(m); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(kernel("add.s32 %r1, %r2, 3;"))
	f.Add(kernel("{\n.param .b32 p;\nst.param.b32 [p+0], %r1;\n}\nagain: @!%p1 bra again; mov.b32 {%rs1, %rs2}, %r1;"))
	f.Add([]byte(".global .align 4 .f32 x = 0f3F800000;"))
	f.Add([]byte(".global .align 4 .b8 x[4] = {1, 2};\n.func (.param .b32 r) f(.param .b32 a)\n{\nret;\n}"))
	f.Add(kernel("cp.async.cg.shared.global [%r1], [%rd0], 16, %r2; cp.async.wait_group 0; bar.sync 1, 64; lop3.b32 %r1, %r2, %r3, %r4, 7;"))
	f.Add(kernel("shfl.sync.up.b32 %r1|%p1, %r2, %r3, %r4, -1; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [dynamic+8];"))
	f.Add(kernel("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2; mapa.shared::cluster.u32 %r1, %r2, 1; wgmma.wait_group.sync.aligned 0;"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		for _, e := range m.entries {
			_, _ = e.body.compile(m) // refuses, and does not panic
		}
	})
}
