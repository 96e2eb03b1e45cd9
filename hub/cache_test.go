package hub

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

const otherCommit = "fedcba9876543210fedcba9876543210fedcba98"

// Removing one revision frees what no other revision's snapshot links to.
func TestRemoveKeepsSharedBlobs(t *testing.T) { synctest.Test(t, testRemoveKeepsSharedBlobs) }

func testRemoveKeepsSharedBlobs(t *testing.T) {
	h, c := newHub(t, map[string]string{"config.json": "{}", "model.safetensors": "weights", "tokenizer.json": "old"})
	pull(t, c, "o/m")
	h.commit, h.files = otherCommit, map[string]string{"config.json": "{}", "model.safetensors": "weights", "tokenizer.json": "newer"}
	v2 := pull(t, c, "o/m@v2")
	if len(h.ranges()) != 1 {
		t.Errorf("the shared weights were downloaded %d times", len(h.ranges()))
	}
	models, err := c.List()
	if err != nil || len(models) != 2 || models[0].Name.String() != "o/m" || models[1].Name.String() != "o/m@v2" {
		t.Fatalf("List = %+v, %v", models, err)
	}
	if freed, err := c.Remove(Name{Repo: "o/m"}); err != nil || freed != int64(len("old")) {
		t.Fatalf("Remove = %d, %v", freed, err)
	}
	for name, want := range h.files {
		if data, err := os.ReadFile(filepath.Join(v2, name)); string(data) != want {
			t.Errorf("%s of v2: %q, %v", name, data, err)
		}
	}
	if _, ok, err := c.Lookup(Name{Repo: "o/m"}); ok || err != nil {
		t.Errorf("Lookup of what was removed: %v, %v", ok, err)
	}
	if freed, err := c.Remove(Name{Repo: "o/m", Revision: otherCommit}); err != nil || freed != int64(len("{}weightsnewer")) {
		t.Errorf("Remove by commit = %d, %v", freed, err)
	}
	if _, err := os.Stat(c.folder("o/m")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// A branch that moved on: the ref follows, and both snapshots stay until they are removed.
func TestRefFollows(t *testing.T) { synctest.Test(t, testRefFollows) }

func testRefFollows(t *testing.T) {
	h, c := newHub(t, small)
	pull(t, c, "o/m")
	h.commit = otherCommit
	if got := pull(t, c, "o/m"); got != c.snapshot("o/m", otherCommit) {
		t.Errorf("pulled %s", got)
	}
	if got := pull(t, c, "o/m@"+otherCommit); got != c.snapshot("o/m", otherCommit) {
		t.Errorf("pulled %s by commit", got)
	}
	if refs, err := os.ReadDir(filepath.Join(c.folder("o/m"), "refs")); err != nil || len(refs) != 1 {
		t.Errorf("refs %v, %v", refs, err)
	}
	if err := os.WriteFile(filepath.Join(c.folder("o/m"), "refs", ".ref-1.tmp"), []byte(testCommit), 0o666); err != nil {
		t.Fatal(err) // as a process leaves it that dies while it writes a ref
	}
	models, err := c.List()
	if err != nil || len(models) != 2 || models[0].Name.Revision != "" || models[1].Name.Revision != testCommit {
		t.Errorf("List = %+v, %v", models, err)
	}
}

// What a pull left that never came to a snapshot can be removed too.
func TestRemoveParts(t *testing.T) {
	c := &Client{CacheDir: t.TempDir()}
	leavePart(t, c, "model.safetensors", "weights", "wei")
	if freed, err := c.Remove(Name{Repo: "o/m"}); freed != 3 || err != nil {
		t.Errorf("Remove = %d, %v", freed, err)
	}
	if _, err := c.Remove(Name{Repo: "o/m"}); !errors.Is(err, ErrMissing) {
		t.Errorf("a second time: %v", err)
	}
}

// An index names the shards: each must be in the listing, and none may be outside the model's folder.
func TestShardedSafetensors(t *testing.T) {
	const one, two = "model-00001-of-00002.safetensors", "sub dir/model-00002-of-00002.safetensors"
	for index, want := range map[string]string{
		`{"weight_map":{"a":"` + one + `","b":"` + two + `","c":"` + one + `"}}`: "",
		`{"weight_map":{"a":"` + one + `","b":"model-3.safetensors"}}`:           `names the file "model-3.safetensors", which is not there`,
		`{"weight_map":{"a":"` + one + `","b":"../../../../x.safetensors"}}`:     `"../../../../x.safetensors", which is not there`,
		`{"weight_map":{"a":"/etc/passwd"}}`:                                     `"/etc/passwd", which is not there`,
		`{"weight_map":{"a":"sub dir/../model-00001-of-00002.safetensors"}}`:     "which is not there",
		`{"weight_map":{}}`:      "weight_map names no file",
		`{"weight_map":{"a":1}}`: kinds[0].index,
		`<html>`:                 kinds[0].index,
		`{"metadata":{}}`:        "weight_map names no file",
	} {
		synctest.Test(t, func(t *testing.T) {
			h, c := newHub(t, map[string]string{"config.json": "{}", kinds[0].index: index, one: "1", two: "22", "model-unused.safetensors": "333"})
			if want == "" {
				dir := pull(t, c, "o/m")
				names, err := present(dir)
				if err != nil || len(names) != 4 || len(h.ranges()) != 2 {
					t.Errorf("snapshot holds %q, %v", names, err)
				}
				if err := os.Remove(filepath.Join(dir, filepath.FromSlash(two))); err != nil {
					t.Error(err)
				}
				if _, ok, err := c.Lookup(Name{Repo: "o/m"}); ok || err != nil {
					t.Errorf("a missing shard: Lookup = %v, %v", ok, err)
				}
				pull(t, c, "o/m") // from the blob
				if len(h.ranges()) != 2 {
					t.Error("the shard was downloaded again")
				}
				return
			}
			_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
			if err == nil || !strings.Contains(err.Error(), want) || len(h.ranges()) != 0 {
				t.Errorf("%s: %v after %d downloads", index, err, len(h.ranges()))
			}
		})
	}
}

// Shards of a GGUF file in a folder are one model, whole or not at all.
func TestShardedGGUF(t *testing.T) { synctest.Test(t, testShardedGGUF) }

func testShardedGGUF(t *testing.T) {
	h, c := newHub(t, map[string]string{
		"BF16/m-BF16-00001-of-00003.gguf": "1", "BF16/m-BF16-00002-of-00003.gguf": "2", "BF16/m-BF16-00003-of-00003.gguf": "3",
		"Q8_0/m-00001-of-00002.gguf": "1", "README.md": "",
	})
	path := pull(t, c, "o/m:bf16")
	if names, err := present(filepath.Dir(path)); err != nil || len(names) != 3 || filepath.Base(path) != "m-BF16-00001-of-00003.gguf" {
		t.Errorf("%s beside %q, %v", path, names, err)
	}
	if link, err := os.Readlink(path); err != nil || !strings.HasPrefix(link, filepath.Join("../../../blobs")) {
		t.Errorf("link %q, %v", link, err)
	}
	_, err := c.Pull(context.Background(), Name{Repo: "o/m", Tag: "Q8_0"}, nil)
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "has 2 shards and only 1 are there") || len(h.ranges()) != 3 {
		t.Errorf("a shard that the hub lacks: %v", err)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(path), "m-BF16-00002-of-00003.gguf")); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := c.Lookup(Name{Repo: "o/m", Tag: "BF16"}); ok || err != nil {
		t.Errorf("a shard that the cache lacks: %v, %v", ok, err)
	}
	if models, err := c.List(); len(models) != 0 || err != nil {
		t.Errorf("List = %+v, %v", models, err)
	}
}
