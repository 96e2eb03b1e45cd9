package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// A pickle is a program for a stack machine that makes Python objects. This machine makes only the contents of a
// checkpoint: numbers, strings, tuples, lists, dictionaries, and the calls of torchCalls. It refuses a pickle that
// asks for anything else, such as a function to call, by that name; it never imports or calls anything.
//
// Every operation takes a byte of the file and makes one value at most, so a pickle cannot make more than its length
// allows. Python values are Go values: nil, bool, int64, float64, string, pyTuple, *pyList, *pyDict, pyGlobal, *storage
// and tensorRef. The opcodes are those of protocols 2 to 5 (Python's pickletools).
type unpickler struct {
	data  []byte
	pos   int
	stack []any
	marks []int
	memo  map[int]any
	// persistent returns what a persistent id stands for.
	persistent func(id any) (any, error)
}

type (
	pyTuple  []any
	pyList   struct{ items []any }
	pyGlobal string // "module name"
	pyDict   struct {
		keys   []any
		values []any
	}
)

func (u *unpickler) errorf(format string, args ...any) error {
	return fmt.Errorf("pickle at byte %d: %s", u.pos, fmt.Sprintf(format, args...))
}

// take returns the next n bytes.
func (u *unpickler) take(n int) ([]byte, error) {
	if n < 0 || n > len(u.data)-u.pos {
		return nil, u.errorf("%d bytes are wanted and %d are left", n, len(u.data)-u.pos)
	}
	b := u.data[u.pos:][:n:n]
	u.pos += n
	return b, nil
}

// count reads an unsigned number of size bytes.
func (u *unpickler) count(size int) (int, error) {
	b, err := u.take(size)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[:], b)
	n := binary.LittleEndian.Uint64(wide[:])
	if n > math.MaxInt {
		return 0, u.errorf("%d is too large", n)
	}
	return int(n), nil
}

// line reads up to a newline.
func (u *unpickler) line() (string, error) {
	i := slices.Index(u.data[u.pos:], '\n')
	if i < 0 {
		return "", u.errorf("a line does not end")
	}
	b, err := u.take(i + 1)
	return string(b[:i]), err
}

// text reads a string whose length has size bytes.
func (u *unpickler) text(size int) (string, error) {
	n, err := u.count(size)
	if err != nil {
		return "", err
	}
	b, err := u.take(n)
	return string(b), err
}

func (u *unpickler) push(v any) { u.stack = append(u.stack, v) }

// pop takes n values off the stack, above the last mark.
func (u *unpickler) pop(n int) ([]any, error) {
	floor := 0
	if len(u.marks) > 0 {
		floor = u.marks[len(u.marks)-1]
	}
	if n > len(u.stack)-floor {
		return nil, u.errorf("%d values are wanted from a stack of %d", n, len(u.stack)-floor)
	}
	out := slices.Clone(u.stack[len(u.stack)-n:])
	u.stack = u.stack[:len(u.stack)-n]
	return out, nil
}

// popMark takes everything above the last mark off the stack.
func (u *unpickler) popMark() ([]any, error) {
	if len(u.marks) == 0 {
		return nil, u.errorf("no mark is on the stack")
	}
	out, err := u.pop(len(u.stack) - u.marks[len(u.marks)-1])
	u.marks = u.marks[:len(u.marks)-1]
	return out, err
}

func (u *unpickler) top() (any, error) {
	v, err := u.pop(1)
	if err != nil {
		return nil, err
	}
	u.push(v[0])
	return v[0], nil
}

// run executes one pickle and returns its value. Afterwards pos is behind it.
func (u *unpickler) run() (any, error) {
	u.stack, u.marks, u.memo = nil, nil, map[int]any{}
	for {
		op, err := u.take(1)
		if err != nil {
			return nil, err
		}
		if op[0] == '.' {
			v, err := u.pop(1)
			if err != nil {
				return nil, err
			}
			return v[0], nil
		}
		if err := u.step(op[0]); err != nil {
			return nil, err
		}
	}
}

// step executes one opcode.
func (u *unpickler) step(op byte) error {
	switch op {
	case 0x80: // PROTO
		v, err := u.count(1)
		if err == nil && (v < 2 || v > 5) {
			err = u.errorf("protocol %d; known are 2 to 5", v)
		}
		return err
	case 0x95: // FRAME
		_, err := u.take(8)
		return err
	case '(':
		u.marks = append(u.marks, len(u.stack))
	case '0': // POP
		_, err := u.pop(1)
		return err
	case '1': // POP_MARK
		_, err := u.popMark()
		return err
	case '2': // DUP
		v, err := u.top()
		u.push(v)
		return err
	case 'N':
		u.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		u.push(op == 0x88)
	case 'K', 'M', 'J', 'G', 0x8a: // BININT1, BININT2, BININT, BINFLOAT, LONG1
		return u.number(op)
	case 'X', 0x8c, 0x8d, 'U', 'T', 'C', 'B': // BINUNICODE, SHORT_, 8; SHORT_BINSTRING, BINSTRING; SHORT_BINBYTES, BINBYTES
		s, err := u.text(map[byte]int{'X': 4, 0x8c: 1, 0x8d: 8, 'U': 1, 'T': 4, 'C': 1, 'B': 4}[op])
		u.push(s)
		return err
	case ')', 0x85, 0x86, 0x87, 't': // EMPTY_TUPLE, TUPLE1, TUPLE2, TUPLE3, TUPLE
		return u.tuple(op)
	case ']':
		u.push(&pyList{})
	case '}':
		u.push(&pyDict{})
	case 'a', 'e', 's', 'u': // APPEND, APPENDS, SETITEM, SETITEMS
		return u.fill(op)
	case 'q', 'r', 0x94, 'h', 'j': // BINPUT, LONG_BINPUT, MEMOIZE, BINGET, LONG_BINGET
		return u.remember(op)
	case 'c', 0x93: // GLOBAL, STACK_GLOBAL
		return u.global(op)
	case 'Q': // BINPERSID
		id, err := u.pop(1)
		if err != nil {
			return err
		}
		v, err := u.persistent(id[0])
		if err != nil {
			return u.errorf("%v", err)
		}
		u.push(v)
	case 'R': // REDUCE
		v, err := u.pop(2)
		if err != nil {
			return err
		}
		made, err := call(v[0], v[1])
		if err != nil {
			return u.errorf("%v", err)
		}
		u.push(made)
	case 'b': // BUILD: a state dictionary's attributes, irrelevant to its tensors
		v, err := u.pop(2)
		if err != nil {
			return err
		}
		if _, ok := v[0].(*pyDict); !ok {
			return u.errorf("%s is given attributes, which only a dictionary may have", describe(v[0]))
		}
		u.push(v[0])
	default:
		return u.errorf("operation %q is not one that tensors need", op)
	}
	return nil
}

