package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

const (
	tries         = 6               // of one request, without progress
	maxRedirects  = 10              // of one request
	maxRetryAfter = 5 * time.Minute // a hub asking for more patience is an error
)

// get reads a whole small answer.
func (c *Client) get(ctx context.Context, n Name, address string) ([]byte, error) {
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

// send makes one request and turns every status other than 200, 206 and 416 into an error. The caller closes the
// body, which ends the request; a server from which nothing comes for IdleTimeout ends it too.
func (c *Client) send(ctx context.Context, n Name, method, address, file string, header http.Header) (*http.Response, error) {
	w := c.watch(ctx)
	req, err := http.NewRequestWithContext(w.ctx, method, address, nil)
	if err != nil {
		w.Close()
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
	resp, err := (&http.Client{Transport: stripAuth{c}, CheckRedirect: checkRedirect}).Do(req)
	w.timer.Stop()
	if err != nil {
		w.Close()
		var dns *net.DNSError
		if err = w.because(netError(err)); errors.Is(err, errBadReply) || errors.As(err, &dns) && dns.IsNotFound {
			return nil, err
		}
		return nil, temporary{err, 0}
	}
	w.body, resp.Body = resp.Body, w
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.statusError(n, file, req.URL.Host, resp)
}

// watched is a body whose request ends when the server is silent for too long.
type watched struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
	body   io.ReadCloser
}

func (c *Client) watch(ctx context.Context) *watched {
	w := &watched{idle: c.IdleTimeout}
	if w.idle <= 0 {
		w.idle = time.Minute
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	silent := fmt.Errorf("%w for %g s", errSilent, w.idle.Seconds())
	w.timer = guard.After(w.idle, func() error { return silent }, w.cancel)
	return w
}

// because returns the idle timeout as the reason if it ended the request.
func (w *watched) because(err error) error {
	if cause := context.Cause(w.ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.idle)
	n, err := w.body.Read(p)
	w.timer.Stop()
	if err != nil && err != io.EOF {
		err = w.because(err)
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	w.cancel(nil)
	if w.body == nil {
		return nil
	}
	return w.body.Close()
}

// statusError describes a refusal. A refusal by another host is temporary: its address was signed for a limited time.
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

// temporary is an error that is worth a retry, after a delay that the server may set.
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

// retry runs try until it succeeds, fails permanently, or fails `tries` times in a row without progress. Between tries
// it waits as long as the server asked, or longer after many failures.
func retry(ctx context.Context, report func(Event), e Event, try func() (progress bool, err error)) error {
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
		if err := wait(ctx, max(again.after, backoff(failed))); err != nil {
			return err
		}
	}
}

// backoff is 0.5 s doubled after each failure, up to 30 s, minus a random part of up to half of it.
func backoff(failed int) time.Duration {
	full := min(500*time.Millisecond<<min(failed-1, 10), 30*time.Second)
	return full/2 + rand.N(full/2)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// checkRedirect refuses loops and the step from https to anything else. It drops the Referer, which would reveal one
// host's signed address to another.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d redirects", errBadReply, maxRedirects)
	}
	if from := via[len(via)-1].URL; from.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("%w: a redirect from https to %s (%s)", errBadReply, req.URL.Scheme, req.URL.Host)
	}
	req.Header.Del("Referer")
	return nil
}

// stripAuth removes the token from every request that does not go to the endpoint's scheme, host and port.
type stripAuth struct{ c *Client }

func (s stripAuth) RoundTrip(req *http.Request) (*http.Response, error) {
	u, err := url.Parse(s.c.Endpoint)
	if err != nil || u.Scheme != req.URL.Scheme || u.Host != req.URL.Host {
		req = req.Clone(req.Context())
		req.Header.Del("Authorization")
	}
	if s.c.Transport != nil {
		return s.c.Transport.RoundTrip(req)
	}
	return http.DefaultTransport.RoundTrip(req)
}

// netError drops the address from a URL error: a redirect's query may carry a signature.
func netError(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		host := ue.URL
		if u, perr := url.Parse(ue.URL); perr == nil {
			host = u.Host
		}
		var oe *net.OpError
		if errors.As(ue.Err, &oe) {
			return oe
		}
		return fmt.Errorf("%s: %w", host, ue.Err)
	}
	return err
}
