package text

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/weights"
)

// sampled is how many bytes of a tensor's start, middle and end count for a fingerprint.
const sampled = 1024

// fingerprint tells models apart: by what they compute, and by samples of their weights. wide is compute.Options.Wide.
func fingerprint(ckpt *weights.Checkpoint, spec *model.Spec, wide bool) ([]byte, error) {
	h := sha256.New()
	h.Write([]byte(describe(spec, wide)))
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

// contents is the version of what models compute from their descriptions. It grows when the same description comes to
// stand for other keys and values.
const contents = 1

// afterLayers are the fields of a Spec that no block depends on: those of the head, and the limits of what is allowed.
var afterLayers = []string{"Vocab", "Context", "Classes", "TiedHead", "NoHead", "HeadBias", "LogitScale", "LogitSoftcap",
	"Limit"}

// describe lists what the keys and values of a model depend on beside its weights, a name and a value a line. It is
// stable: a field of a Spec has a line only if it is not zero, so a field that a later version adds does not change the
// description of a model that does not use it.
func describe(s *model.Spec, wide bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "contents %d\nwide %v\n", contents, wide)
	describeValue(&b, "Spec", reflect.ValueOf(*s))
	describeValue(&b, "Cache", reflect.ValueOf(s.KVLayers()))
	return b.String()
}

func describeValue(b *strings.Builder, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i).Name; !slices.Contains(afterLayers, field) {
				describeValue(b, name+"."+field, v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			describeValue(b, fmt.Sprintf("%s[%d]", name, i), v.Index(i))
		}
	case reflect.Interface: // one with no fields but zeros differs from none
		if !v.IsNil() {
			name += "." + v.Elem().Type().Name()
			fmt.Fprintln(b, name)
			describeValue(b, name, v.Elem())
		}
	default:
		switch {
		case v.IsZero():
		case v.CanUint(): // not the name of a constant, which may change
			fmt.Fprintln(b, name, v.Uint())
		default:
			fmt.Fprintln(b, name, v)
		}
	}
}
