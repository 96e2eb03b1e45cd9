package tier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
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
	aside      = ".aside" // ends the name of a file that was of no use
)

// pendingBytes bounds the copies of blocks that wait to be written.
const pendingBytes = 64 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func init() {
	Register(Kind{Name: "disk", Slow: true, Durable: true, Open: func(o Options) (Tier, error) {
		return openDisk(o.Where, o.Bytes, newForm(o.Block, o.Layouts), o.Model, o.Log)
	}})
}

// disk stores blocks in a file, which outlives it. A goroutine of its own writes blocks, another one reads them.
type disk struct {
	reader *reader

	path   string
	header []byte
	file   blockFile // nil while it cannot be opened, which a write tries again; then it stays
	unlock func()    // once there is a file
	form   form
	stride int64
	names  []kv.Name // of what is in the slots, or will be once it is written; written with mu held

	jobs    chan job
	done    chan struct{}
	mu      sync.Mutex
	pending map[int32]*job // the last of those of a slot
	spare   [][]byte
	waiting int // buffers in use
	most    int
	failed  error     // of the last write
	again   time.Time // when to try again after it
	errors  uint64    // writes that failed
	idle    sync.Cond // nothing waits
	log     *slog.Logger
}

// blockFile is what is asked of the file.
type blockFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// retryAfter is how long nothing is written after a write has failed, as on a full disk.
const retryAfter = 30 * time.Second

// job is a slot that is to be written.
type job struct {
	at   int32
	name kv.Name
	buf  []byte // the block, packed
}

// openDisk opens or makes the file of a directory, for as many blocks of a form as fit into so many bytes. model says
// what the contents of blocks depend on beside their names: a file made for another, or whose header is damaged, is
// renamed, and log is told. A file that another process has open is refused. If there can be no file, as on a full
// disk, in a directory that cannot be written, or where a symbolic link is in its place, log is told, and it is tried
// again as after a write that failed. Only the process's user can read the file and a directory that is made.
func openDisk(dir string, bytes int64, form form, model string, log *slog.Logger) (*disk, error) {
	stride := (int64(slotHeader+form.most) + align - 1) / align * align
	n := (bytes - headerSize) / stride
	if n < 1 || n > 1<<30 || len(model) > headerSize-modelAt {
		return nil, fmt.Errorf("tier: %s: a file of %d bytes; want enough for a block, which takes %d and the header %d", dir, bytes, stride, headerSize)
	}
	d := &disk{
		path: filepath.Join(dir, fileName), header: header(magic, form.most, stride, model), form: form, stride: stride, names: make([]kv.Name, n),
		done: make(chan struct{}), pending: map[int32]*job{}, most: max(8, pendingBytes/int(stride)), log: log,
	}
	d.idle.L = &d.mu
	switch err := d.open(); {
	case errors.Is(err, errInUse):
		return nil, err
	case err != nil:
		d.note(err)
	default:
		d.scan()
	}
	d.jobs = make(chan job, d.most)
	guard.Go(d.write, d.ended)
	d.reader = newReader(d.read, log)
	return d, nil
}

// open opens the file, or makes it.
func (d *disk) open() (err error) {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return err
	}
	unlock, err := lock(d.path + ".lock")
	if err != nil {
		return fmt.Errorf("tier: %s: %w", d.path, err)
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	f, err := openFile(d.path, d.header, d.log)
	if err != nil {
		return err
	}
	if err := f.Truncate(headerSize + int64(len(d.names))*d.stride); err != nil {
		f.Close()
		return err
	}
	d.file, d.unlock = f, unlock
	return nil
}

// errInUse refuses a file that another process has open.
var errInUse = errors.New("it is in use by another model or process")

// openFile opens a file that begins with a header, or makes it. A file with the header of another is renamed first.
func openFile(path string, want []byte, log *slog.Logger) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|noFollow, 0)
	if errors.Is(err, os.ErrNotExist) {
		return makeFile(path, want)
	}
	if err != nil {
		return nil, err
	}
	have, reason := make([]byte, headerSize), ""
	if _, err := io.ReadFull(f, have); err != nil || !intact(magic, have) {
		reason = "it is not a file of stored KV blocks, or its header is damaged"
	} else if reason = difference(have, want); reason == "" {
		return f, f.Chmod(0o600)
	}
	if err := errors.Join(f.Close(), os.Rename(path, path+aside)); err != nil {
		return nil, err
	}
	log.Warn("a file of KV blocks is of no use here, and was renamed", "file", path, "to", path+aside, "reason", reason)
	return makeFile(path, want)
}

