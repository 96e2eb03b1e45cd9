package cpu

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// memory returns the bytes that the process could still take and those of the machine: what the system has, bounded
// by what its control groups allow.
func memory() (free, total int64, err error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		words := strings.Fields(s.Text())
		if len(words) < 2 {
			continue
		}
		kb, _ := strconv.ParseInt(words[1], 10, 64)
		switch words[0] {
		case "MemAvailable:":
			free = kb << 10
		case "MemTotal:":
			total = kb << 10
		}
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	left, limit := groupMemory("/sys/fs/cgroup", groups)
	return min(free, left), min(total, limit), nil
}

// groupMemory returns how many bytes the control groups of a process leave it, and the least of their limits. root is
// where they are mounted, and list what /proc/self/cgroup says: lines "number:controllers:path", with 0 and no
// controllers for version 2. All groups on the way to the root count. In a container the path may be that of the host,
// which is not mounted, and the root the container's own group.
func groupMemory(root string, list []byte) (left, limit int64) {
	left, limit = math.MaxInt64, math.MaxInt64
	for line := range bytes.Lines(list) {
		part := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(part) < 3 {
			continue
		}
		base, most, usage, idle := root, "memory.max", "memory.current", "inactive_file"
		switch {
		case part[1] == "memory" || strings.HasPrefix(part[1], "memory,") || strings.HasSuffix(part[1], ",memory"):
			base, most, usage, idle = path.Join(root, "memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
		case part[0] != "0":
			continue
		}
		for dir := path.Clean("/" + part[2]); ; dir = path.Dir(dir) {
			if most := groupNumber(path.Join(base, dir, most)); most > 0 {
				used := groupNumber(path.Join(base, dir, usage)) - groupStat(path.Join(base, dir, "memory.stat"), idle)
				left, limit = min(left, max(most-max(used, 0), 0)), min(limit, most)
			}
			if dir == "/" {
				break
			}
		}
	}
	return left, limit
}

// groupNumber reads a file of a control group, 0 if there is none or it is "max".
func groupNumber(name string) int64 {
	data, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n
}

// groupStat returns a number of memory.stat: that of pages which the system takes back first does not count as used.
func groupStat(name, key string) int64 {
	data, _ := os.ReadFile(name)
	for line := range bytes.Lines(data) {
		if words := strings.Fields(string(line)); len(words) == 2 && words[0] == key {
			n, _ := strconv.ParseInt(words[1], 10, 64)
			return n
		}
	}
	return 0
}
