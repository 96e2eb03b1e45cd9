// Package brittle registers a device that is lost at a step that a test chooses. It is imported by tests only.
package brittle

import (
	"errors"
	"sync/atomic"

	"github.com/kvasir-llm/kvasir/compute"
)

// Left is how many steps the devices may still start until one of them is lost with the last of these; 0 and less:
// none is lost.
var Left atomic.Int64

var lost atomic.Bool

// Lost reports whether a device was lost.
func Lost() bool { return lost.Load() }

// Register registers the kind "brittle", whose devices are those that open returns. host: they are the processor.
func Register(host bool, open func() (compute.Device, error)) {
	compute.Register(compute.Kind{
		Name: "brittle", Rank: 2, Host: host,
		Find: func() []compute.Found { return nil },
		Open: func(string, compute.Options) (compute.Device, error) {
			d, err := open()
			if err != nil {
				return nil, err
			}
			return device{d, new(atomic.Bool)}, nil
		},
	})
}

type device struct {
	compute.Device
	lost *atomic.Bool
}

type program struct {
	compute.Program
	lost *atomic.Bool
}

type step struct {
	compute.Step
	last bool
	lost *atomic.Bool
}

// Sleep is compute.Sleeper, where the device has it.
func (d device) Sleep() error {
	if s, ok := d.Device.(compute.Sleeper); ok {
		return s.Sleep()
	}
	return nil
}

// Wake undoes Sleep.
func (d device) Wake() error {
	if s, ok := d.Device.(compute.Sleeper); ok {
		return s.Wake()
	}
	return nil
}

func (d device) Compile(g *compute.Graph, c compute.Cache, l compute.Limits) (compute.Program, error) {
	p, err := d.Device.Compile(g, c, l)
	return program{p, d.lost}, err
}

func (p program) Start(b *compute.Batch) (compute.Step, error) {
	s, err := p.Program.Start(b)
	return step{s, b.Rows() > 0 && Left.Add(-1) == 0, p.lost}, err
}

func (s step) Wait() error {
	err := s.Step.Wait()
	if s.last {
		s.lost.Store(true)
		lost.Store(true)
	}
	if err == nil && s.lost.Load() {
		err = &compute.Fault{Err: errors.New("the device fell off the bus"), Lost: true}
	}
	return err
}
