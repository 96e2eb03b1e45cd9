package text

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/quant"
)

// What a model stored on a disk, the next process finds; a file of another model, type or shape is set aside.
func TestDiskTier(t *testing.T) {
	dir := t.TempDir()
	ask := func(o Options) (string, kv.TierStats) {
		ckpt, err := builtin.Open()
		if err != nil {
			t.Fatal(err)
		}
		o.Name, o.Compute.Threads, o.HostKVBytes, o.DiskKV, o.DiskKVBytes = builtin.Name, 1, 1<<20, dir, 16<<20
		m, err := Open(ckpt, o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		r := request()
		r.Prompt, r.MaxTokens = strings.Repeat("Once upon a time there was a king. ", 20), 8
		text, _, _ := answer(t, m, r)
		return text, m.Engine.Stats().Sched.KV.Tiers[2]
	}
	first, _ := ask(Options{})
	again, st := ask(Options{})
	if again != first || st.Loaded == 0 || st.Lost > 0 {
		t.Errorf("answers %q, then %q; %+v", first, again, st)
	}
	if _, st := ask(Options{KVType: quant.F16}); st.Slots == 0 || st.Used != 0 {
		t.Errorf("another type of keys and values: %+v", st)
	}
	var kept []string
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		kept = append(kept, filepath.Base(path))
		return nil
	})
	if !slices.Contains(kept, "blocks.kvtier.aside") || !slices.Contains(kept, "blocks.kvtier") {
		t.Errorf("there are %v", kept)
	}
}

func TestTiersAreRefused(t *testing.T) {
	for want, o := range map[string]Options{
		"disk-kv-bytes":     {DiskKV: "x"},
		"host-kv-bytes":     {HostKVBytes: -1},
		"no-prefix-cache":   {HostKVBytes: 1 << 20, NoPrefix: true},
		"kv-take-bytes 0":   {HostKVBytes: -1},
		"kv-take-bytes -1":  {TakeKVBytes: -1},
		"kv-take-bytes are": {TakeKVBytes: 1 << 20, NoPrefix: true},
		"1 bytes of memory": {TakeKVBytes: 1},
		"preempt":           {Preempt: "never"},
		"host-kv-bytes or":  {Preempt: "swap"},
		"file of 5000":      {DiskKV: t.TempDir(), DiskKVBytes: 5000},
	} {
		ckpt, err := builtin.Open()
		if err != nil {
			t.Fatal(err)
		}
		o.Name = builtin.Name
		if _, err := Open(ckpt, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
