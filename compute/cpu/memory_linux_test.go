package cpu

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestGroupMemory(t *testing.T) {
	const none = math.MaxInt64
	for name, c := range map[string]struct {
		files       map[string]string
		list        string
		left, limit int64
	}{
		"none":              {nil, "0::/\n", none, none},
		"version 2":         {map[string]string{"a/memory.max": "1000", "a/memory.current": "400", "a/memory.stat": "file 9\ninactive_file 100\n"}, "0::/a\n", 700, 1000},
		"no limit":          {map[string]string{"a/memory.max": "max", "a/memory.current": "400"}, "0::/a\n", none, none},
		"nested":            {map[string]string{"a/b/memory.max": "max", "a/memory.max": "500", "a/memory.current": "450", "memory.max": "900"}, "0::/a/b\n", 50, 500},
		"full":              {map[string]string{"memory.max": "10", "memory.current": "20"}, "0::/\n", 0, 10},
		"version 1":         {map[string]string{"memory/a/memory.limit_in_bytes": "1000", "memory/a/memory.usage_in_bytes": "1", "memory/a/memory.stat": "total_inactive_file 1"}, "4:memory:/a\n0::/\n", 1000, 1000},
		"of the host":       {map[string]string{"memory/memory.limit_in_bytes": "600"}, "9:cpu:/x\n4:hugetlb,memory:/docker/1234\n", 600, 600},
		"version 1 is open": {map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712"}, "4:memory:/\n", 9223372036854771712, 9223372036854771712},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			file = filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if left, limit := groupMemory(root, []byte(c.list)); left != c.left || limit != c.limit {
			t.Errorf("%s: %d left of %d; want %d of %d", name, left, limit, c.left, c.limit)
		}
	}
}
