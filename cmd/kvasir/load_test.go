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

// TestFairWithKeys holds that requests with API keys get fair shares unless a flag says who comes first.
func TestFairWithKeys(t *testing.T) {
	for _, c := range []struct {
		f    schedFlags
		keys bool
		want string // the flag, "" is what the profile says
	}{
		{schedFlags{Profile: "chat"}, true, "vtc"},
		{schedFlags{Profile: "throughput"}, true, "vtc"},
		{schedFlags{Profile: "chat"}, false, ""},
		{schedFlags{Profile: "chat", Policy: "fcfs"}, true, "fcfs"},
		{schedFlags{Profile: "chat", Policy: "priority"}, true, "priority"},
		{schedFlags{Profile: "latency"}, true, ""},
	} {
		f := c.f
		if f.fair(c.keys); f.Policy != c.want {
			t.Errorf("%s %q, keys %v: the policy is %q; want %q", c.f.Profile, c.f.Policy, c.keys, f.Policy, c.want)
		}
	}
}
