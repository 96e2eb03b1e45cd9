package cuda

import (
	"testing"
)

// TestMeterOnFake measures a driver that computes nothing: what a meter takes, it gives back.
func TestMeterOnFake(t *testing.T) {
	f := newFake(t)
	m, err := newMeter(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Peaks()
	if err != nil {
		t.Fatal(err)
	}
	if p.Read <= 0 || p.Pairs <= 0 || p.Floats != p.Pairs || p.Bytes != p.Pairs {
		t.Errorf("peaks are %+v", p)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	f.leaks()
}

// TestMeter measures the device: products are faster than reading, by far, or the kernels do not what they should.
func TestMeter(t *testing.T) {
	if emulated {
		t.Skip("an emulated GPU has no speed")
	}
	d := gpuDevice(t)
	m, err := newMeter(d.g.lib, int(d.g.ordinal))
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Peaks()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s reads %.2f TB/s and multiplies %.0f TFLOP/s", d.g.info.name, p.Read/1e12, p.Pairs/1e12)
	if p.Read < 1e10 || p.Pairs < 10*p.Read {
		t.Errorf("peaks are %+v", p)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
