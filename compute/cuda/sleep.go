package cuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Sleep moves the weights to pinned memory of the host, and frees what they had on the device. No program and no cache
// is open. What stays is the context with its kernels. After an error all is as before.
func (d *device) Sleep() error {
	if len(d.asleep) > 0 {
		return nil
	}
	if err := d.g.enter(); err != nil {
		return err
	}
	defer d.g.leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	var weights []*held
	for _, p := range slices.Sorted(maps.Keys(d.taken)) {
		if h := d.taken[p]; h.stays {
			weights = append(weights, h)
		}
	}
	if err := d.toHost(weights); err != nil {
		return errors.Join(err, d.freeHost(weights))
	}
	d.asleep = weights
	for _, h := range weights {
		*h.at = 0
	}
	var errs []error
	for p := range d.taken { // adapters among them, which are placed again
		errs = append(errs, d.g.free(p))
	}
	clear(d.taken)
	for i := range d.raw {
		errs = append(errs, d.g.free(d.raw[i]))
		d.raw[i] = 0
	}
	return errors.Join(errs...)
}

// toHost copies weights to the host.
func (d *device) toHost(weights []*held) (err error) {
	for _, h := range weights {
		if h.host, err = d.g.allocPinned(int(h.n), h.what+", which sleeps"); err != nil {
			return err
		}
		if err = d.loading.toHost(h.host, 0, *h.at, int(h.n)); err != nil {
			return err
		}
	}
	return d.loading.wait()
}

// freeHost frees the weights' memory on the host. Nothing reads it any more.
func (d *device) freeHost(weights []*held) error {
	errs := []error{d.loading.wait()}
	for _, h := range weights {
		errs = append(errs, d.g.freePinned(h.host))
		h.host = pinned{}
	}
	return errors.Join(errs...)
}

// Wake brings the weights back. If there is no memory for them, they sleep on.
func (d *device) Wake() error {
	if len(d.asleep) == 0 {
		return nil
	}
	if err := d.g.enter(); err != nil {
		return err
	}
	defer d.g.leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.toDevice(); err != nil {
		errs := []error{fmt.Errorf("waking: %w", err), d.loading.wait()}
		for _, h := range d.asleep {
			errs = append(errs, d.g.free(*h.at))
			*h.at = 0
		}
		for i := range d.raw {
			errs = append(errs, d.g.free(d.raw[i]))
			d.raw[i] = 0
		}
		return errors.Join(errs...)
	}
	for _, h := range d.asleep {
		d.taken[*h.at] = h
	}
	err := d.freeHost(d.asleep)
	d.asleep = nil
	return err
}

// toDevice copies weights to new memory of the device.
func (d *device) toDevice() (err error) {
	for _, h := range d.asleep {
		if *h.at, err = d.g.alloc(h.n, h.what); err != nil {
			return err
		}
		if err = d.loading.toDevice(*h.at, h.host, 0, int(h.n)); err != nil {
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
