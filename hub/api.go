package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	maxListing    = 64 << 20        // bytes of JSON the hub may answer
	tries         = 6               // of one request, without progress
	maxRetryAfter = 5 * time.Minute // a hub asking for more patience is an error
)

// remote is one file of a repository at a commit.
type remote struct {
	path string
	etag string // 64 hex digits: SHA-256 of the contents; 40: git's SHA-1 of the blob
	size int64  // -1 if unknown
}

// listing is a repository at a commit.
type listing struct {
	commit string
	files  []remote
}

func (l listing) names() []string {
	var names []string
	for _, f := range l.files {
		names = append(names, f.path)
	}
	return names
}

var etagRE = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// list asks what the repository holds. Every file name is checked here: none leads out of the snapshot folder.
func (c *Client) list(ctx context.Context, n Name, report func(Event)) (listing, error) {
	address := c.Endpoint + "/api/models/" + n.Repo + "/revision/" + url.PathEscape(n.revision()) + "?blobs=true"
	var doc struct {
		Sha      string `json:"sha"`
		Siblings []struct {
			Name   string `json:"rfilename"`
			BlobID string `json:"blobId"`
			Size   *int64 `json:"size"`
			LFS    *struct {
				Sha256 string `json:"sha256"`
				Size   int64  `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	err := c.retry(ctx, report, Event{}, func() (bool, error) {
		body, err := c.get(ctx, n, address)
		if err != nil {
			return false, err
		}
		if err := json.Unmarshal(body, &doc); err != nil {
			return false, fmt.Errorf("%w: %s/api/models: %v", errBadReply, c.Endpoint, err)
		}
		return false, nil
	})
	if err != nil {
		return listing{}, err
	}
	if !commitRE.MatchString(doc.Sha) {
		return listing{}, fmt.Errorf("%w: commit %q is not 40 hex digits", errBadReply, doc.Sha)
	}
	l := listing{commit: doc.Sha}
	for _, s := range doc.Siblings {
		if !safePath(s.Name) {
			return listing{}, fmt.Errorf("file name %q leads out of the model's folder: refused", s.Name)
		}
		f := remote{path: s.Name, etag: s.BlobID, size: -1}
		if s.Size != nil {
			f.size = *s.Size
		}
		if s.LFS != nil && s.LFS.Sha256 != "" {
			f.etag, f.size = s.LFS.Sha256, s.LFS.Size
		}
		l.files = append(l.files, f)
	}
	return l, nil
}

// safePath accepts slash-separated relative paths without ".", "..", backslash, colon or control characters.
func safePath(p string) bool {
	if !filepath.IsLocal(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == '\\' || r == ':' }) {
		return false
	}
	for _, part := range strings.Split(p, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// head completes a file's etag and size where the listing lacks them.
func (c *Client) head(ctx context.Context, n Name, commit string, f *remote, report func(Event)) error {
	if etagRE.MatchString(f.etag) {
		return nil
	}
	return c.retry(ctx, report, Event{File: f.path}, func() (bool, error) {
		resp, err := c.send(ctx, n, http.MethodHead, c.resolveURL(n, commit, f.path), f.path, nil)
		if err != nil {
			return false, err
		}
		resp.Body.Close()
		etag, size := linked(resp)
		if !etagRE.MatchString(etag) {
			return false, fmt.Errorf("%w: %s: etag %q is neither a SHA-256 nor a git SHA-1: it could not be verified",
				errBadReply, f.path, etag)
		}
		f.etag, f.size = etag, size
		return false, nil
	})
}

// linked reads the etag and size (-1: unknown) that the hub itself gave, before it redirected.
func linked(resp *http.Response) (etag string, size int64) {
	size = resp.ContentLength
	etag = resp.Header.Get("ETag")
	for r := resp; r != nil; r = r.Request.Response {
		if e := r.Header.Get("X-Linked-Etag"); e != "" {
			etag = e
		}
		if s, err := strconv.ParseInt(r.Header.Get("X-Linked-Size"), 10, 64); err == nil && s >= 0 {
			size = s
		}
	}
	return strings.Trim(strings.TrimPrefix(etag, "W/"), `"`), size
}

func (c *Client) resolveURL(n Name, commit, file string) string {
	parts := strings.Split(file, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return c.Endpoint + "/" + n.Repo + "/resolve/" + commit + "/" + strings.Join(parts, "/")
}

// get reads a whole small answer.
func (c *Client) get(ctx context.Context, n Name, address string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(c.idle(), cancel)
	defer idle.Stop()
	resp, err := c.send(ctx, n, http.MethodGet, address, "", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxListing+1))
	if err != nil {
		return nil, temporary{netError(err), 0}
	}
	if len(body) > maxListing {
		return nil, fmt.Errorf("%w: a listing of more than %d bytes", errBadReply, maxListing)
	}
	return body, nil
}

func (c *Client) idle() time.Duration {
	if c.IdleTimeout > 0 {
		return c.IdleTimeout
	}
	return time.Minute
}

// send makes one request and turns every status other than 200, 206 and 416 into an error.
func (c *Client) send(ctx context.Context, n Name, method, address, file string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", "kvasir")
	if c.UserAgent != "" {
		req.Header.Set("User-Agent", c.UserAgent)
	}
	req.Header.Set("Accept-Encoding", "identity")
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := c.client().Do(req)
	if err != nil {
		return nil, temporary{netError(err), 0}
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.statusError(n, file, req.URL.Host, resp)
}

// statusError words a refusal. An elsewhere-hosted copy refusing is passing: its address was signed for a while only.
func (c *Client) statusError(n Name, file, asked string, resp *http.Response) error {
	said := resp.Header.Get("X-Error-Message")
	if len(said) > 300 {
		said = said[:300]
	}
	if said != "" {
		said = ": " + strconv.Quote(said)
	}
	status := fmt.Errorf("%s answered %s%s", resp.Request.URL.Host, resp.Status, said)
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout ||
		resp.StatusCode >= 500 || resp.Request.URL.Host != asked {
		after := retryAfter(resp.Header.Get("Retry-After"))
		if after > maxRetryAfter {
			return fmt.Errorf("%w and asks to wait %s", status, after)
		}
		return temporary{status, after}
	}
	page := c.Endpoint + "/" + n.Repo
	code := resp.Header.Get("X-Error-Code")
	switch {
	case code == "RevisionNotFound":
		return fmt.Errorf("%w: the repository has no revision %q (%v)", ErrNotFound, n.revision(), status)
	case code == "EntryNotFound":
		return fmt.Errorf("%w: the repository has no file %q at %s (%v)", ErrNotFound, file, n.revision(), status)
	case code == "RepoNotFound" && c.Token != "", resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: no repository at %s, or it is private (%v)", ErrNotFound, page, status)
	case resp.StatusCode == 401 || resp.StatusCode == 403:
		what := "the repository is private, gated or does not exist"
		if code == "GatedRepo" {
			what = "the repository is gated"
		}
		advice := "accept its terms at " + page + " and set HF_TOKEN to a token that may read it"
		if c.Token != "" {
			advice = "the token given may not read it: accept its terms at " + page + " or set another HF_TOKEN"
		}
		return fmt.Errorf("%w: %s; %s (%v)", ErrDenied, what, advice, status)
	}
	return fmt.Errorf("%w: %v", errBadReply, status)
}

// temporary is an error worth another try, after a while the server may have named.
type temporary struct {
	error
	after time.Duration
}

func (t temporary) Unwrap() error { return t.error }

func retryAfter(s string) time.Duration {
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		return time.Duration(min(n, 1<<30)) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}

// retry runs try until it succeeds, fails for good, or fails `tries` times in a row without progress. Between, it
// waits as long as the server asked, or 0.5 s doubled each time up to 30 s, of which half is random.
func (c *Client) retry(ctx context.Context, report func(Event), e Event, try func() (progress bool, err error)) error {
	for failed := 0; ; {
		progress, err := try()
		var again temporary
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.As(err, &again):
			return err
		}
		if progress {
			failed = 0
		}
		if failed++; failed >= tries {
			return fmt.Errorf("gave up after %d tries: %w", failed, again.error)
		}
		e.State, e.Reason, e.Total = Retrying, again.error, -1
		report(e)
		full := min(500*time.Millisecond<<(failed-1), 30*time.Second)
		pause := max(again.after, full/2+rand.N(full/2))
		if err := c.wait(ctx, pause); err != nil {
			return err
		}
	}
}
