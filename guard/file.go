package guard

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// ReadFile returns the bytes of a file, of which there may be at most most, and which a pipe has to bring in time. A
// pipe that nobody writes to is empty.
func ReadFile(path string, most int, within time.Duration) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // else it would wait for somebody who writes
	if err != nil {
		return nil, err
	}
	defer f.Close()
	f.SetReadDeadline(time.Now().Add(within)) // not of a file on a disk, which has none
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, err
}