func (u *unpickler) number(op byte) error {
	b, err := u.take(map[byte]int{'K': 1, 'M': 2, 'J': 4, 'G': 8, 0x8a: 1}[op])
	if err != nil {
		return err
	}
	switch op {
	case 'K':
		u.push(int64(b[0]))
	case 'M':
		u.push(int64(binary.LittleEndian.Uint16(b)))
	case 'J':
		u.push(int64(int32(binary.LittleEndian.Uint32(b))))
	case 'G':
		u.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	default:
		return u.long(int(b[0]))
	}
	return nil
}

// long reads a number in two's complement. A longer one than 64 bits is kept as its bytes: legacy files begin with one.
func (u *unpickler) long(size int) error {
	b, err := u.take(size)
	switch {
	case err != nil:
		return err
	case size > 8:
		u.push(string(b))
		return nil
	}
	var wide [8]byte
	if size > 0 && b[size-1] >= 0x80 {
		wide = [8]byte{255, 255, 255, 255, 255, 255, 255, 255}
	}
	copy(wide[:], b)
	u.push(int64(binary.LittleEndian.Uint64(wide[:])))
	return nil
}

func (u *unpickler) tuple(op byte) error {
	var items []any
	var err error
	if op == 't' {
		items, err = u.popMark()
	} else if op != ')' {
		items, err = u.pop(int(op-0x85) + 1)
	}
	u.push(pyTuple(items))
	return err
}

// fill puts values into the list or the dictionary below them.
func (u *unpickler) fill(op byte) error {
	var items []any
	var err error
	switch op {
	case 'a':
		items, err = u.pop(1)
	case 's':
		items, err = u.pop(2)
	default:
		items, err = u.popMark()
	}
	if err != nil {
		return err
	}
	to, err := u.top()
	if err != nil {
		return err
	}
	list, isList := to.(*pyList)
	dict, isDict := to.(*pyDict)
	switch {
	case isList && (op == 'a' || op == 'e'):
		list.items = append(list.items, items...)
	case isDict && (op == 's' || op == 'u') && len(items)%2 == 0:
		for i := 0; i < len(items); i += 2 {
			dict.keys, dict.values = append(dict.keys, items[i]), append(dict.values, items[i+1])
		}
	default:
		return u.errorf("%d values cannot be put into %s", len(items), describe(to))
	}
	return nil
}

// remember stores the top of the stack in the memo, or fetches from it.
func (u *unpickler) remember(op byte) error {
	at, err := len(u.memo), error(nil)
	if op != 0x94 {
		if at, err = u.count(map[byte]int{'q': 1, 'r': 4, 'h': 1, 'j': 4}[op]); err != nil {
			return err
		}
	}
	if op == 'h' || op == 'j' {
		v, ok := u.memo[at]
		if !ok {
			return u.errorf("nothing was remembered as %d", at)
		}
		u.push(v)
		return nil
	}
	u.memo[at], err = u.top()
	return err
}

// global takes a name, which must be known.
func (u *unpickler) global(op byte) error {
	var module, name string
	var err error
	if op == 'c' {
		if module, err = u.line(); err != nil {
			return err
		}
		if name, err = u.line(); err != nil {
			return err
		}
	} else {
		v, err := u.pop(2)
		if err != nil {
			return err
		}
		var ok, ok2 bool
		module, ok = v[0].(string)
		name, ok2 = v[1].(string)
		if !ok || !ok2 {
			return u.errorf("%s and %s are no name of a global", describe(v[0]), describe(v[1]))
		}
	}
	g := pyGlobal(module + "." + name)
	if !known(g) {
		return u.errorf("it asks for %.200q; a checkpoint of tensors needs no such thing, so it is refused", string(g))
	}
	u.push(g)
	return nil
}

// describe names a value, for errors.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case string:
		return fmt.Sprintf("the string %.80q", v)
	case pyTuple:
		return fmt.Sprintf("a tuple of %d", len(v))
	case *pyList:
		return fmt.Sprintf("a list of %d", len(v.items))
	case *pyDict:
		return fmt.Sprintf("a dictionary of %d", len(v.keys))
	case pyGlobal:
		return string(v)
	case *storage:
		return "a storage"
	case tensorRef:
		return "a tensor"
	}
	return fmt.Sprintf("%v", v)
}
