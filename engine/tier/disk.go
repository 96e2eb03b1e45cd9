package tier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/kvasir-llm/kvasir/kv"
)

// docs/format/kv-tier.md specifies these.
const (
	magic      = "KVASIRKV"
	version    = 1
	headerSize = 4096
	slotHeader = 64
	align      = 4096
	modelAt    = 36
	fileName   = "blocks.kvtier"
)

// pendingBytes bounds the copies of blocks that wait to be written.
const pendingBytes = 64 << 20

// Disk stores blocks in a file, which outlives it. Blocks are written by a goroutine of its own. Its methods are called
// by one goroutine at a time.
type Disk struct {
	file   *os.File
	unlock func()
	size   int // of a block
	stride int64
	names  []kv.Name // of what is in the slots, or will be once it is written

	jobs    chan job
	done    chan struct{}
	mu      sync.Mutex
	pending map[int32]*job // the last of those of a slot
	spare   [][]byte
	waiting int // buffers in use
	most    int
	failed  error     // of a write
	idle    sync.Cond // nothing waits
}

// job is a slot that is to be written.
type job struct {
	at  int32
	buf []byte // header and block
}

// OpenDisk opens or makes the file of a directory, for as many blocks of a size as fit into so many bytes. model says what
// the contents of blocks depend on beside their names: a file made for another is refused. So is one that another process
// has open.
func OpenDisk(dir string, bytes int64, size int, model string) (_ *Disk, err error) {
	stride := (int64(slotHeader+size) + align - 1) / align * align
	n := (bytes - headerSize) / stride
	if n < 1 || n > 1<<30 || len(model) > headerSize-modelAt {
		return nil, fmt.Errorf("tier: %s: a file of %d bytes; want enough for a block, which takes %d and the header %d", dir, bytes, stride, headerSize)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, fileName)
	unlock, err := lock(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("tier: %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	f, err := openFile(path, header(size, stride, model))
	if err != nil {
		return nil, err
	}
	d := &Disk{
		file: f, unlock: unlock, size: size, stride: stride, names: make([]kv.Name, n),
		done: make(chan struct{}), pending: map[int32]*job{}, most: max(8, pendingBytes/int(stride)),
	}
	if err := f.Truncate(headerSize + n*stride); err != nil {
		f.Close()
		return nil, err
	}
	d.idle.L = &d.mu
	d.scan()
	d.jobs = make(chan job, d.most)
	go d.write()
	return d, nil
}

// openFile opens a file that begins with a header, or makes it: under another name first, so that it never has half a
// header.
func openFile(path string, want []byte) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(path+".new", want, 0o644); err != nil {
			return nil, err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return nil, err
		}
		return os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, err
	}
	have := make([]byte, headerSize)
	if _, err = io.ReadFull(f, have); err == nil {
		err = compare(have, want)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("tier: %s: %w", path, err)
	}
	return f, nil
}

// header makes the first bytes of a file.
func header(size int, stride int64, model string) []byte {
	h := make([]byte, headerSize)
	copy(h, magic)
	binary.LittleEndian.PutUint32(h[8:], version)
	binary.LittleEndian.PutUint64(h[16:], uint64(size))
	binary.LittleEndian.PutUint64(h[24:], uint64(stride))
	binary.LittleEndian.PutUint32(h[32:], uint32(len(model)))
	copy(h[modelAt:], model)
	binary.LittleEndian.PutUint32(h[12:], crc32.Checksum(h[16:], castagnoli))
	return h
}

// compare says in what a file's header is not the wanted one.
func compare(have, want []byte) error {
	if string(have[:8]) != magic || binary.LittleEndian.Uint32(have[12:]) != crc32.Checksum(have[16:], castagnoli) {
		return errors.New("it is not a file of stored KV blocks, or its header is damaged; remove it, or choose another directory")
	}
	if v := binary.LittleEndian.Uint32(have[8:]); v != version {
		return fmt.Errorf("it has version %d of the format; want %d", v, version)
	}
	if a, b := modelOf(have), modelOf(want); a != b {
		return fmt.Errorf("it was made for %q; this is %q; choose a directory for each model, or remove the file", a, b)
	}
	if !bytes.Equal(have, want) {
		return fmt.Errorf("it has blocks of %d bytes; want %d", binary.LittleEndian.Uint64(have[16:]), binary.LittleEndian.Uint64(want[16:]))
	}
	return nil
}

func modelOf(h []byte) string {
	return string(h[modelAt:][:min(binary.LittleEndian.Uint32(h[32:]), headerSize-modelAt)])
}

// scan reads the names of the slots. Blocks are verified when they are read.
func (d *Disk) scan() {
	h := make([]byte, slotHeader)
	for at := range d.names {
		if _, err := d.file.ReadAt(h, d.offset(int32(at))); err == nil {
			d.names[at], _ = d.parse(h)
		}
	}
}

