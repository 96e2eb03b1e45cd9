//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package tier

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the advisory lock on a file, which it makes; a crash releases it.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, errInUse
	}
	return func() { f.Close() }, nil
}

// noFollow makes opening a symbolic link an error.
const noFollow = unix.O_NOFOLLOW

// syncDir makes what was renamed in a directory survive a loss of power.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
