package server

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Memory that unpacking a body takes, which is held with the body's bytes.
const (
	gzipBytes = 64 << 10
	zstdBytes = 256 << 10 // beside its window
	maxWindow = 8 << 20   // of zstd, the most that HTTP allows (RFC 9659)
)

// packings are the encodings of bodies that are unpacked, as answers to others say them.
const packings = "gzip, zstd"

// open makes in the body of r, unpacked and of at most most bytes, packed or not.
func (in *body) open(w http.ResponseWriter, r *http.Request, most int64) error {
	if r.ContentLength > most { // before the client is told to send it (Expect: 100-continue)
		return &http.MaxBytesError{Limit: most}
	}
	in.ReadCloser = http.MaxBytesReader(w, r.Body, most)
	p := &unpacker{packed: bufio.NewReaderSize(in.ReadCloser, 1<<10), Closer: in.ReadCloser}
	switch kind := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ","))); kind {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		p.start = func() (io.Reader, error) {
			if err := in.hold(gzipBytes); err != nil {
				return nil, err
			}
			return gzip.NewReader(p.packed)
		}
	case "zstd":
		p.start = func() (io.Reader, error) { return in.zstd(p.packed) }
	default:
		w.Header().Set("Accept-Encoding", packings)
		return refuse(http.StatusUnsupportedMediaType, "", "unsupported_encoding",
			"The request body has the encoding %q; this server takes %s, and bodies without one.", kind, packings)
	}
	in.ReadCloser = http.MaxBytesReader(w, p, most)
	return nil
}

// zstd returns what unpacks a body, with as much memory as its first frame says. No later frame may need more.
func (in *body) zstd(packed *bufio.Reader) (io.Reader, error) {
	begin, err := packed.Peek(zstd.HeaderMaxSize)
	if err != nil && err != io.EOF {
		return nil, err
	}
	var h zstd.Header
	if err := h.Decode(begin); err != nil {
		return nil, err
	}
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	if window = max(window, zstd.MinWindowSize); window > maxWindow {
		return nil, errors.New("zstd: the window is larger than 8 MiB")
	}
	if err := in.hold(int64(window) + zstdBytes); err != nil {
		return nil, err
	}
	d, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, err
	}
	in.closed = d.Close
	return d, nil
}

// unpacker reads what a body is when it is unpacked. It starts with the first Read, which waits for the client.
type unpacker struct {
	io.Closer
	packed *bufio.Reader
	start  func() (io.Reader, error)
	plain  io.Reader
	err    error // of start
}

func (u *unpacker) Read(p []byte) (int, error) {
	if u.plain == nil && u.err == nil {
		u.plain, u.err = u.start()
	}
	if u.err != nil {
		return 0, u.err
	}
	return u.plain.Read(p)
}
