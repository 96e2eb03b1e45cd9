package compute

import (
	"fmt"
	"slices"
	"strings"
)

// Options choose how a device computes. A kind of device refuses those that it does not have.
type Options struct {
	Threads int    // of the host; 0 is the device's choice
	Kernels string // an implementation of the kernels by name; "" is the best of this machine
	Pin     bool   // bind worker threads to processors
	// Wide takes activations in float32 where the device would round them to a narrower type: slower, and nearer to
	// float32.
	Wide bool
}

// Kind is a kind of device. A room that implements one registers it in an init function.
type Kind struct {
	Name string // such as "cpu"
	Rank int    // the found device of the lowest rank is what "auto" means
	Host bool   // its memory is the host's, which others need too
	// Find lists the devices of this kind, by what follows the kind's name and a colon to open one ("" for the only
	// one), and why one or all cannot be used.
	Find func() []Found
	// Probe, if not nil, opens a device that was found, for a moment: it sets how much memory is free, and why the
	// device cannot be used after all.
	Probe func(f *Found)
	Open  func(which string, o Options) (Device, error)

	// Meter measures the peaks of what Open opens with the same arguments. nil if the kind has none.
	Meter func(which string, o Options) (Meter, error)
	// Implementations lists what Options.Kernels can name, best first. nil if there is no choice.
	Implementations func() []string
}

// Found is a device that is there.
type Found struct {
	Name   string `json:"name"`             // by which Open finds it, such as "cpu" or "cuda:1"
	What   string `json:"what"`             // for people
	Memory int64  `json:"memory"`           // bytes; 0 if unknown
	Free   int64  `json:"free,omitempty"`   // of Memory, if it was probed
	Unused string `json:"unused,omitempty"` // why it cannot be used; "" if it can
}

var kinds []Kind

// Register makes a kind of device known.
func Register(k Kind) {
	kinds = append(kinds, k)
	slices.SortStableFunc(kinds, func(a, b Kind) int { return a.Rank - b.Rank })
}

// Devices lists what every registered kind finds, best first, and tries which ones can be used.
func Devices() []Found {
	var all []Found
	for _, k := range kinds {
		found := k.Find()
		for i := range found {
			if f := &found[i]; f.Unused == "" && k.Probe != nil {
				k.Probe(f)
			}
		}
		all = append(all, found...)
	}
	return all
}

// Open opens a device by name: "auto" or "" is the best that can be used, "cpu" the best of a kind, "cuda:1" one of
// several.
func Open(name string, o Options) (Device, error) {
	k, which, err := KindOf(name)
	if err != nil {
		return nil, err
	}
	return k.Open(which, o)
}

// KindOf returns the kind of the device that Open opens by this name, and which one of that kind it is.
func KindOf(name string) (k Kind, which string, err error) {
	if name == "" || name == "auto" {
		for _, k := range kinds {
			for _, f := range k.Find() {
				if f.Unused == "" {
					_, which, _ := strings.Cut(f.Name, ":")
					return k, which, nil
				}
			}
		}
		return k, "", fmt.Errorf("compute: no device can be used; found are %v", Devices())
	}
	kind, which, _ := strings.Cut(name, ":")
	var names []string
	for _, k := range kinds {
		if kind == k.Name {
			return k, which, nil
		}
		names = append(names, k.Name)
	}
	return k, "", fmt.Errorf("compute: no device %q; want auto or one of %v", name, names)
}