func (d *Disk) offset(at int32) int64 { return headerSize + int64(at)*d.stride }

// parse reads a slot's header; false if it holds nothing.
func (d *Disk) parse(h []byte) (n kv.Name, ok bool) {
	if binary.LittleEndian.Uint32(h[60:]) != crc32.Checksum(h[:60], castagnoli) || binary.LittleEndian.Uint64(h[40:]) != uint64(d.size) ||
		binary.LittleEndian.Uint16(h[32:]) > 127 {
		return n, false
	}
	copy(n.Hash[:], h)
	n.Group, n.Adapted = int8(binary.LittleEndian.Uint16(h[32:])), h[34]&1 != 0
	return n, true
}

// fill writes the header of a slot before its block.
func fill(buf []byte, n kv.Name) {
	h, block := buf[:slotHeader], buf[slotHeader:]
	clear(h)
	copy(h, n.Hash[:])
	binary.LittleEndian.PutUint16(h[32:], uint16(n.Group))
	if n.Adapted {
		h[34] = 1
	}
	binary.LittleEndian.PutUint32(h[36:], crc32.Checksum(block, castagnoli))
	binary.LittleEndian.PutUint64(h[40:], uint64(len(block)))
	binary.LittleEndian.PutUint32(h[60:], crc32.Checksum(h[:60], castagnoli))
}

// Slots returns how many blocks it can store.
func (d *Disk) Slots() int { return len(d.names) }

// Names returns what is in the slots; the zero Name is nothing.
func (d *Disk) Names() []kv.Name { return d.names }

// Put stores a block that the function given writes, once the disk comes to it. It returns false if too much waits already,
// or the disk fails: then the slot holds nothing.
func (d *Disk) Put(slot int32, name kv.Name, write func([]byte)) bool {
	buf := d.buffer()
	d.names[slot] = kv.Name{}
	if buf == nil {
		return false
	}
	write(buf[slotHeader:])
	fill(buf, name)
	d.names[slot] = name
	j := job{slot, buf}
	d.mu.Lock()
	d.pending[slot] = &j
	d.mu.Unlock()
	d.jobs <- j // there is room for as many as there are buffers
	return true
}

// buffer returns memory for a block that waits, or nil.
func (d *Disk) buffer() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == d.most || d.failed != nil {
		return nil
	}
	d.waiting++
	if n := len(d.spare); n > 0 {
		buf := d.spare[n-1]
		d.spare = d.spare[:n-1]
		return buf
	}
	return make([]byte, slotHeader+d.size)
}

// write writes what Put was given.
func (d *Disk) write() {
	defer close(d.done)
	for j := range d.jobs {
		_, err := d.file.WriteAt(j.buf, d.offset(j.at))
		d.mu.Lock()
		if err != nil {
			d.failed = err
		}
		if p := d.pending[j.at]; p != nil && &p.buf[0] == &j.buf[0] {
			delete(d.pending, j.at)
		}
		d.spare = append(d.spare, j.buf)
		if d.waiting--; d.waiting == 0 {
			d.idle.Broadcast()
		}
		d.mu.Unlock()
	}
}

// Get reads a stored block to dst, which has room for it.
func (d *Disk) Get(slot int32, name kv.Name, dst []byte) error {
	if d.names[slot] != name {
		return fmt.Errorf("tier: slot %d of %s holds %v; want %v", slot, d.file.Name(), d.names[slot], name)
	}
	d.mu.Lock()
	if p := d.pending[slot]; p != nil {
		copy(dst, p.buf[slotHeader:])
		d.mu.Unlock()
		return nil
	}
	d.mu.Unlock()
	var h [slotHeader]byte
	if _, err := d.file.ReadAt(h[:], d.offset(slot)); err != nil {
		return err
	}
	if _, err := d.file.ReadAt(dst[:d.size], d.offset(slot)+slotHeader); err != nil {
		return err
	}
	if n, ok := d.parse(h[:]); !ok || n != name {
		return fmt.Errorf("tier: slot %d of %s was to hold %v, and does not", slot, d.file.Name(), name)
	}
	if sum, want := crc32.Checksum(dst[:d.size], castagnoli), binary.LittleEndian.Uint32(h[36:]); sum != want {
		return fmt.Errorf("tier: block %v in slot %d of %s has the checksum %08x; it was stored with %08x", name, slot, d.file.Name(), sum, want)
	}
	return nil
}

// Sync waits until nothing waits to be written.
func (d *Disk) Sync() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.waiting > 0 {
		d.idle.Wait()
	}
}

// Err returns why nothing is stored any more, if a write has failed.
func (d *Disk) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Close writes what waits and closes the file.
func (d *Disk) Close() error {
	close(d.jobs)
	<-d.done
	err := errors.Join(d.failed, d.file.Close())
	d.unlock()
	return err
}
