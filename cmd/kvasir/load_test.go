package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLoadProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var w strings.Builder
		progress := loadProgress(ctx, &w, "big")
		progress(10, 1000)
		if w.String() != "" {
			t.Errorf("loading says %q at once; want silence at first", w.String())
		}
		time.Sleep(time.Second)
		progress(250, 1000)
		progress(251, 1000) // no other percentage, no other line
		progress(1000, 1000)
		cancel()
		progress(0, 1000)
		want := clearLine + "loading big: 25% of 1000 B" + clearLine + "loading big: 100% of 1000 B"
		if w.String() != want {
			t.Errorf("loading says %q, want %q", w.String(), want)
		}
	})
}

// TestPrecision holds that --precision reaches the engine.
func TestPrecision(t *testing.T) {
	for precision, wide := range map[string]bool{"auto": false, "f32": true} {
		f := engineFlags{computeFlags: computeFlags{Precision: precision}}
		if got := f.options("m").Compute.Wide; got != wide {
			t.Errorf("%s: wide activations %v; want %v", precision, got, wide)
		}
	}
}
