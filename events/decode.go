package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/kvasir-llm/kvasir/kv"
)

// Told is what an engine tells of blocks of its prefix cache, in the format of kvasir, vLLM or SGLang.
type Told struct {
	Kind        kv.EventKind
	Names       []uint64 // of the blocks, in the order of the sequence; of a name of more than 8 bytes the last 8
	Parent      uint64   // of Stored: the block before them; 0 where a sequence starts
	Tokens      []int32  // of Stored: BlockTokens of each block
	BlockTokens int
	Adapter     string
	Keys        [][]string // of Stored: for each block, what its name depends on beside tokens and parent
	Group       int        // of layers
	Windowed    bool       // of Stored: the layers attend to a window of tokens only
	Elsewhere   bool       // the blocks are not in the memory of the device that computes

	salt string // while an event is read
}

// errShort is the end of a payload within a value.
var errShort = errors.New("events: the payload ends within a value")

// maxDepth is how deep arrays and maps may be nested in a payload.
const maxDepth = 16

// decode reads the payload of a batch: an array of a time, events and perhaps more. Fields that were added to the
// format later, and events of an unknown type, are skipped. The rank among data-parallel engines is 0 if there is none.
func decode(payload []byte) (told []Told, rank int, err error) {
	r := reader{data: payload}
	fields := r.array()
	if r.err == nil && fields < 2 {
		return nil, 0, fmt.Errorf("events: a batch of %d fields; want a time and events", fields)
	}
	r.skip(0)
	count := r.array()
	for i := 0; i < count && r.err == nil; i++ {
		t, known := r.event()
		if r.err == nil && known {
			if err := t.check(); err != nil {
				return nil, 0, fmt.Errorf("events: event %d of a batch: %w", i, err)
			}
			told = append(told, t)
		}
	}
	if fields > 2 && r.err == nil && !r.null() {
		rank = int(r.number())
	}
	return told, rank, r.err
}

// check refuses blocks whose tokens are not those of their number.
func (t *Told) check() error {
	if t.Kind != kv.Stored {
		return nil
	}
	if t.BlockTokens < 1 || t.BlockTokens > 1<<20 || len(t.Tokens) != len(t.Names)*t.BlockTokens {
		return fmt.Errorf("%d blocks of %d tokens were stored with %d tokens", len(t.Names), t.BlockTokens, len(t.Tokens))
	}
	if len(t.Keys) > 0 && len(t.Keys) != len(t.Names) {
		return fmt.Errorf("%d blocks were stored with the keys of %d", len(t.Names), len(t.Keys))
	}
	return nil
}

// The fields of events behind their type, in the order in which arrays have them.
var (
	storedFields = []string{
		"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
		"group_idx", "kv_cache_spec_kind",
	}
	removedFields = []string{"block_hashes", "medium", "group_idx"}
)

// event reads an event: an array whose first item is its type, or a map with the key "type". The other fields of a map
// have names. known is false for an event of another type.
func (r *reader) event() (t Told, known bool) {
	if n, isMap := r.mapOf(); isMap {
		at := r.at // the type may come after the other keys
		var name []byte
		for range n {
			if string(r.bytes()) == "type" {
				name = r.bytes()
			} else {
				r.skip(0)
			}
		}
		if r.err != nil || !t.is(name) {
			return t, false
		}
		for r.at = at; n > 0; n-- {
			r.field(&t, r.text())
		}
		t.salted()
		return t, true
	}
	n := r.array()
	if r.err != nil || n < 1 {
		return t, false
	}
	known = t.is(r.bytes())
	fields := storedFields
	if t.Kind == kv.Removed {
		fields = removedFields
	}
	for i := range n - 1 {
		if known && i < len(fields) {
			r.field(&t, fields[i])
		} else {
			r.skip(0)
		}
	}
	return t, known
}

// salted takes SGLang's salt for what vLLM tells: a key of the first block of a sequence.
func (t *Told) salted() {
	if t.salt != "" && t.Kind == kv.Stored && t.Parent == 0 && len(t.Keys) == 0 && len(t.Names) > 0 {
		t.Keys = make([][]string, len(t.Names))
		t.Keys[0] = []string{t.salt}
	}
	t.salt = ""
}

