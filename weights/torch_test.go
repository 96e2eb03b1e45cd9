package weights

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

func openTorch(t *testing.T, name string) *Checkpoint {
	t.Helper()
	c, err := Open(filepath.Join("testdata", "torch", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestTorch opens what torch.save wrote (testdata/make_torch.py) and expects the tensors that safetensors hold.
func TestTorch(t *testing.T) {
	want := openTorch(t, "want.safetensors")
	for _, name := range []string{"zip.bin", "legacy.bin"} {
		c := openTorch(t, name)
		if c.Format() != PyTorch {
			t.Errorf("%s: format %v", name, c.Format())
		}
		for _, info := range want.Tensors() {
			if name == "legacy.bin" && info.Type == quant.F8_E4M3 {
				continue
			}
			w, _ := want.Tensor(info.Name)
			got, ok := c.Tensor(info.Name)
			if !ok || got.Type != w.Type || !slices.Equal(got.Shape, w.Shape) || !bytes.Equal(got.Data, w.Data) {
				t.Errorf("%s: tensor %q is %v %v %x; want %v %v %x", name, info.Name, got.Type, got.Shape, got.Data, w.Type, w.Shape, w.Data)
			}
		}
		if f32, _ := c.Tensor("f32"); len(f32.Data) == 0 {
			t.Errorf("%s: f32 is empty", name)
		} else if tied, _ := c.Tensor("tied"); &tied.Data[0] != &f32.Data[0] {
			t.Errorf("%s: the tied tensor is a copy", name)
		}
	}
}

func TestTorchShards(t *testing.T) {
	want := openTorch(t, "want.safetensors")
	for _, path := range []string{"shards", "shards/pytorch_model.bin.index.json"} {
		c := openTorch(t, path)
		for _, name := range []string{"f32", "bf16", "f16"} {
			w, _ := want.Tensor(name)
			if got, ok := c.Tensor(name); !ok || !bytes.Equal(got.Data, w.Data) {
				t.Errorf("%s: tensor %q differs", path, name)
			}
		}
		if len(c.Files()) != 2 {
			t.Errorf("%s: files %v", path, c.Files())
		}
	}
}

// nested returns a file of torch.save whose dictionary is the entry "state_dict" of another one. It follows other
// entries, given as a part of a pickle.
func nested(t testing.TB, name, others string) []byte {
	t.Helper()
	r, err := zip.OpenReader(filepath.Join("testdata", "torch", name))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f.Name, "/data.pkl") { // of protocol 2: its head is 2 bytes long, its last byte stops
			inner := string(data[2 : len(data)-1])
			data = []byte("\x80\x02}" + others + "X\x0a\x00\x00\x00state_dict" + inner + "s.")
		}
		to, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Store})
		if err == nil {
			_, err = to.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestTorchStateDict opens checkpoints of trainings.
func TestTorchStateDict(t *testing.T) {
	want := openTorch(t, "want.safetensors")
	for _, others := range []string{"", "X\x05\x00\x00\x00epochK\x03s", "X\x09\x00\x00\x00optimizer}s"} {
		c, err := OpenBytes("x.bin", nested(t, "zip.bin", others))
		if err != nil {
			t.Fatalf("%q: %v", others, err)
		}
		if len(c.Tensors()) != len(want.Tensors()) {
			t.Errorf("%q: %d tensors; want %d", others, len(c.Tensors()), len(want.Tensors()))
		}
		for _, info := range want.Tensors() {
			w, _ := want.Tensor(info.Name)
			if got, ok := c.Tensor(info.Name); !ok || !bytes.Equal(got.Data, w.Data) {
				t.Errorf("%q: tensor %q is %x; want %x", others, info.Name, got.Data, w.Data)
			}
		}
	}
	const tensor = "X\x01\x00\x00\x00x" + "ctorch._utils\n_rebuild_tensor_v2\n(" +
		"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x30tQ" + "K\x00K\x01\x85K\x01\x85tRs"
	for others, want := range map[string]string{
		"X\x0a\x00\x00\x00state_dict}s": `"state_dict" occurs twice`,
		tensor:                          `the string "x" is a tensor beside "state_dict"`,
	} {
		if _, err := OpenBytes("x.bin", nested(t, "zip.bin", others)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want one with %q", others, err, want)
		}
	}
}

// TestTorchRefused opens pickles that ask for more than tensors.
func TestTorchRefused(t *testing.T) {
	for name, want := range map[string]string{
		"evil_zip.bin":    `it asks for "posix.system"`,
		"evil_legacy.bin": `it asks for "posix.system"`,
		"evil_object.bin": `it asks for "__main__.Loud"`,
		"epoch.bin":       `"epoch" is 3, not a tensor`,
	} {
		c, err := Open(filepath.Join("testdata", "torch", name))
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v; want one with %q", name, err, want)
		}
	}
}

func TestPickleRefused(t *testing.T) {
	for program, want := range map[string]string{
		"cos\nsystem\n.":                         `"os.system"`,
		"\x80\x04\x8c\x02nt\x8c\x06system\x93.":  `"nt.system"`,
		"cbuiltins\neval\n":                      `"builtins.eval"`,
		"ctorch._utils\n_rebuild_tensor_v2\n)R.": "called with 0 arguments",
		"ctorch\nFloatStorage\n)R.":              "torch.FloatStorage is called with",
		"}q\x00h\x01.":                           "nothing was remembered as 1",
		"K\x01K\x02b.":                           "1 is given attributes",
		"(K\x01i__main__\nLoud\n.":               "operation 'i'",
		"ccollections\nOrderedDict\nccopy\nx\n.": `"copy.x"`,
		"ccollections\nOrderedDict\n)\x81.":      `operation '\u0081'`,
		"K\x01Q.":                                "is no name of a storage",
		"(X\x02\x00\x00\x00abK\x01e.":            "values are wanted",
		"X\xff\xff\xff\xffab":                    "bytes are wanted",
		"\x80\x09":                               "protocol 9",
		"}K\x01s.":                               "values are wanted",
		"]K\x01K\x02s.":                          "cannot be put into a list",
		"":                                       "1 bytes are wanted",
		"u":                                      "no mark",
		"(.":                                     "values are wanted",
		"c":                                      "does not end",
		"\x8a\x01\x05\x8c\x01a\x93.":             "are no name of a global",
		"((((ctorch\nFloatStorage\nX\x00\x00\x00\x00tQ.": "is no name of a storage",
	} {
		u := unpickler{data: []byte(program), persistent: func(id any) (any, error) { return storageOf(id, map[string]*storage{}) }}
		if v, err := u.run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, error %v; want one with %q", program, v, err, want)
		}
	}
}

