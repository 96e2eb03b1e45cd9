// Package devicetest runs tests on every device of the machine: those of operations (compute/devices), of models and of
// the engine. A device that lacks what a test needs refuses it with compute.ErrUnsupported, and the test is skipped.
package devicetest

import (
	"os"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	_ "github.com/kvasir-llm/kvasir/compute/devices" // the kinds there are
)

// Each runs a test on every device of every registered kind: the processor always, others if they are there. With the
// environment variable KVASIR_GPU set, a machine without another one fails. The processor computes in float32.
func Each(t *testing.T, run func(t *testing.T, dev compute.Device)) {
	t.Helper()
	others := 0
	for _, d := range compute.Devices() {
		if d.Unused != "" {
			t.Logf("%s, %s: %s", d.Name, d.What, d.Unused)
			continue
		}
		o := compute.Options{}
		if d.Name == "cpu" {
			o = compute.Options{Threads: 2, Wide: true}
		} else {
			others++
		}
		t.Run(d.Name, func(t *testing.T) {
			dev, err := compute.Open(d.Name, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
			})
			run(t, dev)
		})
	}
	if others == 0 && os.Getenv("KVASIR_GPU") != "" {
		t.Error("KVASIR_GPU is set, and there is no device beside the processor")
	}
}
