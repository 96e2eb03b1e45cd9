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

// groupMemory returns how many bytes the control groups of a process leave it, and the least of their limits. root and
// list are as for groupDirs.
func groupMemory(root string, list []byte) (left, limit int64) {
	left, limit = math.MaxInt64, math.MaxInt64
	note := func(dirs []string, most, usage, idle string) {
		for _, dir := range dirs {
			if most := groupNumber(path.Join(dir, most)); most > 0 {
				used := groupNumber(path.Join(dir, usage)) - groupStat(path.Join(dir, "memory.stat"), idle)
				left, limit = min(left, max(most-max(used, 0), 0)), min(limit, most)
			}
		}
	}
	first, second := groupDirs(root, list, "memory")
	note(first, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
	note(second, "memory.max", "memory.current", "inactive_file")
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
