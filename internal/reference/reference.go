// Package reference finds the reference data that tests are held against: files made by others, which are never part
// of this repository. It is imported by tests only. Start with Path.
package reference

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Path returns the file or folder elem inside the reference data. The data lies in the folder that the environment
// variable KVASIR_REFERENCE names; without it, the script shared/reference/unpack beside the repository is run once
// and its folder taken. Where there is no data the test is skipped, or fails when CI=true.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	root, why := find()
	if root == "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("reference data is required under CI: %s", why)
		}
		t.Skipf("no reference data: %s", why)
	}
	p := filepath.Join(append([]string{root}, elem...)...)
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("reference data is incomplete: %v", err)
	}
	return p
}

// find returns the data's folder, or "" and the reason why there is none.
var find = sync.OnceValues(func() (root, why string) {
	if dir := os.Getenv("KVASIR_REFERENCE"); dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return "", "KVASIR_REFERENCE: " + err.Error()
		}
		return dir, ""
	}
	repo, err := repoRoot()
	if err != nil {
		return "", err.Error()
	}
	script := filepath.Join(repo, "..", "shared", "reference", "unpack")
	if _, err := os.Stat(script); err != nil {
		return "", "KVASIR_REFERENCE is not set and " + script + " does not exist"
	}
	out, err := exec.Command(script).Output()
	if err != nil {
		return "", script + ": " + err.Error()
	}
	return strings.TrimSpace(string(out)), ""
})

// Repository returns the folder of the repository that the test runs in.
func Repository(t testing.TB) string {
	t.Helper()
	root, err := repoRoot()
	if err != nil {
		t.Fatalf("no go.mod above the working directory: %v", err)
	}
	return root
}

// repoRoot walks up from the working directory to the folder that holds go.mod.
func repoRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", os.ErrNotExist
		}
		dir = parent
	}
}