// is sets the kind of an event by the name of its type.
func (t *Told) is(name []byte) bool {
	switch string(name) {
	case "BlockStored":
		t.Kind = kv.Stored
	case "BlockRemoved":
		t.Kind = kv.Removed
	case "AllBlocksCleared":
		t.Kind = kv.Cleared
	default:
		return false
	}
	return true
}

// field reads one field of an event.
func (r *reader) field(t *Told, name string) {
	if name != "token_ids" && r.null() {
		return
	}
	switch name {
	case "block_hashes":
		from, n := len(r.names), r.array()
		for ; n > 0 && r.err == nil; n-- {
			r.names = append(r.names, r.name())
		}
		t.Names = r.names[from:len(r.names):len(r.names)]
	case "parent_block_hash":
		t.Parent = r.name()
	case "token_ids":
		from, n := len(r.tokens), r.array()
		for ; n > 0 && r.err == nil; n-- {
			r.tokens = append(r.tokens, int32(r.number()))
		}
		t.Tokens = r.tokens[from:len(r.tokens):len(r.tokens)]
	case "block_size":
		t.BlockTokens = int(r.number())
	case "medium":
		m := r.bytes()
		t.Elsewhere = len(m) > 0 && string(m) != medium
	case "lora_name":
		t.Adapter = r.text()
	case "cache_salt":
		t.salt = r.text()
	case "extra_keys":
		for n := r.array(); n > 0 && r.err == nil; n-- {
			t.Keys = append(t.Keys, r.keys(0))
		}
	case "group_idx":
		t.Group = int(r.number())
	case "kv_cache_spec_kind":
		t.Windowed = string(r.bytes()) == "sliding_window"
	default:
		r.skip(0)
	}
}

// reader reads MessagePack. After an error it returns zeros.
type reader struct {
	data   []byte
	at     int
	err    error
	names  []uint64 // of all events
	tokens []int32
}

func (r *reader) fail(want string) {
	if r.err == nil {
		r.err = fmt.Errorf("events: byte %d of a payload is %#x; want %s", r.at-1, r.data[r.at-1], want)
	}
}

// take returns the next n bytes, nil if they are not there.
func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.data)-r.at {
		if r.err == nil {
			r.err = errShort
		}
		return nil
	}
	r.at += n
	return r.data[r.at-n : r.at]
}

// kind returns the next byte, the type of a value; nil's after an error.
func (r *reader) kind() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return nilType
}

// bits returns an unsigned integer of some bytes.
func (r *reader) bits(bytes int) uint64 {
	var all [8]byte
	copy(all[8-bytes:], r.take(bytes))
	return binary.BigEndian.Uint64(all[:])
}

// null skips nil, and reports whether it was there.
func (r *reader) null() bool {
	if r.err == nil && r.at < len(r.data) && r.data[r.at] == nilType {
		r.at++
		return true
	}
	return false
}

// array returns how many items an array has. It is at most the number of bytes that follow.
func (r *reader) array() int {
	n := 0
	switch k := r.kind(); {
	case k&0xf0 == fixArray:
		n = int(k & 0x0f)
	case k == array16:
		n = int(r.bits(2))
	case k == array32:
		n = int(r.bits(4))
	default:
		r.fail("an array")
	}
	if n > len(r.data)-r.at {
		r.err = errShort
		return 0
	}
	return n
}

// mapOf returns how many pairs the next value has if it is a map, which it goes into.
func (r *reader) mapOf() (n int, isMap bool) {
	if r.err != nil || r.at >= len(r.data) {
		return 0, false
	}
	switch k := r.data[r.at]; {
	case k&0xf0 == fixMap:
		r.at++
		return int(k & 0x0f), true
	case k == map16:
		r.at++
		n = int(r.bits(2))
	case k == map32:
		r.at++
		n = int(r.bits(4))
	default:
		return 0, false
	}
	if n > len(r.data)-r.at {
		r.err = errShort
		return 0, true
	}
	return n, true
}