// makeFile makes a file of a header: under another name first, so that it never has half of one.
func makeFile(path string, header []byte) (*os.File, error) {
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, os.ErrNotExist) { // of a process that was killed
		return nil, err
	}
	f, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(header); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("tier: %w", err)
	}
	return os.OpenFile(path, os.O_RDWR|noFollow, 0)
}

// header makes the first bytes of a file, or of a stream.
func header(magic string, size int, stride int64, model string) []byte {
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

// intact reports whether a header is one.
func intact(magic string, h []byte) bool {
	return string(h[:8]) == magic && binary.LittleEndian.Uint32(h[12:]) == crc32.Checksum(h[16:], castagnoli)
}

// difference says in what a file's header is not the wanted one; "" if it is.
func difference(have, want []byte) string {
	if v := binary.LittleEndian.Uint32(have[8:]); v != version {
		return fmt.Sprintf("it has version %d of the format, not %d", v, version)
	}
	if a, b := modelOf(have), modelOf(want); a != b {
		return fmt.Sprintf("it was made for %q, this is %q", a, b)
	}
	if !bytes.Equal(have, want) {
		a, b := binary.LittleEndian.Uint64(have[16:]), binary.LittleEndian.Uint64(want[16:])
		return fmt.Sprintf("it has blocks of %d bytes, not %d", a, b)
	}
	return ""
}

func modelOf(h []byte) string {
	return string(h[modelAt:][:min(binary.LittleEndian.Uint32(h[32:]), headerSize-modelAt)])
}

// scan reads the names of the slots. Blocks are verified when they are read.
func (d *disk) scan() {
	h := make([]byte, slotHeader)
	for at := range d.names {
		if _, err := d.file.ReadAt(h, d.offset(int32(at))); err != nil {
			continue
		}
		if name, ok := d.form.parse(h); ok {
			d.names[at] = name
		}
	}
}

func (d *disk) offset(at int32) int64 { return headerSize + int64(at)*d.stride }

// parse reads a slot's header; false if it holds nothing.
func (f *form) parse(h []byte) (n kv.Name, ok bool) {
	if binary.LittleEndian.Uint32(h[60:]) != crc32.Checksum(h[:60], castagnoli) || binary.LittleEndian.Uint16(h[32:]) > 127 {
		return n, false
	}
	copy(n.Hash[:], h)
	n.Group = int8(binary.LittleEndian.Uint16(h[32:]))
	return n, binary.LittleEndian.Uint64(h[40:]) == uint64(f.bytes(n.Group))
}

// fill writes the header of a slot before its block.
func fill(buf []byte, n kv.Name) {
	h, block := buf[:slotHeader], buf[slotHeader:]
	clear(h)
	copy(h, n.Hash[:])
	binary.LittleEndian.PutUint16(h[32:], uint16(n.Group))
	binary.LittleEndian.PutUint32(h[36:], crc32.Checksum(block, castagnoli))
	binary.LittleEndian.PutUint64(h[40:], uint64(len(block)))
	binary.LittleEndian.PutUint32(h[60:], crc32.Checksum(h[:60], castagnoli))
}

// Slots implements Tier.
func (d *disk) Slots() int { return len(d.names) }

// Names implements Tier.
func (d *disk) Names() []kv.Name { return d.names }

// Put implements Tier. It does not take a block if too much waits to be written already, or the disk fails.
func (d *disk) Put(slot int32, name kv.Name, data []byte) bool {
	buf := d.buffer(slot)
	if buf == nil {
		return false
	}
	copy(buf, data)
	j := job{slot, name, buf}
	d.mu.Lock()
	d.names[slot] = name
	d.pending[slot] = &j
	d.mu.Unlock()
	d.jobs <- j // there is room for as many as there are buffers
	return true
}

// buffer empties a slot and returns memory for the block that waits to be written there, or nil.
func (d *disk) buffer(slot int32) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[slot] = kv.Name{}
	if d.waiting == d.most || d.failed != nil && time.Now().Before(d.again) {
		return nil
	}
	d.waiting++
	if n := len(d.spare); n > 0 {
		buf := d.spare[n-1]
		d.spare = d.spare[:n-1]
		return buf
	}
	return make([]byte, d.form.packed)
}

