package cpu

import (
	"fmt"
	"math"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// A panel of F8_E4M3 holds its bytes, [in][16], and behind them 2⁸ times the scales, [in/group][16] float32. Widening
// is in two steps: moving a byte's exponent and mantissa to their places in a float16 gives 2⁻⁸ of its value,
// exactly; the product with the scale is rounded once, as that of the value itself would be.

// bytes8 is how many k of how many panels are widened at a time: their float32 stay in the first cache.
const bytes8, panels8 = 64, 4

// matF8 is MatF32 for panels of w from panel from on.
func (d *Device) matF8(dst []float32, ldd int, x []float32, ldx int, w *matrix, from, n, m int) {
	var wide [panels8 * bytes8 * kernel.Lanes]float32
	for p := 0; p < n; p += panels8 {
		panels := min(panels8, n-p)
		for at := 0; at < w.in; {
			count := min(bytes8, w.in-at, w.group-at%w.group)
			for i := range panels {
				data := w.data[(from+p+i)*w.stride:][:w.stride]
				scales := kernel.View[float32](data[w.in*kernel.Lanes:])
				d.k.Widen8(wide[i*bytes8*kernel.Lanes:][:count*kernel.Lanes], data[at*kernel.Lanes:][:count*kernel.Lanes], scales[at/w.group*kernel.Lanes:][:kernel.Lanes])
			}
			d.k.MatF32(kernel.Product[float32]{
				Dst: dst[p*kernel.Lanes:], Ldd: ldd, X: x[at:], Ldx: ldx,
				W: wide[:], Stride: bytes8 * kernel.Lanes, Panels: panels, M: m, K: count, Accumulate: at > 0,
			})
			at += count
		}
	}
}

// row8 decodes lane j of a panel of F8_E4M3.
func (m *matrix) row8(dst []float32, panel []byte, j int) {
	scales := kernel.View[float32](panel[m.in*kernel.Lanes:])
	for k := range dst {
		dst[k] = kernel.Float8Values[panel[k*kernel.Lanes+j]] * scales[k/m.group*kernel.Lanes+j]
	}
}

// pack8 puts stored row n of the source into lane j of a panel of F8_E4M3.
func (m *matrix) pack8(panel []byte, src *compute.Source, n, j int) {
	for k, b := range src.Data[n*m.in:][:m.in] {
		panel[k*kernel.Lanes+j] = b
	}
	scales, groups := kernel.View[float32](panel[m.in*kernel.Lanes:]), m.groups()
	for g := range groups {
		scales[g*kernel.Lanes+j] = src.Scales[n*groups+g] * 256
	}
}

// groups returns how many scales a row of F8_E4M3 has.
func (m *matrix) groups() int { return (m.in + m.group - 1) / m.group }

// checkScales makes sure that the scales of a source are there, and finite.
func checkScales(src *compute.Source) error {
	if src.Type != quant.F8_E4M3 {
		if len(src.Scales) > 0 {
			return fmt.Errorf("cpu: weight %q: type %v has no scales beside it, got %d", src.Name, src.Type, len(src.Scales))
		}
		return nil
	}
	if src.Group < 1 {
		return fmt.Errorf("cpu: weight %q: a scale for each %d inputs; want 1 or more", src.Name, src.Group)
	}
	if want := src.Out * ((src.In + src.Group - 1) / src.Group); len(src.Scales) != want {
		return fmt.Errorf("cpu: weight %q: [%d, %d] of %v with a scale for each %d inputs needs %d scales, got %d",
			src.Name, src.Out, src.In, src.Type, src.Group, want, len(src.Scales))
	}
	for _, s := range src.Scales {
		if !(math.Abs(float64(s)) < 0x1p100) {
			return fmt.Errorf("cpu: weight %q: a scale is %g", src.Name, s)
		}
	}
	for i, b := range src.Data {
		if b&0x7f == 0x7f {
			return fmt.Errorf("cpu: weight %q: value %d of row %d is no number", src.Name, i%src.In, i/src.In)
		}
	}
	return nil
}
