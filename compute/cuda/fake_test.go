package cuda

import (
	"testing"

	"github.com/kvasir-llm/kvasir/internal/fakecuda"
)

// fake is a driver without a device, whose kernels do nothing. What it complains of fails the test. It refuses what a
// test says.
type fake struct {
	*fakecuda.Driver
	t      testing.TB
	refuse map[entry]code
}

func newFake(t testing.TB) *fake {
	d := fakecuda.New(fakecuda.Device{Name: "Fake 9000", Major: 9, SMs: 4, Shared: 99 << 10, Total: 1 << 40, Driver: 13000})
	d.Complain = func(what string) { t.Error(what) }
	return &fake{Driver: d, t: t, refuse: map[entry]code{}}
}

// deviceOf opens the device of a fake, which is closed at the test's end.
func deviceOf(t testing.TB, f library) *device {
	t.Helper()
	d, err := newDevice(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// leaks reports what was not given back.
func (f *fake) leaks() {
	f.t.Helper()
	for _, what := range f.Leaks() {
		f.t.Errorf("%s was not given back", what)
	}
}

func (f *fake) call(e entry, a ...uintptr) code {
	if c := f.refused(e); c != success {
		return c
	}
	return code(f.Call(symbols[e], a...))
}

// refused returns the code of a call that is refused.
func (f *fake) refused(e entry) code {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	c := f.refuse[e]
	if c.spoils() {
		f.Spoil(int32(c))
	}
	return c
}
