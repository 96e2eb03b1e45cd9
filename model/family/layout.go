package family

import (
	"maps"
	"strings"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/weights"
)

// Layout is how files hold the tensors of a model.
type Layout struct {
	Slots         Slots
	Transposed    bool // matrices of layers are stored as [in, out]
	PairedExperts bool // the gates and ups of experts alternate
	Permuted      bool // the halves of heads of queries and keys alternate, row by row (compute.Heads)
}

// LayoutOf returns the layout of a checkpoint that a Spec was read from.
func LayoutOf(s *model.Spec, ckpt *weights.Checkpoint) Layout { return familyOf(s).layoutOf(ckpt) }

// LayoutIn returns the layout of a Spec's family in files of a format that hold nothing but the model.
func LayoutIn(s *model.Spec, format weights.Format) Layout { return familyOf(s).layoutIn(format) }

// PrefixedNames returns the names that a tensor called name may have in a safetensors checkpoint, the most usual
// first: the decoder may be a part of a model that also sees or hears, in the older and the newer way, or have been
// saved without the class that adds a head and with it a prefix (AutoModel, sentence-transformers).
func PrefixedNames(name string) []string {
	out := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		out[i] = prefix(name)
	}
	return out
}

var prefixes = []func(name string) string{
	func(name string) string { return name },
	func(name string) string { return "language_model." + name },
	func(name string) string { return strings.Replace(name, "model.", "model.language_model.", 1) },
	func(name string) string { return strings.Replace(name, "model.", "language_model.", 1) },
	bare,
}

// bare returns a name without the prefix of the class that adds a head.
func bare(name string) string {
	for _, prefix := range []string{"model.", "transformer.", "bert.", "roberta."} {
		if stem, ok := strings.CutPrefix(name, prefix); ok {
			return stem
		}
	}
	return name
}

func (f *family) layoutOf(ckpt *weights.Checkpoint) Layout {
	l := f.layoutIn(ckpt.Format())
	if ckpt.Format() == weights.GGUF {
		if _, ok := ckpt.Tensor("blk.0.ffn_gate.0.weight"); ok { // a file of before experts were stacked
			maps.Copy(l.Slots, Slots{
				"experts.gate": "blk.%d.ffn_gate.%d", "experts.up": "blk.%d.ffn_up.%d", "experts.down": "blk.%d.ffn_down.%d",
			})
		}
		return l
	}
	for _, prefix := range prefixes {
		if _, ok := ckpt.Tensor(prefix(l.Slots["embed"]) + ".weight"); ok {
			for slot, name := range l.Slots {
				l.Slots[slot] = prefix(name)
			}
			break
		}
	}
	return l
}

func (f *family) layoutIn(format weights.Format) Layout {
	names, own := maps.Clone(hfSlots), f.slots
	if format == weights.GGUF {
		names, own = maps.Clone(ggufSlots), f.ggufSlots
	}
	maps.Copy(names, own)
	plain := format != weights.GGUF
	return Layout{Slots: names, Transposed: f.transposed && plain, PairedExperts: f.pairedExperts && plain, Permuted: f.permuted && !plain}
}
