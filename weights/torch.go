package weights

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/kvasir-llm/kvasir/quant"
)

// A PyTorch checkpoint (torch.save) is a pickle of a dictionary from names to tensors, and the storages that the
// tensors are views of: a type, a key and a number of values. Since PyTorch 1.6 it is an uncompressed zip archive of
// NAME/data.pkl and a file NAME/data/KEY for each storage. Before, it was a row of pickles (a magic number, the version
// 1001, the system, the dictionary, the list of keys) and then each storage: its number of values (8 bytes) and the
// values. A dictionary with the entry "state_dict" has the dictionary of tensors there.
//
// Tensors may share a storage. A tensor whose values are contiguous in it is a view of the file; others are copied.

const zipMagic, legacyMagic = "PK\x03\x04", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."

// A storage is a run of values in the file.
type storage struct {
	typ    quant.Type // 0 for bytes of any type
	key    string
	values int
	at     int // byte of the file; -1 if not known yet
	size   int // bytes
}

// A tensorRef is a tensor that a pickle made: a view of a storage. offset and stride count values.
type tensorRef struct {
	store         *storage
	typ           quant.Type
	offset        int
	shape, stride []int
}

// torchStorages are the classes of storages by the type of their values, torchTypes the types that have none.
var (
	torchStorages = map[pyGlobal]quant.Type{
		"torch.FloatStorage": quant.F32, "torch.HalfStorage": quant.F16, "torch.BFloat16Storage": quant.BF16,
		"torch.DoubleStorage": quant.F64, "torch.LongStorage": quant.I64, "torch.IntStorage": quant.I32,
		"torch.ShortStorage": quant.I16, "torch.CharStorage": quant.I8, "torch.ByteStorage": quant.U8,
		"torch.BoolStorage": quant.BOOL, "torch.ComplexFloatStorage": quant.C64, "torch.storage.UntypedStorage": 0,
	}
	torchTypes = map[pyGlobal]quant.Type{
		"torch.float8_e4m3fn": quant.F8_E4M3, "torch.float8_e5m2": quant.F8_E5M2, "torch.float8_e8m0fnu": quant.F8_E8M0,
		"torch.float8_e4m3fnuz": quant.F8_E4M3FNUZ, "torch.float8_e5m2fnuz": quant.F8_E5M2FNUZ,
		"torch.uint16": quant.U16, "torch.uint32": quant.U32, "torch.uint64": quant.U64,
	}
	torchCalls = map[pyGlobal]func(args pyTuple) (any, error){
		"collections.OrderedDict":         orderedDict,
		"torch._utils._rebuild_tensor":    rebuildTensor,
		"torch._utils._rebuild_tensor_v2": rebuildTensor,
		"torch._utils._rebuild_tensor_v3": rebuildTensor,
		"torch._utils._rebuild_parameter": rebuildParameter,
	}
)

// known reports whether a pickle may name a global.
func known(g pyGlobal) bool {
	_, isStorage := torchStorages[g]
	_, isType := torchTypes[g]
	return isStorage || isType || torchCalls[g] != nil
}

// call makes what a global makes of its arguments.
func call(f, args any) (any, error) {
	g, ok := f.(pyGlobal)
	list, isTuple := args.(pyTuple)
	if !ok || torchCalls[g] == nil || !isTuple {
		return nil, fmt.Errorf("%s is called with %s", describe(f), describe(args))
	}
	v, err := torchCalls[g](list)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", string(g), err)
	}
	return v, nil
}

func orderedDict(args pyTuple) (any, error) {
	if len(args) > 0 {
		return nil, fmt.Errorf("called with %d arguments; want none", len(args))
	}
	return &pyDict{}, nil
}

// rebuildParameter has the arguments data, requires_grad, hooks.
func rebuildParameter(args pyTuple) (any, error) {
	if len(args) > 0 {
		if t, ok := args[0].(tensorRef); ok {
			return t, nil
		}
	}
	return nil, fmt.Errorf("called with no tensor")
}

