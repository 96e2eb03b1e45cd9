//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package hub

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes the advisory lock on a file if it is free, and makes the file. The Python client locks the same
// file in the same way. It may delete the file on release, so the lock counts only if the path still names the file.
func tryLock(path string) (unlock func(), ok bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o664)
	if err != nil {
		return nil, false, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return nil, false, nil
		}
		return nil, false, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	held, err1 := f.Stat()
	named, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(held, named) {
		f.Close()
		return nil, false, nil
	}
	return func() { f.Close() }, true, nil
}
