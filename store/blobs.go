package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Blobs are files in a folder whose names are the SHA-256 of what they hold. Its methods may be called from several
// goroutines.
type Blobs struct {
	dir   string
	limit int64
	space func(dir string) (free int64, err error)

	mu   sync.Mutex
	held int64 // bytes of all, with those that are being written
}

// ErrDigest is returned for a blob whose bytes are not those that its digest names.
var ErrDigest = errors.New("store: the digest is that of other bytes")

// digests are written with a colon by clients, and with a dash in the names of files.
var digests = regexp.MustCompile(`^sha256[:-]([0-9a-f]{64})$`)

// unfinished begins the names of blobs that are being written.
const unfinished = ".coming-"

// OpenBlobs opens a folder for blobs of limit bytes together. It is made if it does not exist, and only its owner may
// read it. What a process before left unfinished is removed.
func OpenBlobs(dir string, limit int64) (*Blobs, error) {
	b := &Blobs{dir: dir, limit: limit, space: space}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), unfinished) {
			os.Remove(filepath.Join(dir, f.Name())) // else it takes place, and no more
		} else if info, err := f.Info(); err == nil && info.Mode().IsRegular() {
			b.held += info.Size()
		}
	}
	return b, nil
}

// Path returns the file of a blob. The error is ErrNotFound if there is none, or if the digest is no SHA-256.
func (b *Blobs) Path(digest string) (string, error) {
	m := digests.FindStringSubmatch(digest)
	if m == nil {
		return "", ErrNotFound
	}
	path := filepath.Join(b.dir, "sha256-"+m[1])
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", ErrNotFound
	} else if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	return path, nil
}

// Put writes a blob, and is done when it is on the disk. Its own errors are ErrDigest and ErrFull. Nothing is left of a
// blob that failed.
func (b *Blobs) Put(digest string, from io.Reader) (err error) {
	m := digests.FindStringSubmatch(digest)
	if m == nil {
		return ErrDigest
	}
	f, err := os.CreateTemp(b.dir, unfinished)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	w := &blobWriter{of: b, to: f}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
			b.take(-w.n)
		}
	}()
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(w, sum), from)
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != m[1] {
		err = ErrDigest
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	path := filepath.Join(b.dir, "sha256-"+m[1])
	if _, err := os.Stat(path); err == nil { // another upload was faster
		b.take(-w.n)
	}
	return os.Rename(f.Name(), path)
}

// take counts bytes. It returns ErrFull, and counts none, if there is no place for them.
func (b *Blobs) take(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > 0 {
		free, err := b.space(b.dir)
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		if b.held+n > b.limit || free < n+reserve {
			return fmt.Errorf("%w: %d bytes", ErrFull, b.limit)
		}
	}
	b.held += n
	return nil
}

// Remove takes a blob away, by the path that Path returned.
func (b *Blobs) Remove(path string) error {
	info, err := os.Stat(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return b.take(-info.Size())
}

// blobWriter writes to a file while there is place.
type blobWriter struct {
	of *Blobs
	to *os.File
	n  int64
}

func (w *blobWriter) Write(p []byte) (int, error) {
	if err := w.of.take(int64(len(p))); err != nil {
		return 0, err
	}
	w.n += int64(len(p))
	return w.to.Write(p)
}
