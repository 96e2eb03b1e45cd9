package weights

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// folder writes files into a new folder. A name that ends in "/" is a folder.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenFolder(t *testing.T) {
	st := string(safetensorsFile(t, nil, source(t, "x", quant.F32, 1)))
	gguf := string(ggufFile(t, nil, source(t, "x", quant.F32, 1)))
	index := `{"weight_map":{"x":"a.safetensors"}}`
	data, err := os.ReadFile(filepath.Join("testdata", "torch", "zip.bin"))
	if err != nil {
		t.Fatal(err)
	}
	torch := string(data)
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string // the file opened, or the error
	}{
		{"index first", map[string]string{"model.safetensors.index.json": index, "a.safetensors": st, "model.safetensors": st, "b.gguf": gguf},
			"a.safetensors"},
		{"model.safetensors", map[string]string{"model.safetensors": st, "a.safetensors": st, "b.gguf": gguf},
			"model.safetensors"},
		{"one safetensors", map[string]string{"a.safetensors": st, "b.gguf": gguf, "config.json": "{}"}, "a.safetensors"},
		{"one gguf", map[string]string{"b.gguf": gguf, "README.md": "", "x.gguf/": ""}, "b.gguf"},
		{"two safetensors", map[string]string{"a.safetensors": st, "b.safetensors": st},
			"several checkpoints, name one of them: a.safetensors, b.safetensors"},
		{"two ggufs", map[string]string{"a.gguf": gguf, "b.gguf": gguf},
			"several checkpoints, name one of them: a.gguf, b.gguf"},
		{"PyTorch after safetensors", map[string]string{"pytorch_model.bin": "x", "a.safetensors": st}, "a.safetensors"},
		{"PyTorch before gguf", map[string]string{"pytorch_model.bin": torch, "training_args.bin": "x", "b.gguf": gguf}, "pytorch_model.bin"},
		{"none", map[string]string{"training_args.bin": "x"}, "holds no *.safetensors.index.json, *.safetensors, pytorch_model.bin or *.gguf"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := folder(t, tc.files)
			c, err := Open(dir)
			if err != nil {
				if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %q, want one with %q", err, tc.want)
				}
				return
			}
			defer c.Close()
			if want := []string{filepath.Join(dir, tc.want)}; !slices.Equal(c.Files(), want) || c.Dir() != dir {
				t.Errorf("opened %v in %s, want %v", c.Files(), c.Dir(), want)
			}
		})
	}
}

func TestOpenNoFile(t *testing.T) {
	dir := folder(t, map[string]string{"empty.gguf": "", "blob": "GGU"})
	for name, want := range map[string]string{
		"absent.gguf": "no such file", "empty.gguf": "the file is empty", "blob": "neither GGUF", "/dev/null": "not a regular file",
	} {
		path := name
		if !filepath.IsAbs(name) {
			path = filepath.Join(dir, name)
		}
		_, err := Open(path)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
		if errors.Is(err, fs.ErrNotExist) != (name == "absent.gguf") {
			t.Errorf("%s: errors.Is(%v, fs.ErrNotExist) is wrong", name, err)
		}
	}
	if os.Getuid() != 0 { // root may read everything
		path := filepath.Join(dir, "blob")
		os.Chmod(path, 0)
		if _, err := Open(path); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("error %v, want fs.ErrPermission", err)
		}
	}
}

func TestShards(t *testing.T) {
	a, b := source(t, "a", quant.F32, 2), source(t, "b", quant.BF16, 3, 2)
	files := map[string]string{
		"model-00001-of-00002.safetensors": string(safetensorsFile(t, map[string]string{"format": "pt"}, a)),
		"model-00002-of-00002.safetensors": string(safetensorsFile(t, map[string]string{"format": "tf", "more": "x"}, b)),
		"again.safetensors":                string(safetensorsFile(t, nil, a)),
		"config.json":                      `{"model_type":"llama"}`,
	}
	const s1, s2 = `"model-00001-of-00002.safetensors"`, `"model-00002-of-00002.safetensors"`
	for _, tc := range []struct{ name, index, want string }{
		{"whole", `{"metadata":{"total_size":20},"weight_map":{"b":` + s2 + `,"a":` + s1 + `}}`, ""},
		{"missing shard", `{"weight_map":{"a":` + s1 + `,"c":"model-3.safetensors"}}`,
			`shard "model-3.safetensors", named for tensor "c", is missing`},
		{"wrong shard", `{"weight_map":{"a":` + s2 + `,"b":` + s1 + `}}`,
			`tensor "a" is not in the shard "model-00002-of-00002.safetensors"`},
		{"missing tensor", `{"weight_map":{"a":` + s1 + `,"c":` + s1 + `}}`, `tensor "c" is not in the shard`},
		{"in two shards", `{"weight_map":{"a":` + s1 + `,"c":"again.safetensors"}}`, `tensor "a" is also in`},
		{"outside", `{"weight_map":{"a":"../x.safetensors"}}`,
			`tensor "a": shard "../x.safetensors" is not a *.safetensors file inside`},
		{"outside, hidden", `{"weight_map":{"a":"a/../../x.safetensors"}}`, `is not a *.safetensors file inside`},
		{"absolute", `{"weight_map":{"a":"/x.safetensors"}}`, `is not a *.safetensors file inside`},
		{"other file", `{"weight_map":{"a":"config.json"}}`, `is not a *.safetensors file inside`},
		{"twice", `{"weight_map":{"a":` + s1 + `,"a":` + s1 + `}}`, `weight_map: tensor "a" occurs twice`},
		{"not a name", `{"weight_map":{"a":1}}`, `weight_map: tensor "a": at byte 5: expected '"'`},
		{"empty", `{"weight_map":{}}`, "weight_map names no tensors"},
		{"no map", `{"metadata":{}}`, "it has no weight_map"},
		{"no JSON", `{"weight_map":`, "not an index of shards: unexpected end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files["model.safetensors.index.json"] = tc.index
			dir := folder(t, files)
			c, err := Open(dir)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir) {
					t.Errorf("error %v, want one with %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			sameTensors(t, c, []Source{a, b})
			if got := fmt.Sprint(c.Metadata()); got != "map[format:pt more:x]" {
				t.Errorf("metadata %s", got)
			}
			config, err := c.Config("config.json")
			if err != nil || string(config) != files["config.json"] {
				t.Errorf("config.json is %q, %v", config, err)
			}
			if _, err := c.Config("tokenizer.json"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("absent: %v", err)
			}
			if _, err := c.Config("../config.json"); err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("outside the folder: %v", err)
			}
		})
	}
}