// number returns an integer.
func (r *reader) number() int64 {
	if r.at < len(r.data) && r.data[r.at] < 0x80 && r.err == nil {
		r.at++
		return int64(r.data[r.at-1])
	}
	switch k := r.kind(); {
	case k >= 0xe0: // -32 to -1
		return int64(int8(k))
	case k >= uint8Type && k <= uint64Type:
		return int64(r.bits(1 << (k - uint8Type)))
	case k >= int8Type && k <= int64Type:
		bytes := 1 << (k - int8Type)
		return int64(r.bits(bytes)<<(64-8*bytes)) >> (64 - 8*bytes)
	}
	r.fail("an integer")
	return 0
}

// name returns the name of a block, which is an integer or bytes, or text of hexadecimal digits or else. It is not 0.
func (r *reader) name() uint64 {
	if r.err != nil || r.at >= len(r.data) {
		r.take(1)
		return 0
	}
	if k := r.data[r.at]; k&0xe0 != fixString && (k < bin8Type || k > bin8Type+2) && (k < string8Type || k > string32) {
		return max(uint64(r.number()), 1)
	}
	b := r.bytes()
	var last [8]byte
	copy(last[max(0, 8-len(b)):], b[max(0, len(b)-8):])
	return max(binary.BigEndian.Uint64(last[:]), 1)
}

// bytes returns the contents of text or binary data.
func (r *reader) bytes() []byte {
	switch k := r.kind(); {
	case k&0xe0 == fixString:
		return r.take(int(k & 0x1f))
	case k >= bin8Type && k <= bin8Type+2:
		return r.take(int(r.bits(1 << (k - bin8Type))))
	case k >= string8Type && k <= string32:
		return r.take(int(r.bits(1 << (k - string8Type))))
	}
	r.fail("text or bytes")
	return nil
}

func (r *reader) text() string { return string(r.bytes()) }

// keys reads the keys of a block, which may be of any type, as text: nested ones one after the other.
func (r *reader) keys(depth int) []string {
	if r.err != nil || r.at >= len(r.data) || depth > maxDepth {
		r.err = errShort
		return nil
	}
	switch k := r.data[r.at]; {
	case r.null():
		return nil
	case k&0xf0 == fixArray || k == array16 || k == array32:
		var all []string
		for n := r.array(); n > 0 && r.err == nil; n-- {
			all = append(all, r.keys(depth+1)...)
		}
		return all
	case k&0xe0 == fixString || k >= bin8Type && k <= bin8Type+2 || k >= string8Type && k <= string32:
		return []string{r.text()}
	case k < 0x80 || k >= 0xe0 || k >= uint8Type && k <= int64Type:
		return []string{strconv.FormatInt(r.number(), 10)}
	}
	from := r.at
	r.skip(depth)
	return []string{string(r.data[from:r.at])}
}

// skip skips a value of any type.
func (r *reader) skip(depth int) {
	if depth > maxDepth {
		r.err = fmt.Errorf("events: a payload is nested more than %d deep", maxDepth)
		return
	}
	if n, isMap := r.mapOf(); isMap {
		for range 2 * n {
			if r.skip(depth + 1); r.err != nil {
				return
			}
		}
		return
	}
	if r.err != nil || r.at >= len(r.data) {
		r.take(1)
		return
	}
	switch k := r.data[r.at]; {
	case k&0xf0 == fixArray || k == array16 || k == array32:
		for n := r.array(); n > 0 && r.err == nil; n-- {
			r.skip(depth + 1)
		}
	case k == nilType || k == falseType || k == falseType+1:
		r.at++
	case k == float64Type-1 || k == float64Type:
		r.take(1 + 4<<(k-float64Type+1))
	case k&0xe0 == fixString || k >= bin8Type && k <= bin8Type+2 || k >= string8Type && k <= string32:
		r.bytes()
	default:
		r.number()
	}
}

// Types of MessagePack that only others write.
const (
	fixMap    = 0x80
	falseType = 0xc2
	int8Type  = 0xd0
	int64Type = 0xd3
	map16     = 0xde
	map32     = 0xdf
)
