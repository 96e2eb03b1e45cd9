package text

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// freeMemory returns the bytes that the process could still take: what the system has available, bounded by what the
// control group allows.
func freeMemory() int64 {
	free := int64(1 << 30)
	if f, err := os.Open("/proc/meminfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			words := strings.Fields(s.Text())
			if len(words) >= 2 && words[0] == "MemAvailable:" {
				if kb, err := strconv.ParseInt(words[1], 10, 64); err == nil {
					free = kb << 10
				}
			}
		}
	}
	limit, used := cgroupNumber("memory.max"), cgroupNumber("memory.current")
	if limit > 0 {
		free = min(free, max(limit-used, 0))
	}
	return free
}

// cgroupNumber reads a file of the process's control group (version 2), 0 if there is none or it is "max".
func cgroupNumber(name string) int64 {
	data, err := os.ReadFile("/sys/fs/cgroup/" + name)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n
}