// TestTorchDamaged cuts a file short and changes each of its bytes: it opens with valid tensors, or it is refused.
func TestTorchDamaged(t *testing.T) {
	for _, name := range []string{"zip.bin", "legacy.bin"} {
		data, err := os.ReadFile(filepath.Join("testdata", "torch", name))
		if err != nil {
			t.Fatal(err)
		}
		for n := range data {
			openDamaged(t, data[:n])
			for _, flip := range []byte{1, 0x80, 0xff} {
				damaged := slices.Clone(data)
				damaged[n] ^= flip
				openDamaged(t, damaged)
			}
		}
	}
}

func openDamaged(t *testing.T, data []byte) {
	c, err := OpenBytes("x.bin", data)
	if err != nil {
		return
	}
	for _, info := range c.Tensors() {
		x, ok := c.Tensor(info.Name)
		if want, err := x.Type.RowBytes(x.Values()); err != nil || !ok || len(x.Data) != want || int64(want) != info.Size {
			t.Fatalf("tensor %q: %v %v has %d bytes, RowBytes says %d, %v", info.Name, x.Type, x.Shape, len(x.Data), want, err)
		}
	}
}

func FuzzTorch(f *testing.F) {
	files, err := filepath.Glob("testdata/torch/*.bin")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(nested(f, "zip.bin", ""))
	f.Fuzz(func(t *testing.T, data []byte) { openDamaged(t, data) })
}

func FuzzPickle(f *testing.F) {
	f.Add([]byte("}q\x00(X\x01\x00\x00\x00aK\x01u."))
	f.Fuzz(func(t *testing.T, data []byte) {
		u := unpickler{data: data, persistent: func(id any) (any, error) { return storageOf(id, map[string]*storage{}) }}
		if _, err := u.run(); err == nil && u.pos > len(data) {
			t.Fatalf("read %d bytes of %d", u.pos, len(data))
		}
	})
}
