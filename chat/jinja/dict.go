package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strings"
)

// Dict is a mapping that keeps the order in which its keys were added. The zero value is not ready: use NewDict.
type Dict struct {
	keys  []Value
	vals  []Value
	index map[any]int // by hashKey
}

// NewDict returns an empty dict.
func NewDict() *Dict { return &Dict{index: map[any]int{}} }

// Set adds a key or replaces its value. The value must be one that From returns, or one that From accepts if the dict
// is only passed to From or Render, which convert it.
func (d *Dict) Set(key string, v any) { d.put(key, key, v) }

// Get returns the value of a key.
func (d *Dict) Get(key string) (any, bool) {
	i, ok := d.index[key]
	if !ok {
		return nil, false
	}
	return d.vals[i], true
}

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// Keys returns the keys that are strings, in order.
func (d *Dict) Keys() []string {
	var keys []string
	for _, k := range d.keys {
		if s, ok := k.(string); ok {
			keys = append(keys, s)
		}
	}
	return keys
}

func (d *Dict) put(hash any, key, v Value) {
	if i, ok := d.index[hash]; ok {
		d.vals[i] = v
		return
	}
	d.index[hash] = len(d.keys)
	d.keys = append(d.keys, key)
	d.vals = append(d.vals, v)
}

func (d *Dict) putKey(key, v Value) error {
	h, err := hashKey(key)
	if err == nil {
		d.put(h, key, v)
	}
	return err
}

// find returns the position of a key, or -1.
func (d *Dict) find(key Value) (int, error) {
	h, err := hashKey(key)
	if err != nil {
		return -1, err
	}
	if i, ok := d.index[h]; ok {
		return i, nil
	}
	return -1, nil
}

// remove deletes the key at position i.
func (d *Dict) remove(i int) {
	h, _ := hashKey(d.keys[i])
	delete(d.index, h)
	d.keys = append(d.keys[:i:i], d.keys[i+1:]...)
	d.vals = append(d.vals[:i:i], d.vals[i+1:]...)
	for h, j := range d.index {
		if j > i {
			d.index[h] = j - 1
		}
	}
}

type (
	noneKey  struct{}
	tupleKey string
	bigKey   string
)

// hashKey returns a comparable Go value that is equal for keys that Python holds to be equal: 1, 1.0 and True are one.
func hashKey(key Value) (any, error) {
	switch k := plain(key).(type) {
	case string, int64:
		return k, nil
	case nil:
		return noneKey{}, nil
	case bool:
		n, _ := asInt(k)
		return n, nil
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<63 {
			return int64(k), nil
		}
		return k, nil
	case *big.Int:
		return bigKey(k.String()), nil
	case *List:
		if k.kind != kindTuple {
			break
		}
		if len(k.items) > 100 {
			return nil, fmt.Errorf("a tuple of %d elements is too long for a key", len(k.items))
		}
		var b strings.Builder
		for _, item := range k.items {
			if _, nested := item.(*List); nested {
				return nil, fmt.Errorf("a tuple that is a key cannot hold a %s", typeName(item))
			}
			h, err := hashKey(item)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "%T:%q,", h, fmt.Sprint(h))
		}
		return tupleKey(b.String()), nil
	case *Dict:
	default:
		return key, nil // identity
	}
	return nil, fmt.Errorf("unhashable type: %q", typeName(key))
}
