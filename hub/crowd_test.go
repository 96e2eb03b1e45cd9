package hub

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// Many clients pull one model at once: each file is downloaded once, and all agree on the path.
func TestCrowd(t *testing.T) { synctest.Test(t, testCrowd) }

func testCrowd(t *testing.T) {
	h, c := newHub(t, quants)
	paths := make([]string, 8)
	var all sync.WaitGroup
	for i := range paths {
		all.Go(func() {
			other := *c
			path, err := other.Pull(context.Background(), Name{Repo: "o/m", Tag: "IQ2_XS"}, nil)
			if err != nil {
				t.Error(err)
			}
			paths[i] = path
		})
	}
	all.Wait()
	for _, p := range paths {
		if data, err := os.ReadFile(p); string(data) != "one" || p != paths[0] {
			t.Errorf("%q holds %q, %v", p, data, err)
		}
	}
	if len(h.ranges()) != 2 {
		t.Errorf("%d downloads of 2 files", len(h.ranges()))
	}
}

// holdWeights makes the second server wait: asked is closed when the weights are wanted, release lets them go.
func holdWeights(h *fakeHub) (asked, release chan struct{}) {
	asked, release = make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		once.Do(func() { close(asked) })
		<-release
		return false
	}
	return asked, release
}

// While a file is being fetched its model is not removed, and the pull ends well.
func TestRemoveDuringPull(t *testing.T) { synctest.Test(t, testRemoveDuringPull) }

func testRemoveDuringPull(t *testing.T) {
	h, c := newHub(t, small)
	asked, release := holdWeights(h)
	go func() {
		<-asked
		other := *c
		freed, err := other.Remove(Name{Repo: "o/m", Revision: testCommit})
		if freed != 0 || err == nil || !strings.Contains(err.Error(), "a pull is fetching") {
			t.Errorf("Remove by commit = %d, %v", freed, err)
		}
		freed, err = other.Remove(Name{Repo: "o/m"})
		if freed != 0 || err == nil || !strings.Contains(err.Error(), "a pull is fetching") {
			t.Errorf("Remove = %d, %v", freed, err)
		}
		close(release)
	}()
	pull(t, c, "o/m")
	if freed, err := c.Remove(Name{Repo: "o/m"}); freed != 2+7+7000 || err != nil {
		t.Errorf("afterwards: Remove = %d, %v", freed, err)
	}
}

// Removing one GGUF file leaves the download of another alone.
func TestRemoveTagDuringPull(t *testing.T) { synctest.Test(t, testRemoveTagDuringPull) }

func testRemoveTagDuringPull(t *testing.T) {
	h, c := newHub(t, quants)
	pull(t, c, "o/m:Q8_0")
	pull(t, c, "o/m:Q4_K_M")
	asked, release := holdWeights(h)
	go func() {
		<-asked
		if freed, err := c.Remove(Name{Repo: "o/m", Tag: "Q8_0"}); freed != 4 || err != nil {
			t.Errorf("Remove = %d, %v", freed, err)
		}
		close(release)
	}()
	pull(t, c, "o/m:IQ2_XS")
}

// What vanishes during a pull, by whomever's hand, is an error: no ref ever leads to half a model.
func TestVanishesDuringPull(t *testing.T) { synctest.Test(t, testVanishesDuringPull) }

func testVanishesDuringPull(t *testing.T) {
	h, c := newHub(t, small)
	asked, release := holdWeights(h)
	go func() {
		<-asked
		if err := os.RemoveAll(filepath.Join(c.snapshot("o/m", testCommit), "config.json")); err != nil {
			t.Error(err)
		}
		close(release)
	}()
	_, err := c.Pull(context.Background(), Name{Repo: "o/m"}, nil)
	if err == nil || !strings.Contains(err.Error(), "config.json was removed from the cache during the pull") {
		t.Errorf("Pull: %v", err)
	}
	if _, ok, err := c.Lookup(Name{Repo: "o/m"}); ok || err != nil {
		t.Errorf("Lookup: %v, %v", ok, err)
	}
	pull(t, c, "o/m")
}