// rebuildTensor has the arguments storage, offset, size, stride and, in version 2, requires_grad, hooks and metadata;
// in version 3 the type comes before the metadata.
func rebuildTensor(args pyTuple) (any, error) {
	if len(args) < 4 {
		return nil, fmt.Errorf("called with %d arguments; want at least 4", len(args))
	}
	var t tensorRef
	var ok bool
	if t.store, ok = args[0].(*storage); !ok {
		return nil, fmt.Errorf("called with %s; want a storage", describe(args[0]))
	}
	t.typ = t.store.typ
	if len(args) > 6 {
		if g, isGlobal := args[6].(pyGlobal); isGlobal {
			t.typ = torchTypes[g]
		}
	}
	if t.typ == 0 {
		return nil, fmt.Errorf("called with a storage of bytes and no type that is known")
	}
	numbers := []any{args[1]}
	for _, arg := range args[2:4] {
		list, isTuple := arg.(pyTuple)
		if !isTuple || len(list) > maxDims {
			return nil, fmt.Errorf("called with %s; want the size and the stride of at most %d dimensions", describe(arg), maxDims)
		}
		numbers = append(numbers, list...)
	}
	counts := make([]int, len(numbers))
	for i, v := range numbers {
		n, isInt := v.(int64)
		if !isInt || n < 0 || n != int64(int(n)) {
			return nil, fmt.Errorf("called with %s; want a whole number from 0 on", describe(v))
		}
		counts[i] = int(n)
	}
	dims := len(args[2].(pyTuple))
	t.offset, t.shape, t.stride = counts[0], counts[1:1+dims], counts[1+dims:]
	if len(t.stride) != dims {
		return nil, fmt.Errorf("called with %d sizes and %d strides", dims, len(t.stride))
	}
	return t, nil
}

// storageOf reads a persistent id: ("storage", class, key, device, values), of legacy files with a view behind it.
func storageOf(id any, all map[string]*storage) (*storage, error) {
	list, _ := id.(pyTuple)
	if len(list) < 5 || list[0] != "storage" {
		return nil, fmt.Errorf("%s is no name of a storage", describe(id))
	}
	class, _ := list[1].(pyGlobal)
	typ, isStorage := torchStorages[class]
	key, isText := list[2].(string)
	n, isInt := list[4].(int64)
	if !isStorage || !isText || !isInt || n < 0 || n > 1<<56 {
		return nil, fmt.Errorf("a storage of class %s, key %s and %s values", describe(list[1]), describe(list[2]), describe(list[4]))
	}
	if len(list) > 5 && list[5] != nil {
		return nil, fmt.Errorf("storage %q is a view of another, which is not supported", key)
	}
	s := all[key]
	if s == nil {
		s = &storage{typ: typ, key: key, values: int(n), at: -1}
		s.size = s.values * max(typ.BlockBytes(), 1)
		all[key] = s
	}
	if s.typ != typ || s.values != int(n) {
		return nil, fmt.Errorf("storage %q has %d values of %v and also %d of %v", key, s.values, s.typ, n, typ)
	}
	return s, nil
}

// parseTorch reads a file of either layout.
func parseTorch(m mapping) (part, error) {
	p := part{mapping: m, format: PyTorch, meta: map[string]any{}, copies: map[string][]byte{}}
	all := map[string]*storage{}
	persistent := func(id any) (any, error) { return storageOf(id, all) }
	var root any
	var err error
	if bytes.HasPrefix(m.data, []byte(zipMagic)) {
		root, err = readZip(m.data, all, persistent)
	} else {
		root, err = readLegacy(m.data, all, persistent)
	}
	if err != nil {
		return p, err
	}
	dict, ok := root.(*pyDict)
	if !ok {
		return p, fmt.Errorf("holds %s, not a dictionary of tensors", describe(root))
	}
	if dict, err = dict.stateDict(); err != nil {
		return p, err
	}
	return p, p.addTensors(dict)
}

// stateDict returns the dictionary of tensors in a training's checkpoint: the entry "state_dict" beside the state of
// the training itself. Any other dictionary is itself the dictionary of tensors.
func (d *pyDict) stateDict() (*pyDict, error) {
	var state *pyDict
	for i, k := range d.keys {
		if inner, ok := d.values[i].(*pyDict); k == "state_dict" && ok {
			if state != nil {
				return nil, fmt.Errorf(`"state_dict" occurs twice`)
			}
			state = inner
		}
	}
	if state == nil {
		return d, nil
	}
	for i, v := range d.values {
		if _, isTensor := v.(tensorRef); isTensor {
			return nil, fmt.Errorf(`%s is a tensor beside "state_dict"; want all tensors in one of the two places`, describe(d.keys[i]))
		}
	}
	return state, nil
}

