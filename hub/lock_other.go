//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package hub

import (
	"errors"
	"io/fs"
	"os"
)

// tryLock makes a file that must not exist yet and deletes it on release. A crash leaves it behind: whoever waits
// is told its path.
func tryLock(path string) (unlock func(), ok bool, err error) {
	path += ".held"
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o664)
	if errors.Is(err, fs.ErrExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return func() { f.Close(); os.Remove(path) }, true, nil
}
