package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const maxListing = 64 << 20 // bytes of JSON the hub may answer

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

// list lists the repository's files. It checks every file name: none leads out of the snapshot folder.
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
				Size   *int64 `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	err := retry(ctx, report, Event{}, func() (bool, error) {
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
		if s.LFS != nil && s.LFS.Sha256 != "" {
			f.etag, s.Size = s.LFS.Sha256, s.LFS.Size
		}
		if s.Size != nil && *s.Size >= 0 {
			f.size = *s.Size
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

// head completes a file's etag and size if the listing lacks them; a size may stay unknown.
func (c *Client) head(ctx context.Context, n Name, commit string, f *remote, report func(Event)) error {
	if etagRE.MatchString(f.etag) && f.size >= 0 {
		return nil
	}
	return retry(ctx, report, Event{File: f.path}, func() (bool, error) {
		resp, err := c.send(ctx, n, http.MethodHead, c.resolveURL(n, commit, f.path), f.path, nil)
		if err != nil {
			return false, err
		}
		resp.Body.Close()
		etag, size := linked(resp)
		if !etagRE.MatchString(f.etag) {
			f.etag = etag
		}
		if !etagRE.MatchString(f.etag) {
			return false, fmt.Errorf("%w: etag %q is neither a SHA-256 nor a git SHA-1: the file could not be verified",
				errBadReply, etag)
		}
		if f.size < 0 {
			f.size = size
		}
		return false, nil
	})
}

// linked reads the etag and size (-1: unknown) that the hub itself gave before it redirected.
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