func readZip(data []byte, all map[string]*storage, persistent func(any) (any, error)) (any, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // names are only compared
		return nil, fmt.Errorf("zip archive: %w", err)
	}
	dir, files := "", map[string]*zip.File{}
	for _, f := range z.File {
		if files[f.Name] != nil {
			return nil, fmt.Errorf("zip archive: %q occurs twice", f.Name)
		}
		files[f.Name] = f
		if d, ok := strings.CutSuffix(f.Name, "/data.pkl"); ok && dir == "" {
			dir = d
		}
	}
	stored := func(name string) (at, size int, err error) {
		f := files[dir+"/"+name]
		if f == nil {
			return 0, 0, fmt.Errorf("zip archive: no file %q", dir+"/"+name)
		}
		start, err := f.DataOffset()
		switch {
		case err != nil:
			return 0, 0, fmt.Errorf("zip archive: %q: %w", f.Name, err)
		case f.Method != zip.Store || f.CompressedSize64 != f.UncompressedSize64:
			return 0, 0, fmt.Errorf("zip archive: %q is compressed, which torch.save never does", f.Name)
		case start > int64(len(data)) || f.UncompressedSize64 > uint64(int64(len(data))-start):
			return 0, 0, fmt.Errorf("zip archive: %q at byte %d with %d bytes ends past the file's end %d",
				f.Name, start, f.UncompressedSize64, len(data))
		}
		return int(start), int(f.UncompressedSize64), nil
	}
	if at, size, err := stored("byteorder"); err == nil && string(data[at:at+size]) != "little" {
		return nil, fmt.Errorf("byte order %.20q; only little is supported", data[at:at+size])
	}
	at, size, err := stored("data.pkl")
	if err != nil {
		return nil, err
	}
	u := unpickler{data: data[at : at+size], persistent: persistent}
	root, err := u.run()
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		at, size, err := stored("data/" + s.key)
		if err != nil {
			return nil, err
		}
		if s.size != size {
			return nil, fmt.Errorf("storage %q of %d values of %v takes %d bytes; the archive has %d", s.key, s.values, s.typ, s.size, size)
		}
		s.at = at
	}
	return root, nil
}

func readLegacy(data []byte, all map[string]*storage, persistent func(any) (any, error)) (any, error) {
	u := unpickler{data: data, persistent: persistent}
	var row [5]any // magic number, version, system, dictionary, keys
	for i := range row {
		v, err := u.run()
		if err != nil {
			return nil, err
		}
		row[i] = v
	}
	if row[1] != int64(1001) {
		return nil, fmt.Errorf("version %s of the format; only 1001 is known", describe(row[1]))
	}
	if system, ok := row[2].(*pyDict); ok {
		for i, k := range system.keys {
			if k == "little_endian" && system.values[i] != true {
				return nil, fmt.Errorf("numbers are not little-endian")
			}
		}
	}
	keys, ok := row[4].(*pyList)
	if !ok {
		return nil, fmt.Errorf("%s in place of the list of storages", describe(row[4]))
	}
	for _, k := range keys.items {
		key, _ := k.(string)
		s := all[key]
		if s == nil || s.at >= 0 {
			return nil, fmt.Errorf("%s is the key of no storage, or a second time", describe(k))
		}
		head, err := u.take(8)
		if err != nil {
			return nil, err
		}
		if n := binary.LittleEndian.Uint64(head); n != uint64(s.values) {
			return nil, fmt.Errorf("storage %q has %d values; the dictionary says %d", key, n, s.values)
		}
		s.at = u.pos
		if _, err := u.take(s.size); err != nil {
			return nil, fmt.Errorf("storage %q: %w", key, err)
		}
	}
	for _, s := range all {
		if s.at < 0 {
			return nil, fmt.Errorf("storage %q is missing", s.key)
		}
	}
	return row[3], nil
}