func TestSplits(t *testing.T) {
	src := []Source{source(t, "a", quant.F32, 2), source(t, "b", quant.Q8_0, 1, 32), source(t, "c", quant.F16, 4)}
	split := func(no, count uint16, total int32, tensor Source) string {
		return string(ggufFile(t, []KV{
			{"split.no", no}, {"split.count", count}, {"split.tensors.count", total}, {"who", fmt.Sprint("split ", no)},
		}, tensor))
	}
	whole := map[string]string{
		"m-00001-of-00003.gguf": split(0, 3, 3, src[0]),
		"m-00002-of-00003.gguf": split(1, 3, 3, src[1]),
		"m-00003-of-00003.gguf": split(2, 3, 3, src[2]),
	}
	dir := folder(t, whole)
	for _, path := range []string{dir, filepath.Join(dir, "m-00001-of-00003.gguf"), filepath.Join(dir, "m-00003-of-00003.gguf")} {
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		sameTensors(t, c, src)
		if len(c.Files()) != 3 || c.Metadata()["who"] != "split 0" {
			t.Errorf("%d files, metadata of %v", len(c.Files()), c.Metadata()["who"])
		}
		if _, err := c.Config("config.json"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("config.json beside GGUF: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, ok := c.Tensor("a"); ok {
			t.Error("a closed checkpoint gave a tensor")
		}
	}
	for _, tc := range []struct{ name, file, text, want string }{
		{"missing", "m-00002-of-00003.gguf", "", "the file is empty"},
		{"wrong number", "m-00002-of-00003.gguf", split(2, 3, 3, src[1]), "split.no is 2, expected 1"},
		{"wrong count", "m-00003-of-00003.gguf", split(2, 4, 3, src[2]), "one of 4 splits, but its name says 3"},
		{"tensor twice", "m-00003-of-00003.gguf", split(2, 3, 3, src[1]), `tensor "b" is also in`},
		{"wrong total", "m-00001-of-00003.gguf", split(0, 3, 7, src[0]),
			"split.tensors.count is 7, but the 3 splits hold 3 tensors"},
		{"no split", "m-00001-of-00003.gguf", string(ggufFile(t, nil, src[0])), "one of 1 splits, but its name says 3"},
	} {
		files := map[string]string{}
		for k, v := range whole {
			files[k] = v
		}
		files[tc.file] = tc.text
		_, err := Open(folder(t, files))
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), ".gguf") {
			t.Errorf("%s: error %v, want one with %q", tc.name, err, tc.want)
		}
	}
}

// TestMappedFile reads through the mapping and survives closing twice.
func TestMappedFile(t *testing.T) {
	src := source(t, "x", quant.F32, 100)
	dir := folder(t, map[string]string{"blob": string(ggufFile(t, allKinds, src))})
	c, err := Open(filepath.Join(dir, "blob"))
	if err != nil {
		t.Fatal(err)
	}
	sameTensors(t, c, []Source{src})
	x, _ := c.Tensor("x")
	copied := bytes.Clone(x.Data)
	meta := c.Metadata()
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(copied) != 400 || fmt.Sprint(meta["a.str"]) != "[ é token]" {
		t.Errorf("%d bytes, metadata %v after closing", len(copied), meta["a.str"])
	}
}

// TestMemory opens tensors that share bytes, of a type that no GGUF has.
func TestMemory(t *testing.T) {
	data := []byte{1, 2, 3, 4}
	tensors := []Tensor{
		{Info: Info{Name: "a", Type: quant.F8_E4M3, Shape: []int{2, 2}}, Data: data},
		{Info: Info{Name: "b", Type: quant.F8_E4M3, Shape: []int{3}}, Data: data[1:]},
	}
	c, err := Memory("x.gguf", GGUF, tensors, map[string]any{"key": "value"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Reopen()
	if err != nil {
		t.Fatal(err)
	}
	b, ok := again.Tensor("b")
	if !ok || string(b.Data) != "\x02\x03\x04" || again.Size() != 7 || again.Format() != GGUF || again.Metadata()["key"] != "value" {
		t.Errorf("%+v, %d bytes, %v", b, again.Size(), again.Metadata())
	}
	if c.Keep(b.Data) != nil {
		t.Error("bytes that are in no file are kept mapped")
	}
	if _, err := Memory("x.gguf", GGUF, append(tensors, tensors[0]), nil); err == nil {
		t.Error("two tensors of one name were taken")
	}
}
