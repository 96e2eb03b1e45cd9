package text

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/sched"
	"github.com/kvasir-llm/kvasir/weights"
)

// checkTiers refuses settings of tiers that cannot be meant.
func (o *Options) checkTiers() error {
	switch {
	case o.HostKVBytes < 0 || o.DiskKVBytes < 0:
		return fmt.Errorf("text: host-kv-bytes is %d and disk-kv-bytes %d; want at least 0", o.HostKVBytes, o.DiskKVBytes)
	case (o.DiskKV == "") != (o.DiskKVBytes == 0):
		return fmt.Errorf("text: disk-kv is %q and disk-kv-bytes %d; want both or neither", o.DiskKV, o.DiskKVBytes)
	case o.NoPrefix && (o.HostKVBytes > 0 || o.DiskKV != ""):
		return fmt.Errorf("text: host-kv-bytes and disk-kv store what the prefix cache has, which no-prefix-cache turns off")
	case o.Preempt != "" && !slices.Contains(sched.Preempts(), o.Preempt):
		return fmt.Errorf("text: preempt is %q; want one of %v", o.Preempt, sched.Preempts())
	case o.Preempt == sched.Swap && o.HostKVBytes == 0 && o.DiskKV == "":
		return fmt.Errorf("text: preempt is %q, which needs host-kv-bytes or disk-kv", o.Preempt)
	}
	return nil
}

// tiers says where blocks go that the device has no place for. Each model has a directory of its own.
func (o *Options) tiers(ckpt *weights.Checkpoint, spec *model.Spec) (engine.Tiers, error) {
	if o.HostKVBytes+o.DiskKVBytes > 0 && (spec.Recurrent() || spec.Encoder) {
		return engine.Tiers{}, fmt.Errorf("text: host-kv-bytes and disk-kv are for models whose tokens' keys and values are all that is kept; %s (%s) has recurrent layers, or is an encoder", o.Name, spec.Family)
	}
	t := engine.Tiers{HostBytes: o.HostKVBytes, DiskBytes: o.DiskKVBytes}
	if o.DiskKV == "" {
		return t, nil
	}
	t.Dir = filepath.Join(o.DiskKV, url.PathEscape(o.Name))
	sum, err := fingerprint(ckpt, spec)
	t.Model = fmt.Sprintf("%s, keys and values of type %v, blocks of %d tokens, weights %x", spec.Family, cmp.Or(o.KVType, quant.F32), o.BlockTokens, sum[:8])
	return t, err
}

// sampled is how many bytes of a tensor's start, middle and end count for a fingerprint.
const sampled = 1024

// fingerprint tells models apart: by what they compute, and by samples of their weights.
func fingerprint(ckpt *weights.Checkpoint, spec *model.Spec) ([]byte, error) {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(spec); err != nil {
		return nil, err
	}
	for _, info := range ckpt.Tensors() {
		t, ok := ckpt.Tensor(info.Name)
		if !ok {
			return nil, fmt.Errorf("text: the tensor %s is listed but cannot be read", info.Name)
		}
		fmt.Fprintln(h, info.Name, info.Type, info.Shape)
		for _, at := range []int{0, len(t.Data) / 2, max(0, len(t.Data)-sampled)} {
			h.Write(t.Data[at:min(at+sampled, len(t.Data))])
		}
		binary.Write(h, binary.LittleEndian, int64(len(t.Data)))
	}
	return h.Sum(nil), nil
}
