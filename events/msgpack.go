package events

import (
	"encoding/binary"
	"math"

	"github.com/kvasir-llm/kvasir/kv"
)

// Encoding is how a stream tells of blocks.
type Encoding struct {
	BlockTokens int
	// Groups are the groups of layers that have blocks of their own; none is one of full attention.
	Groups []kv.Group
	// Bytes tells names in full, 32 bytes each; else as unsigned integers, their last 8 bytes.
	Bytes bool
}

// AppendBatch appends MessagePack of a batch, as docs/format/kv-events.md specifies: what happened at a time, in
// seconds since 1970.
func (c Encoding) AppendBatch(b []byte, seconds float64, events []kv.Event) []byte {
	b = append(b, fixArray|3, float64Type)
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(seconds))
	b = appendArray(b, len(events))
	for i := range events {
		b = c.appendEvent(b, &events[i])
	}
	return append(b, 0) // the rank among data-parallel engines
}

func (c Encoding) appendEvent(b []byte, e *kv.Event) []byte {
	switch e.Kind {
	case kv.Cleared:
		return appendString(append(b, fixArray|1), "AllBlocksCleared")
	case kv.Removed:
		b = appendString(append(b, fixArray|4), "BlockRemoved")
		b = appendString(c.appendName(append(b, fixArray|1), e.Name), medium)
		return appendUint(b, uint64(e.Group))
	}
	b = appendString(append(b, fixArray|12), "BlockStored")
	b = c.appendName(append(b, fixArray|1), e.Name)
	if e.Parent == (kv.Hash{}) {
		b = append(b, nilType)
	} else {
		b = c.appendName(b, e.Parent)
	}
	b = appendArray(b, len(e.Tokens))
	for _, t := range e.Tokens {
		b = appendUint(b, uint64(t))
	}
	b = append(appendUint(b, uint64(c.BlockTokens)), nilType) // the number of an adapter, of which there is none
	b = appendOptional(appendString(b, medium), e.Keys.AdapterName)
	b = appendUint(appendKeys(b, e), uint64(e.Group))
	if e.Group < len(c.Groups) && c.Groups[e.Group].Window > 0 {
		return appendUint(appendString(b, "sliding_window"), uint64(c.Groups[e.Group].Window))
	}
	return append(appendString(b, "full_attention"), nilType)
}

// medium is where all blocks are: in the memory of the device that computes.
const medium = "GPU"

func (c Encoding) appendName(b []byte, h kv.Hash) []byte {
	if c.Bytes {
		return append(append(b, bin8Type, byte(len(h))), h[:]...)
	}
	return appendUint(b, binary.BigEndian.Uint64(h[len(h)-8:]))
}

// appendKeys appends, for the only block of an event, the list of what its name depends on beside tokens and parent, or
// nil.
func appendKeys(b []byte, e *kv.Event) []byte {
	var room [9]string
	list := e.Keys.List(room[:0])
	if len(list) == 0 || e.Parent != (kv.Hash{}) {
		return append(b, nilType)
	}
	b = appendArray(append(b, fixArray|1), len(list))
	for _, text := range list {
		b = appendString(b, text)
	}
	return b
}

// The types of MessagePack that events are made of.
const (
	fixArray    = 0x90
	fixString   = 0xa0
	nilType     = 0xc0
	bin8Type    = 0xc4
	float64Type = 0xcb
	uint8Type   = 0xcc
	uint16Type  = 0xcd
	uint32Type  = 0xce
	uint64Type  = 0xcf
	string8Type = 0xd9
	string16    = 0xda
	string32    = 0xdb
	array16     = 0xdc
	array32     = 0xdd
)

func appendUint(b []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(b, byte(n))
	case n < 1<<8:
		return append(b, uint8Type, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, uint16Type), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, uint32Type), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, uint64Type), n)
}

func appendArray(b []byte, n int) []byte {
	switch {
	case n < 1<<4:
		return append(b, fixArray|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, array16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, array32), uint32(n))
}

func appendOptional(b []byte, s string) []byte {
	if s == "" {
		return append(b, nilType)
	}
	return appendString(b, s)
}

func appendString(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 1<<5:
		b = append(b, fixString|byte(n))
	case n < 1<<8:
		b = append(b, string8Type, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, string16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, string32), uint32(n))
	}
	return append(b, s...)
}
