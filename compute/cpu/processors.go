package cpu

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// processor is one that the process may use. Hyper-threads are processors that share a core.
type processor struct {
	id     int
	second bool // of a core whose first processor the process may use too
	node   int  // of memory
}

// defaultThreads returns the number of threads of a Device whose Options name none: one for each core that the
// process may use, by its affinity, its control group and GOMAXPROCS, as they are at the first call. A second thread
// on a core would share its registers and caches.
var defaultThreads = sync.OnceValue(func() int {
	n := runtime.GOMAXPROCS(0)
	if all := processors("/sys", allowed()); len(all) > 0 {
		n = min(n, firsts(all))
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	if quota := quota("/sys/fs/cgroup", groups); quota > 0 {
		n = min(n, quota)
	}
	return n
})

// firsts returns how many cores some processors have.
func firsts(all []processor) (n int) {
	for _, p := range all {
		if !p.second {
			n++
		}
	}
	return n
}

// processors describes the allowed ones, in the order in which threads should take them: one of each core before
// second ones, and of those the first node's before the next one's. What sys does not tell is as on a machine
// without.
func processors(sys string, allowed []int) []processor {
	var all []processor
	for _, id := range allowed {
		dir := fmt.Sprintf("%s/devices/system/cpu/cpu%d/", sys, id)
		p := processor{id: id}
		for _, other := range list(dir + "topology/thread_siblings_list") {
			p.second = p.second || other < id && slices.Contains(allowed, other)
		}
		if nodes, _ := filepath.Glob(dir + "node[0-9]*"); len(nodes) > 0 {
			p.node, _ = strconv.Atoi(strings.TrimPrefix(filepath.Base(nodes[0]), "node"))
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b processor) int {
		if a.second != b.second {
			if b.second {
				return -1
			}
			return 1
		}
		return a.node - b.node
	})
	return all
}

// list reads a file of numbers and ranges such as "0-3,8".
func list(path string) (out []int) {
	data, _ := os.ReadFile(path)
	for part := range strings.SplitSeq(strings.TrimSpace(string(data)), ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(last)
		}
		for i := from; err == nil && i <= to; i++ {
			out = append(out, i)
		}
	}
	return out
}

// groupDirs returns the folders of the control groups of a process that have a controller, of versions 1 and 2. root is
// where they are mounted, and list what /proc/self/cgroup says: lines "number:controllers:path", with 0 and no
// controllers for version 2. All groups on the way to the root count. In a container the path may be that of the host,
// which is not mounted, and the root the container's own group.
func groupDirs(root string, list []byte, controller string) (first, second []string) {
	for line := range bytes.Lines(list) {
		part := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(part) < 3 {
			continue
		}
		base, dirs := path.Join(root, controller), &first
		if part[0] == "0" && part[1] == "" {
			base, dirs = root, &second
		} else if !slices.Contains(strings.Split(part[1], ","), controller) {
			continue
		}
		for dir := path.Clean("/" + part[2]); ; dir = path.Dir(dir) {
			if *dirs = append(*dirs, path.Join(base, dir)); dir == "/" {
				break
			}
		}
	}
	return first, second
}

// quota returns how many processors the control groups of a process let it keep busy all the time, at least 1, or 0 if
// there is no limit. root and list are as for groupDirs.
func quota(root string, list []byte) (least int) {
	note := func(limit, period int) {
		if limit > 0 && period > 0 && (least == 0 || limit/period < least) {
			least = max(1, limit/period)
		}
	}
	first, second := groupDirs(root, list, "cpu")
	for _, dir := range second {
		note(word(dir+"/cpu.max", 0), word(dir+"/cpu.max", 1))
	}
	for _, dir := range first {
		note(word(dir+"/cpu.cfs_quota_us", 0), word(dir+"/cpu.cfs_period_us", 0))
	}
	return least
}

// word returns a number in a file, 0 if it is not one.
func word(path string, i int) int {
	data, _ := os.ReadFile(path)
	if words := strings.Fields(string(data)); i < len(words) {
		n, _ := strconv.Atoi(words[i])
		return n
	}
	return 0
}

// placement is where a device's threads run and its weights lie on a machine with several nodes of memory; it is
// empty on others.
type placement struct {
	cpus  []int // of the nodes
	nodes []int
}

// placementOf returns that of the first threads of some processors: they stay on as few nodes as have room for them.
func placementOf(all []processor, threads int) (p placement) {
	for _, c := range all[:min(threads, len(all))] {
		if !slices.Contains(p.nodes, c.node) {
			p.nodes = append(p.nodes, c.node)
		}
	}
	several := false
	for _, c := range all {
		several = several || c.node != all[0].node
		if slices.Contains(p.nodes, c.node) {
			p.cpus = append(p.cpus, c.id)
		}
	}
	if !several {
		return placement{}
	}
	return p
}
