//go:build linux || darwin

package store

import "golang.org/x/sys/unix"

// space returns how many bytes are free where a folder is.
func space(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
