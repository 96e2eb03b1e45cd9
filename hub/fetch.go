package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// fetch downloads one blob to the given path and verifies it. Received bytes are in path.incomplete, which survives an
// interruption and is resumed later. The caller holds the blob's lock.
func (c *Client) fetch(ctx context.Context, n Name, commit string, f remote, path string, report func(Event)) error {
	for second := false; ; second = true {
		if err := c.download(ctx, n, commit, f, path+".incomplete", report); err != nil {
			return err
		}
		report(Event{State: Verifying, File: f.path, Done: length(path + ".incomplete"), Total: f.size})
		actual, err := sum(ctx, path+".incomplete", f.etag)
		if err != nil {
			return err
		}
		if actual == f.etag {
			return os.Rename(path+".incomplete", path)
		}
		if err := os.Remove(path + ".incomplete"); err != nil {
			return err
		}
		wrong := fmt.Errorf("%w: expected %s, found %s", ErrChecksum, f.etag, actual)
		if second {
			return wrong
		}
		report(Event{State: Retrying, File: f.path, Total: f.size, Reason: wrong})
	}
}

// sum computes the checksum of the kind that an etag of this length is.
func sum(ctx context.Context, path, etag string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	var h hash.Hash = sha256.New()
	if len(etag) == 40 {
		fi, err := in.Stat()
		if err != nil {
			return "", err
		}
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", fi.Size())
	}
	if _, err := io.CopyBuffer(h, ctxReader{ctx, in}, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

type ctxReader struct {
	ctx context.Context
	io.Reader
}

func (r ctxReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// transfer is the download of one blob to a file.
type transfer struct {
	c      *Client
	n      Name
	url    string
	f      remote
	out    *os.File
	offset int64  // bytes in out that count
	best   int64  // the most that offset has been
	etag   string // of the body that out holds the beginning of, as its server names it; empty if unknown
	report func(Event)
}

func (c *Client) download(ctx context.Context, n Name, commit string, f remote, path string, report func(Event)) error {
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer out.Close()
	t := &transfer{c: c, n: n, url: c.resolveURL(n, commit, f.path), f: f, out: out, report: report}
	if t.offset, err = out.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if f.size >= 0 && t.offset > f.size {
		if err := t.restart(); err != nil {
			return err
		}
	}
	t.best = t.offset
	err = retry(ctx, report, Event{File: f.path}, func() (bool, error) {
		before := t.best
		err := t.try(ctx)
		t.best = max(t.best, t.offset)
		return t.best > before, err
	})
	if err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	return out.Close()
}

func (t *transfer) restart() error {
	t.offset, t.etag = 0, ""
	if err := t.out.Truncate(0); err != nil {
		return err
	}
	_, err := t.out.Seek(0, io.SeekStart)
	return err
}

// try makes one request for the missing bytes and writes the response.
func (t *transfer) try(ctx context.Context) error {
	if t.offset == t.f.size {
		return nil
	}
	header := http.Header{}
	if t.offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", t.offset))
		if t.etag != "" {
			header.Set("If-Range", t.etag)
		}
	}
	resp, err := t.c.send(ctx, t.n, http.MethodGet, t.url, t.f.path, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := t.accept(resp); err != nil {
		return err
	}
	if t.offset > 0 {
		t.report(Event{State: Resuming, File: t.f.path, Done: t.offset, Total: t.f.size})
	}
	buf := make([]byte, 256<<10)
	for {
		got, err := resp.Body.Read(buf)
		if t.f.size >= 0 && t.offset+int64(got) > t.f.size {
			return fmt.Errorf("%w: more than %d bytes came", errTooLong, t.f.size)
		}
		if got > 0 {
			if _, werr := t.out.Write(buf[:got]); werr != nil {
				return werr
			}
			t.offset += int64(got)
			t.report(Event{State: Downloading, File: t.f.path, Done: t.offset, Total: t.f.size})
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return temporary{fmt.Errorf("cut after %d bytes: %w", t.offset, netError(err)), 0}
		}
	}
	if t.f.size >= 0 && t.offset < t.f.size {
		return temporary{fmt.Errorf("cut after %d of %d bytes", t.offset, t.f.size), 0}
	}
	return nil
}

// accept checks that the response continues the bytes on disk, or restarts the download.
func (t *transfer) accept(resp *http.Response) error {
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return fmt.Errorf("%w: body in Content-Encoding %q, not asked for", errBadReply, enc)
	}
	if said, _ := linked(resp); etagRE.MatchString(said) && len(said) == len(t.f.etag) && said != t.f.etag && !moved(resp) {
		return fmt.Errorf("%w: the file changed on the server: its etag was %s and is %s", ErrChecksum, t.f.etag, said)
	}
	etag := resp.Header.Get("ETag")
	if strings.HasPrefix(etag, "W/") {
		etag = ""
	}
	again := func(why string) error {
		if err := t.restart(); err != nil {
			return err
		}
		return temporary{fmt.Errorf("%w: %s", errRestart, why), 0}
	}
	switch resp.StatusCode {
	case http.StatusRequestedRangeNotSatisfiable:
		if t.offset == 0 {
			return fmt.Errorf("%w: 416 to a request without a range", errBadReply)
		}
		return again("the server cannot continue at byte " + strconv.FormatInt(t.offset, 10))
	case http.StatusPartialContent:
		start, total, err := contentRange(resp.Header.Get("Content-Range"))
		if err != nil || start != t.offset {
			return again(fmt.Sprintf("asked for byte %d, got Content-Range %q", t.offset, resp.Header.Get("Content-Range")))
		}
		if t.etag != "" && etag != "" && etag != t.etag {
			return again("the file changed on the server")
		}
		if total >= 0 && t.f.size >= 0 && total != t.f.size {
			return fmt.Errorf("%w: %d bytes in the listing, %d on the server", errBadReply, t.f.size, total)
		}
	default:
		if t.offset > 0 {
			if err := t.restart(); err != nil {
				return err
			}
		}
		if resp.ContentLength >= 0 && t.f.size >= 0 && resp.ContentLength != t.f.size {
			return fmt.Errorf("%w: %d bytes in the listing, %d on the server", errBadReply, t.f.size, resp.ContentLength)
		}
	}
	t.etag = etag
	return nil
}

// moved reports that the body comes from a redirect and no hop gave the hub's own etag.
func moved(resp *http.Response) bool {
	if resp.Request.Response == nil {
		return false
	}
	for r := resp; r != nil; r = r.Request.Response {
		if r.Header.Get("X-Linked-Etag") != "" {
			return false
		}
	}
	return true
}

// contentRange reads "bytes 5-9/10" or "bytes 5-9/*"; a total of -1 is unknown.
func contentRange(s string) (start, total int64, err error) {
	span, ok := strings.CutPrefix(s, "bytes ")
	span, all, ok2 := strings.Cut(span, "/")
	first, _, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, errors.New("malformed Content-Range")
	}
	if start, err = strconv.ParseInt(first, 10, 64); err != nil {
		return 0, 0, err
	}
	total = -1
	if all != "*" {
		total, err = strconv.ParseInt(all, 10, 64)
	}
	return start, total, err
}
