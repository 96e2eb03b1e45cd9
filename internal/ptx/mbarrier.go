package ptx

import (
	"encoding/binary"
	"fmt"
)

// mbarrier is one of Hopper's barriers in shared memory. A phase ends when all arrivals that it expects and all bytes
// that it was told of have come.
type mbarrier struct {
	at       uint32 // its address
	expected int    // arrivals of a phase
	pending  int    // arrivals that this phase waits for
	bytes    int    // bytes that this phase waits for; below 0: they came before they were announced
	phase    int    // those that have ended
}

// mbarriers are those of a block. In shared memory an mbarrier is a mark and its number here, so that one finds out if
// it is not initialised, or was overwritten.
type mbarriers []*mbarrier

const (
	mbarrierMark  = 0xba221e25 // in the upper half of the 8 bytes
	mbarrierCount = 1<<20 - 1  // the most arrivals and, either way, bytes
)

func (l *mbarriers) init(shared []byte, at uint32, count int) error {
	if b, err := l.find(shared, at); b != nil {
		return fmt.Errorf("mbarrier at %#x is initialised again", at)
	} else if err != nil && !isUninitialised(err) {
		return err
	}
	if count < 1 || count > mbarrierCount {
		return fmt.Errorf("mbarrier at %#x is to expect %d arrivals, of 1 to %d", at, count, mbarrierCount)
	}
	binary.LittleEndian.PutUint64(within(shared, at, 8), mbarrierMark<<32|uint64(len(*l)))
	*l = append(*l, &mbarrier{at: at, expected: count, pending: count})
	return nil
}

// uninitialised is the address of an mbarrier that there is not.
type uninitialised uint32

func (u uninitialised) Error() string {
	return fmt.Sprintf("mbarrier at %#x is not initialised, or was overwritten", uint32(u))
}

func isUninitialised(err error) bool {
	_, is := err.(uninitialised)
	return is
}

// find returns the mbarrier at an address of a block's shared memory.
func (l mbarriers) find(shared []byte, at uint32) (*mbarrier, error) {
	b := within(shared, at, 8)
	if at%8 != 0 || b == nil {
		return nil, fmt.Errorf("mbarrier at %#x, which is no multiple of 8 or not in shared memory, which ends at %#x", at, endOf(shared))
	}
	word := binary.LittleEndian.Uint64(b)
	if i := int(uint32(word)); word>>32 == mbarrierMark && i < len(l) && l[i].at == at {
		return l[i], nil
	}
	return nil, uninitialised(at)
}

// arrive counts an arrival, after so many bytes have been announced.
func (b *mbarrier) arrive(expect int) error {
	if expect < 0 || expect > mbarrierCount || b.bytes+expect > mbarrierCount {
		return fmt.Errorf("mbarrier at %#x is to expect %d bytes besides %d, of up to %d", b.at, expect, b.bytes, mbarrierCount)
	}
	if b.pending == 0 {
		return fmt.Errorf("mbarrier at %#x gets more arrivals in phase %d than the %d that it expects", b.at, b.phase, b.expected)
	}
	b.bytes += expect
	b.pending--
	return b.settle()
}

// complete counts bytes that have come.
func (b *mbarrier) complete(bytes int) error {
	b.bytes -= bytes
	if b.bytes < -mbarrierCount {
		return fmt.Errorf("mbarrier at %#x got %d bytes more in phase %d than it was told of", b.at, -b.bytes, b.phase)
	}
	return b.settle()
}

// settle ends a phase for which nothing is missing.
func (b *mbarrier) settle() error {
	if b.pending > 0 || b.bytes > 0 {
		return nil
	}
	if b.bytes < 0 {
		return fmt.Errorf("mbarrier at %#x got %d bytes more in phase %d than it was told of", b.at, -b.bytes, b.phase)
	}
	b.phase++
	b.pending = b.expected
	return nil
}

// ended says whether the phase of a parity is the one that ended last.
func (b *mbarrier) ended(parity uint32) bool { return uint32(b.phase)&1 != parity&1 }

// String says what a phase waits for.
func (b *mbarrier) String() string {
	return fmt.Sprintf("mbarrier at %#x in phase %d, which misses %d of %d arrivals and %d bytes", b.at, b.phase, b.pending, b.expected, b.bytes)
}
