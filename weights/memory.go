package weights

import "maps"

// Memory returns a checkpoint of tensors that are in memory, as one file of a format would hold them. Tensors may share
// bytes, which must not change, and have types that no file of the format has. Of each Info it asks for Name, Type and
// Shape. The name stands for the file's path.
func Memory(name string, format Format, tensors []Tensor, meta map[string]any) (*Checkpoint, error) {
	p := part{mapping: mapping{path: name}, format: format, meta: meta, copies: map[string][]byte{}}
	for _, t := range tensors {
		t.File, t.Size = name, int64(len(t.Data))
		p.infos = append(p.infos, t.Info)
		p.copies[t.Name] = t.Data
		p.held += t.Size
	}
	for k := range maps.Keys(meta) {
		p.keys = append(p.keys, k)
	}
	c, err := assemble("", []part{p})
	if err == nil {
		c.again = func() (*Checkpoint, error) { return Memory(name, format, tensors, meta) }
	}
	return c, err
}
