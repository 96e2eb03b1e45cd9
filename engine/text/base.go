package text

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/weights"
)

// base is the device of a model, with its weights and what runs on it. It implements engine.Base.
type base struct {
	m      *Model
	o      Options // Device names one device
	again  func() (*weights.Checkpoint, error)
	sum    []byte // of the checkpoint; what is loaded again has the same
	blocks int
	log    *slog.Logger

	dev    compute.Device // nil: it is closed
	runner *model.Runner  // nil: it is closed
	asleep bool           // the device's weights are on the host
}

// newRunner makes the Runner of the weights that are loaded.
func (b *base) newRunner() (engine.Runner, error) {
	r, err := b.m.loaded.Load().NewRunner(b.o.TokenBudget, b.blocks, b.o.BlockTokens, b.o.MaxSeqs)
	if err != nil {
		return nil, err
	}
	b.runner = r
	if b.m.draft != nil && b.m.draft.runner == nil {
		if err := b.m.draft.open(&b.o); err != nil {
			return nil, errors.Join(err, b.closeRunner())
		}
	}
	if what := r.Prepared(); what != "" {
		b.log.Info("the device is ready for steps", "with", what)
	}
	return r, nil
}

// place is engine.Config.Place. The loop alone calls it, and not while it waits for the base.
func (b *base) place(slot int, a *model.Adapter) (compute.Placement, error) {
	return b.runner.Place(slot, a)
}

// load opens the device and loads the weights from the files.
func (b *base) load() error {
	ckpt, err := b.again()
	if err != nil {
		return err
	}
	defer ckpt.Close()
	sum, err := fingerprint(ckpt, b.m.Spec, b.o.Compute.Wide)
	if err != nil {
		return err
	}
	if !bytes.Equal(sum, b.sum) {
		return errors.New("text: the files of the model have changed since it was loaded")
	}
	begin := time.Now()
	dev, err := compute.Open(b.o.Device, b.o.Compute)
	if err != nil {
		return err
	}
	loaded, err := loader.Model(ckpt, dev, nil)
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	loaded.MakeSlots(b.o.MaxLoRAs)
	loaded.KVType = b.o.KVType
	if err := b.m.draft.reload(dev, &b.o); err != nil {
		return errors.Join(err, dev.Close())
	}
	b.dev, b.asleep = dev, false
	b.m.loaded.Store(loaded)
	b.log.Info("loaded the weights again", "bytes", loaded.Bytes, "took", time.Since(begin))
	return nil
}

// unload closes the device, with all that is on it.
func (b *base) unload() error {
	err := b.closeRunner()
	b.m.loaded.Store(nil)
	b.m.draft.drop()
	if b.dev != nil {
		err = errors.Join(err, b.dev.Close())
		b.dev = nil
	}
	b.returnMemory()
	return err
}

func (b *base) closeRunner() error {
	err := b.m.draft.close()
	if b.runner != nil {
		err = errors.Join(b.runner.Close(), err)
		b.runner = nil
	}
	return err
}

// returnMemory gives the system what the garbage collector would keep for a while.
func (b *base) returnMemory() {
	if b.o.onHost() {
		debug.FreeOSMemory()
	}
}

// Rebuild implements engine.Base.
func (b *base) Rebuild() (engine.Runner, error) {
	if err := b.unload(); err != nil {
		b.log.Warn("what is left of the device could not be closed", "error", err)
	}
	if err := b.load(); err != nil {
		return nil, err
	}
	return b.newRunner()
}

// Sleep implements engine.Base. The weights of a device whose memory is the host's stay where they are.
func (b *base) Sleep(l engine.SleepLevel) error {
	switch l {
	case engine.SleepOnDisk:
		return b.unload()
	case engine.SleepOnHost:
		if err := b.closeRunner(); err != nil {
			return err
		}
		b.returnMemory()
		if d, ok := b.dev.(compute.Sleeper); ok {
			if err := d.Sleep(); err != nil {
				return err
			}
			b.asleep = true
		}
		return nil
	}
	return fmt.Errorf("text: a sleep of level %d; want 1 or 2", l)
}

// single returns the name of the one device that a name stands for now.
func single(name string) (string, error) {
	k, which, err := compute.KindOf(name)
	if err != nil || which == "" {
		return k.Name, err
	}
	return k.Name + ":" + which, nil
}

// WakeWeights implements engine.Base.
func (b *base) WakeWeights() error {
	if b.dev == nil {
		return b.load()
	}
	if b.asleep {
		if err := b.dev.(compute.Sleeper).Wake(); err != nil {
			return err
		}
		b.asleep = false
	}
	return nil
}

// WakeRunner implements engine.Base.
func (b *base) WakeRunner() (engine.Runner, error) { return b.newRunner() }