// write writes what Put was given.
func (d *disk) write() error {
	slot := make([]byte, slotHeader+d.form.most)
	for j := range d.jobs {
		d.written(j, guard.Try(func() error {
			if d.file == nil {
				if err := d.open(); err != nil {
					return err
				}
			}
			buf := slot[:slotHeader+d.form.bytes(j.name.Group)]
			if err := d.form.store(buf[slotHeader:], j.buf, j.name.Group); err != nil {
				return err
			}
			fill(buf, j.name)
			_, err := d.file.WriteAt(buf, d.offset(j.at))
			return err
		}))
	}
	return nil
}

// written takes note of how a job ended.
func (d *disk) written(j job, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.pending[j.at]; p != nil && &p.buf[0] == &j.buf[0] {
		delete(d.pending, j.at)
		if err != nil {
			d.names[j.at] = kv.Name{}
		}
	}
	d.spare = append(d.spare, j.buf)
	if d.waiting--; d.waiting == 0 {
		d.idle.Broadcast()
	}
	d.note(err)
}

// ended goes on with the next job after one whose end could not be noted because of a panic.
func (d *disk) ended(err error) {
	if err != nil {
		d.log.Error("storing KV blocks panicked", "file", d.path, "error", err)
		guard.Go(d.write, d.ended)
		return
	}
	close(d.done)
}

// note takes note of how a write ended, and tells the log when that changes. The caller holds mu.
func (d *disk) note(err error) {
	switch {
	case err != nil:
		if d.failed == nil {
			d.log.Error("KV blocks cannot be stored", "file", d.path, "error", err, "tried again every", retryAfter)
		}
		d.errors++
		d.again = time.Now().Add(retryAfter)
	case d.failed != nil:
		d.log.Info("KV blocks are stored again", "file", d.path)
	}
	d.failed = err
}

// Errors returns how many writes have failed.
func (d *disk) Errors() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.errors
}

// Get implements Tier. A block that is not written yet is a Hit.
func (d *disk) Get(slot int32, name kv.Name, dst []byte, done func(time.Duration, error)) (Answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if held := d.names[slot]; held != name {
		return Miss, fmt.Errorf("tier: slot %d of %s holds %v; want %v", slot, d.path, held, name)
	}
	if p := d.pending[slot]; p != nil {
		copy(dst, p.buf)
		return Hit, nil
	}
	d.reader.add(read{slot, name, dst, done})
	return Pending, nil
}

// read reads a stored block to dst, packed.
func (d *disk) read(slot int32, name kv.Name, dst []byte) error {
	var h [slotHeader]byte
	if _, err := d.file.ReadAt(h[:], d.offset(slot)); err != nil {
		return err
	}
	if n, ok := d.form.parse(h[:]); !ok || n != name {
		return fmt.Errorf("tier: slot %d of %s was to hold %v, and does not", slot, d.path, name)
	}
	sum, err := d.form.read(dst[:d.form.packed], name.Group, d.file, d.offset(slot)+slotHeader)
	if err != nil {
		return err
	}
	if want := binary.LittleEndian.Uint32(h[36:]); sum != want {
		return fmt.Errorf("tier: block %v in slot %d of %s has the checksum %08x; it was stored with %08x", name, slot, d.path, sum, want)
	}
	return nil
}

// Sync implements Tier.
func (d *disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.waiting > 0 {
		d.idle.Wait()
	}
	return d.failed
}

// Close implements Tier: it writes what waits and closes the file.
func (d *disk) Close() error {
	d.reader.close()
	close(d.jobs)
	<-d.done
	err := d.failed
	if d.file != nil {
		err = errors.Join(err, d.file.Close())
		d.unlock()
	}
	return err
}
