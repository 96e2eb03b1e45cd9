package server

import (
	"regexp"
	"testing"
)

// TestRoutesStandAlone makes sure that no line of GET / points at another one, since they are sorted by paths.
func TestRoutesStandAlone(t *testing.T) {
	pointing := regexp.MustCompile(`\b(the same|one of them|that page|them|end it|remove it|forget it|end one|unload one)\b`)
	s := build(t, Config{Models: []Served{served(newFake("fake"))}})
	for path, r := range s.routes {
		if m := pointing.FindString(r.about); r.about == "" || m != "" {
			t.Errorf("%s says %q, which points at another line", path, r.about)
		}
	}
}
