package cuda

import (
	"errors"
	"fmt"
)

// Sleep moves the weights to pinned memory of the host, and frees what they had on the device. No program and no cache
// is open. What stays is the context with its kernels. After an error all is as before.
func (d *device) Sleep() error {
	if d.asleep {
		return nil
	}
	if err := d.g.enter(); err != nil {
		return err
	}
	defer d.g.leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.toHost(); err != nil {
		return errors.Join(err, d.freeHost())
	}
	d.asleep = true
	errs := []error{d.freeTaken(), d.freeArenas()} // adapters are placed again
	for i := range d.raw {
		errs = append(errs, d.g.free(d.raw[i]))
		d.raw[i] = 0
	}
	return errors.Join(errs...)
}

// toHost copies weights to the host.
func (d *device) toHost() (err error) {
	for _, a := range d.arenas {
		if a.host, err = d.g.allocPinned(int(a.used), "weights that sleep"); err != nil {
			return err
		}
		if err = d.loading.toHost(a.host, 0, a.at, int(a.used)); err != nil {
			return err
		}
	}
	return d.loading.wait()
}

// freeHost frees the weights' memory on the host. Nothing reads it any more.
func (d *device) freeHost() error {
	errs := []error{d.loading.wait()}
	for _, a := range d.arenas {
		errs = append(errs, d.g.freePinned(a.host))
		a.host = pinned{}
	}
	return errors.Join(errs...)
}

// Wake brings the weights back. If there is no memory for them, they sleep on.
func (d *device) Wake() error {
	if !d.asleep {
		return nil
	}
	if err := d.g.enter(); err != nil {
		return err
	}
	defer d.g.leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.toDevice(); err != nil {
		errs := []error{fmt.Errorf("waking: %w", err), d.loading.wait(), d.freeArenas()}
		for i := range d.raw {
			errs = append(errs, d.g.free(d.raw[i]))
			d.raw[i] = 0
		}
		return errors.Join(errs...)
	}
	for _, a := range d.arenas {
		for _, h := range a.weights {
			*h.at = a.at.at(h.offset)
			d.taken[*h.at] = h
		}
	}
	d.asleep = false
	return d.freeHost()
}

// toDevice copies weights to new memory of the device.
func (d *device) toDevice() (err error) {
	for _, a := range d.arenas {
		if a.at, err = d.g.alloc(a.n, "weights that slept"); err != nil {
			return err
		}
		if err = d.loading.toDevice(a.at, a.host, 0, int(a.used)); err != nil {
			return err
		}
	}
	for i := range d.raw {
		if d.raw[i], err = d.g.alloc(stagingBytes, "weights on their way"); err != nil {
			return err
		}
	}
	return d.loading.wait()
}
