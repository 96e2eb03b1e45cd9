package text

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/tier"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/sched"
)

// checkTiers refuses settings of tiers that cannot be meant.
func (o *Options) checkTiers() error {
	switch {
	case o.HostKVBytes < 0 || o.DiskKVBytes < 0 || o.TakeKVBytes < 0:
		return fmt.Errorf("text: host-kv-bytes is %d, disk-kv-bytes %d and kv-take-bytes %d; want at least 0", o.HostKVBytes, o.DiskKVBytes, o.TakeKVBytes)
	case (o.DiskKV == "") != (o.DiskKVBytes == 0):
		return fmt.Errorf("text: disk-kv is %q and disk-kv-bytes %d; want both or neither", o.DiskKV, o.DiskKVBytes)
	case o.NoPrefix && (o.HostKVBytes > 0 || o.DiskKV != ""):
		return fmt.Errorf("text: host-kv-bytes and disk-kv store what the prefix cache has, which no-prefix-cache turns off")
	case o.NoPrefix && o.TakeKVBytes > 0:
		return fmt.Errorf("text: kv-take-bytes are for KV blocks that the prefix cache is to have, which no-prefix-cache turns off")
	case o.Preempt != "" && !slices.Contains(sched.Preempts(), string(o.Preempt)):
		return fmt.Errorf("text: preempt is %q; want one of %v", o.Preempt, sched.Preempts())
	case o.Preempt == sched.Swap && o.HostKVBytes == 0 && o.DiskKV == "":
		return fmt.Errorf("text: preempt is %q, which needs host-kv-bytes or disk-kv", o.Preempt)
	}
	return nil
}

// tiers says where blocks go that the device's cache has no place for, each model's to a directory of its own, and what
// tells the model's blocks from others'. sum is the fingerprint of its checkpoint.
func (o *Options) tiers(sum []byte, spec *model.Spec, cache compute.Cache) (of string, t engine.Tiers, err error) {
	whole := !spec.Recurrent() && !spec.Encoder
	if o.HostKVBytes+o.DiskKVBytes > 0 && !whole {
		return "", t, fmt.Errorf("text: host-kv-bytes and disk-kv are for models whose tokens' keys and values are all that is kept; "+
			"%s (%s) has recurrent layers, or is an encoder", o.Name, spec.Family)
	}
	if o.HostKVBytes > 0 {
		t.List = append(t.List, tier.Spec{Kind: "host", Bytes: o.HostKVBytes})
	}
	if o.DiskKV != "" {
		t.List = append(t.List, tier.Spec{Kind: "disk", Where: filepath.Join(o.DiskKV, url.PathEscape(o.Name)), Bytes: o.DiskKVBytes})
	}
	if o.TakeKVBytes > 0 && whole {
		t.List = append(t.List, tier.Spec{Kind: "transfer", Bytes: o.TakeKVBytes})
	}
	form := "in canonical form"
	if p, ok := cache.(compute.Portable); ok {
		for g := range cache.Spec().Groups() {
			t.Layouts = append(t.Layouts, p.Layout(g))
		}
	} else if kind, _, err := compute.KindOf(o.Device); err != nil {
		return "", t, err
	} else {
		form = "packed by " + kind.Name
	}
	t.Model = fmt.Sprintf("%s, keys and values of type %v, blocks of %d tokens, %s, weights %x",
		spec.Family, o.KVType, o.BlockTokens, form, sum[:8])
	return fmt.Sprintf("%x %v", sum[:16], o.KVType), t, nil
}
