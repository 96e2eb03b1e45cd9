package weights

import (
	"cmp"
	"fmt"
	"slices"
)

// addTensors adds the tensors of a state dictionary to the checkpoint. All their storages are inside the file.
func (p *part) addTensors(dict *pyDict) error {
	budget := len(p.data) // of bytes to be copied, so that a small file cannot fill the memory
	seen := map[string]bool{}
	for i, k := range dict.keys {
		name, ok := k.(string)
		switch {
		case !ok || len(name) > maxName:
			return fmt.Errorf("%s is no name of a tensor", describe(k))
		case seen[name]:
			return fmt.Errorf("tensor %q occurs twice", name)
		}
		seen[name] = true
		t, ok := dict.values[i].(tensorRef)
		if !ok {
			return fmt.Errorf("%q is %s, not a tensor", name, describe(dict.values[i]))
		}
		info := Info{Name: name, Type: t.typ, Shape: t.shape, File: p.path}
		if err := t.check(&info); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		if !t.contiguous() {
			if budget -= int(info.Size); budget < 0 {
				return fmt.Errorf("tensor %q: the copies of tensors that are not contiguous take more bytes than the file's %d", name, len(p.data))
			}
			p.copies[name] = t.copy(p.data)
		}
		p.infos = append(p.infos, info)
	}
	slices.SortStableFunc(p.infos, func(a, b Info) int { return cmp.Compare(a.Offset, b.Offset) })
	return nil
}

// check checks that the tensor lies inside its storage, and fills in its place.
func (t tensorRef) check(info *Info) error {
	size, err := byteSize(t.typ, t.shape, false)
	if err != nil {
		return err
	}
	width, last := t.typ.BlockBytes(), t.offset
	for i, d := range t.shape {
		if d == 0 {
			info.Offset = int64(t.store.at)
			return nil // no values
		}
		step, ok := checkedMul(d-1, t.stride[i])
		if last += step; !ok || last < 0 {
			return fmt.Errorf("strides %v of shape %v are beyond any storage", t.stride, t.shape)
		}
	}
	if last >= t.store.size/width {
		return fmt.Errorf("shape %v with strides %v from value %d on ends at value %d, past the end %d of storage %q",
			t.shape, t.stride, t.offset, last, t.store.size/width, t.store.key)
	}
	info.Offset, info.Size = int64(t.store.at+t.offset*width), size
	return nil
}

// contiguous reports whether the values follow each other, row by row.
func (t tensorRef) contiguous() bool {
	step := 1
	for i := len(t.shape) - 1; i >= 0; i-- {
		if t.shape[i] > 1 && t.stride[i] != step {
			return slices.Contains(t.shape, 0)
		}
		step *= t.shape[i]
	}
	return true
}

// copy lays the values out row by row.
func (t tensorRef) copy(file []byte) []byte {
	width := t.typ.BlockBytes()
	data := file[t.store.at:][:t.store.size]
	at, out := make([]int, len(t.shape)), []byte(nil)
	for {
		from := t.offset
		for i, n := range at {
			from += n * t.stride[i]
		}
		out = append(out, data[from*width:][:width]...)
		i := len(at) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < t.shape[i] {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return out
		}
	}
}
