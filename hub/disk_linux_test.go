package hub

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

// Errors of the disk name the path and end the pull at once: another try would meet the same disk.
func TestDiskErrors(t *testing.T) {
	sum := etagOf("model.safetensors", small["model.safetensors"])
	for what, tc := range map[string]struct {
		spoil func(repo string) error
		path  string
		is    error
	}{
		"full": {func(repo string) error {
			return os.Symlink("/dev/full", filepath.Join(repo, "blobs", sum+".incomplete"))
		}, "blobs/" + sum + ".incomplete", syscall.ENOSPC},
		"part is a folder": {func(repo string) error {
			return os.Mkdir(filepath.Join(repo, "blobs", sum+".incomplete"), 0o777)
		}, "blobs/" + sum + ".incomplete", syscall.EISDIR},
		"link is a folder": {func(repo string) error {
			return os.MkdirAll(filepath.Join(repo, "snapshots", testCommit, "model.safetensors", "x"), 0o777)
		}, testCommit + "/model.safetensors", syscall.ENOTEMPTY},
		"snapshots is a file": {func(repo string) error {
			return os.WriteFile(filepath.Join(repo, "snapshots"), nil, 0o666)
		}, "models--o--m/snapshots", syscall.ENOTDIR},
		"refs is a file": {func(repo string) error {
			return os.WriteFile(filepath.Join(repo, "refs"), nil, 0o666)
		}, "models--o--m/refs", syscall.ENOTDIR},
		"locks is a file": {func(repo string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(repo), ".locks"), nil, 0o666)
		}, ".locks", syscall.ENOTDIR},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, c := newHub(t, small)
				repo := c.folder("o/m")
				if err := errors.Join(os.MkdirAll(filepath.Join(repo, "blobs"), 0o777), tc.spoil(repo)); err != nil {
					t.Fatal(err)
				}
				_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
				if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.path) || len(h.ranges()) > 1 {
					t.Errorf("%v after %d downloads", err, len(h.ranges()))
				}
			})
		})
	}
}

// A cache without write permission is named in the error; its contents are still found.
func TestReadOnlyCache(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser may write everywhere: run as another user")
	}
	synctest.Test(t, func(t *testing.T) {
		_, c := newHub(t, small)
		if err := os.Chmod(c.CacheDir, 0o555); err != nil {
			t.Fatal(err)
		}
		_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
		if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), c.CacheDir) {
			t.Errorf("Pull: %v", err)
		}
	})
}
