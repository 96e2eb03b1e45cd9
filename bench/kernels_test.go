package bench

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
)

func TestKernelsMeasuresEveryImplementation(t *testing.T) {
	heard, rows := map[string]int{}, 0
	o := KernelOptions{Device: "cpu", Compute: compute.Options{Threads: 2}, Filter: regexp.MustCompile(`matmul/(Q8_0|F32|F8_E4M3|U4_128)/8|decode/Q4_0|norm|add|activate|rotate`), Size: 256}
	err := Kernels(t.Context(), o, func(name string, p compute.Peaks, row *KernelRow) {
		if row == nil {
			heard[name] = 0
			return
		}
		heard[name]++
		rows++
		if row.Kernels != name || row.Threads != 2 || row.Bandwidth <= 0 || row.Share <= 0 || row.Shape == "" || row.Rows < 8 {
			t.Errorf("row %+v", row)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range cpu.Kernels() {
		if heard[name] != 9 {
			t.Errorf("%s: %d rows; want 9", name, heard[name])
		}
	}
	o.Size = 128
	if err := Kernels(t.Context(), o, nil); err == nil {
		t.Error("a size of 128 was measured")
	}
	o.Size, o.Compute.Kernels = 256, "none such"
	if err := Kernels(t.Context(), o, func(string, compute.Peaks, *KernelRow) {}); err == nil {
		t.Error("unknown kernels were measured")
	}
	got, _ := json.Marshal(KernelRow{"avx2", "matmul", "Q8_0", "8x8", 1, 2, 3, 4, 0.5, ""})
	if want := `{"kernels":"avx2","kernel":"matmul","type":"Q8_0","shape":"8x8","rows":1,"threads":2,"gb_per_second":3,"gop_per_second":4,"share":0.5}`; string(got) != want {
		t.Errorf("JSON %s; want %s", got, want)
	}
}
