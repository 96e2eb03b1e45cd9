package cpu

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// machine writes the files by which Linux describes processors: of each the list of its core's processors, and its
// node.
func machine(t *testing.T, cores []string, nodes []int) string {
	root := t.TempDir()
	for id, siblings := range cores {
		dir := fmt.Sprintf("%s/devices/system/cpu/cpu%d", root, id)
		for _, d := range []string{"/topology", fmt.Sprint("/node", nodes[id])} {
			if err := os.MkdirAll(dir+d, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		write(t, dir+"/topology/thread_siblings_list", siblings+"\n")
	}
	return root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestProcessors(t *testing.T) {
	// Two nodes of two cores of two processors each, numbered as servers often do.
	server := machine(t, []string{"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"}, []int{0, 1, 0, 1, 0, 1, 0, 1})
	laptop := machine(t, []string{"0-1", "0-1", "2", "3"}, []int{0, 0, 0, 0})
	for _, test := range []struct {
		name      string
		sys       string
		allowed   []int
		order     string // +id of processors that are second ones of their core
		cores     int
		threads   int
		placement placement
	}{
		{"all of a server", server, []int{0, 1, 2, 3, 4, 5, 6, 7}, "[0 2 1 3 +4 +6 +5 +7]", 4, 4, placement{[]int{0, 2, 1, 3, 4, 6, 5, 7}, []int{0, 1}}},
		{"what one node has room for", server, []int{0, 1, 2, 3, 4, 5, 6, 7}, "[0 2 1 3 +4 +6 +5 +7]", 4, 2, placement{[]int{0, 2, 4, 6}, []int{0}}},
		{"one node is allowed", server, []int{1, 3, 5, 7}, "[1 3 +5 +7]", 2, 2, placement{}},
		{"second ones alone", server, []int{4, 6}, "[4 6]", 2, 2, placement{}},
		{"cores of two kinds", laptop, []int{0, 1, 2, 3}, "[0 2 3 +1]", 3, 3, placement{}},
		{"a system that tells nothing", t.TempDir(), []int{0, 1}, "[0 1]", 2, 2, placement{}},
		{"more threads than processors", laptop, []int{2}, "[2]", 1, 8, placement{}},
	} {
		all := processors(test.sys, test.allowed)
		var order []string
		for _, p := range all {
			name := fmt.Sprint(p.id)
			if p.second {
				name = "+" + name
			}
			order = append(order, name)
		}
		if got := fmt.Sprint(order); got != test.order || firsts(all) != test.cores {
			t.Errorf("%s: processors %s of %d cores; want %s of %d", test.name, got, firsts(all), test.order, test.cores)
		}
		if got := placementOf(all, test.threads); !reflect.DeepEqual(got, test.placement) {
			t.Errorf("%s: %d threads are placed at %v; want %v", test.name, test.threads, got, test.placement)
		}
	}
}

func TestQuota(t *testing.T) {
	for text, want := range map[string]int{"max 100000\n": 0, "250000 100000\n": 2, "50000 100000\n": 1, "": 0, "0 0": 0, "x y z": 0} {
		root := t.TempDir()
		write(t, root+"/cpu.max", text)
		if got := quota(root, []byte("0::/\n")); got != want {
			t.Errorf("cpu.max %q: %d processors, want %d", text, got, want)
		}
	}
	root := t.TempDir()
	const first = "4:cpu,cpuacct:/a\n0::/b\n"
	write(t, root+"/cpu/cpu.cfs_quota_us", "300000\n")
	write(t, root+"/cpu/cpu.cfs_period_us", "100000\n")
	if got := quota(root, []byte(first)); got != 3 {
		t.Errorf("version 1: %d processors, want 3", got)
	}
	write(t, root+"/cpu/a/cpu.cfs_quota_us", "-1\n")
	write(t, root+"/cpu/a/cpu.cfs_period_us", "100000\n")
	if got := quota(root, []byte(first)); got != 3 {
		t.Errorf("version 1, a group without a limit in one with: %d processors, want 3", got)
	}
	write(t, root+"/cpu/cpu.cfs_quota_us", "-1\n")
	if got := quota(root, []byte(first)); got != 0 {
		t.Errorf("version 1 without a limit: %d processors, want 0", got)
	}
	if got := quota(t.TempDir(), []byte("0::/\n")); got != 0 {
		t.Errorf("no control group: %d processors, want 0", got)
	}
	write(t, root+"/a.slice/b.service/cpu.max", "150000 100000\n") // as systemd's CPUQuota=150%
	write(t, root+"/a.slice/cpu.max", "max 100000\n")
	write(t, root+"/cpu.max", "400000 100000\n")
	if got := quota(root, []byte("0::/a.slice/b.service\n")); got != 1 {
		t.Errorf("a nested group: %d processors, want 1", got)
	}
	if got := quota(root, []byte("0::/docker/1234\n")); got != 4 {
		t.Errorf("the path of another mount: %d processors, want 4", got)
	}
}

func TestList(t *testing.T) {
	for text, want := range map[string][]int{"0-2,8\n": {0, 1, 2, 8}, "5": {5}, "": nil, "a-3,4": {4}, "1-b": nil} {
		path := t.TempDir() + "/list"
		write(t, path, text)
		if got := list(path); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestDefaultThreads(t *testing.T) {
	if n := defaultThreads(); n < 1 {
		t.Errorf("%d threads", n)
	}
}
