// Package hub fetches models by name from a Hugging Face-compatible hub into the local cache, and finds, lists and
// removes cached models. The cache has the layout of the hub's own Python client, so both share one copy. The package
// knows nothing of tensors, tokenizers or terminals: it moves verified files and reports progress. Read Client first.
package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The kinds of errors of this package, for errors.Is.
var (
	ErrNotFound = errors.New("not found")             // the hub has no such repository, revision, file or tag
	ErrDenied   = errors.New("access denied")         // the hub requires a token, or refuses the one it got
	ErrOffline  = errors.New("offline")               // Client.Offline is set but the network is needed
	ErrChecksum = errors.New("wrong checksum")        // a file's checksum differed from the hub's twice
	ErrMissing  = errors.New("not in the cache")      // Remove found nothing of that name
	errBadReply = errors.New("not a hub's answer")    // the server answered something the protocol does not have
	errRestart  = errors.New("starting from zero")    // the part already on disk cannot be continued
	errSilent   = errors.New("the server was silent") // nothing came for IdleTimeout
	errTooLong  = errors.New("longer than it says")   // more bytes came than the file has
)

// Client accesses one hub and one cache folder. FromEnv configures one from the usual environment variables; zero
// values of Transport, UserAgent, IdleTimeout and Parallel select their defaults.
type Client struct {
	Endpoint    string            // the hub's address without a trailing slash, as https://huggingface.co
	Token       string            // access token, sent to Endpoint's host only; empty for none
	CacheDir    string            // folder that holds models--owner--name
	Offline     bool              // use the cache only
	Transport   http.RoundTripper // default http.DefaultTransport
	UserAgent   string            // default "kvasir"
	IdleTimeout time.Duration     // after this long without data a request is retried; default 60 s
	Parallel    int               // files fetched at once; default 4
}

// FromEnv reads HF_ENDPOINT; HF_TOKEN, HUGGING_FACE_HUB_TOKEN, or else the file HF_TOKEN_PATH ($HF_HOME/token);
// HF_HUB_DISABLE_IMPLICIT_TOKEN; HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, or else $HF_HOME/hub, where HF_HOME is
// $XDG_CACHE_HOME/huggingface or ~/.cache/huggingface by default; HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE.
func FromEnv(getenv func(string) string) (*Client, error) {
	home := getenv("HOME")
	if home == "" {
		home = getenv("USERPROFILE")
	}
	path := func(name, otherwise string) string {
		v := getenv(name)
		if v == "" {
			return otherwise
		}
		if v == "~" || strings.HasPrefix(v, "~/") {
			v = home + v[1:]
		}
		return os.Expand(v, getenv)
	}
	hfHome := path("HF_HOME", filepath.Join(path("XDG_CACHE_HOME", filepath.Join(home, ".cache")), "huggingface"))
	c := &Client{
		Endpoint: strings.TrimRight(getenv("HF_ENDPOINT"), "/"),
		CacheDir: path("HF_HUB_CACHE", path("HUGGINGFACE_HUB_CACHE", filepath.Join(hfHome, "hub"))),
		Offline:  truth(getenv("HF_HUB_OFFLINE")) || truth(getenv("TRANSFORMERS_OFFLINE")),
	}
	if c.Endpoint == "" {
		c.Endpoint = "https://huggingface.co"
	}
	if u, err := url.Parse(c.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("hub: HF_ENDPOINT %q is not an http or https address", c.Endpoint)
	}
	if !filepath.IsAbs(c.CacheDir) {
		abs, err := filepath.Abs(c.CacheDir)
		if err != nil {
			return nil, fmt.Errorf("hub: cache folder %q: %w", c.CacheDir, err)
		}
		c.CacheDir = abs
	}
	if truth(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		return c, nil
	}
	c.Token = strings.TrimSpace(getenv("HF_TOKEN"))
	if c.Token == "" {
		c.Token = strings.TrimSpace(getenv("HUGGING_FACE_HUB_TOKEN"))
	}
	if c.Token == "" {
		b, err := os.ReadFile(path("HF_TOKEN_PATH", filepath.Join(hfHome, "token")))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, fmt.Errorf("hub: token file: %w", err)
		}
		c.Token = strings.TrimSpace(string(b))
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, errors.New("hub: the token holds a character that no HTTP header may hold")
	}
	return c, nil
}

func truth(s string) bool {
	switch strings.ToUpper(s) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// State is what is happening to a file.
type State string

// The states of a pull, in the order a file may meet them.
const (
	Listing     State = "listing"     // listing the repository; File is empty
	Queued      State = "queued"      // the file is wanted; Total is known if the hub said it
	Cached      State = "cached"      // the file was in the cache already
	Waiting     State = "waiting"     // another process holds the file's lock; Reason names it
	Resuming    State = "resuming"    // Done bytes are kept from before
	Downloading State = "downloading" // Done bytes are on disk
	Retrying    State = "retrying"    // after the error in Reason
	Verifying   State = "verifying"   // computing the checksum of the file
	Done        State = "done"        // the file is in the cache, verified
)

// Event reports the progress of one file of a pull. Events come one at a time, from several goroutines.
type Event struct {
	State  State
	File   string // path inside the repository, with slashes
	Done   int64  // bytes on disk
	Total  int64  // bytes in all; -1 if the hub has not said
	Reason error  // for Waiting and Retrying
}
