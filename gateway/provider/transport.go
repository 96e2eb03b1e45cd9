package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// apis are the languages of providers.
var apis = []string{"anthropic", "azure", "bedrock", "gemini"}

// Transport speaks a provider's API with it, and OpenAI's with the caller. It changes the requests it gets.
type Transport struct {
	Next    http.RoundTripper
	API     string // one of apis
	Key     string // of Bedrock: ID:SECRET or ID:SECRET:SESSION, which signs requests, or an API key
	Region  string // of Bedrock
	Version string // of Azure's API; "" is its v1 API
	Work    Work
}

// Work waits for the memory that translating a request needs, until done is called; nil waits for nothing. An error,
// while the context has not ended, says why the request cannot be translated.
type Work func(ctx context.Context) (done func(), err error)

func (w Work) begin(ctx context.Context) (done func(), err error) {
	if w == nil {
		return func() {}, nil
	}
	return w(ctx)
}

// dialect is a provider's API for chats.
type dialect interface {
	// encode returns the request's path with its query, and its body.
	encode(q *request) (path string, body any, err error)
	// whole reads an answer.
	whole(data []byte) (*answer, error)
	// event reads an event of a stream, and says to out what is in it.
	event(kind string, data []byte, out *emitter) error
}

// UsageTrailer is the trailer of a stream in which the caller finds {"usage": …}, also if the client did not ask for
// it.
const UsageTrailer = "Kvasir-Usage"

const chatPath = "/v1/chat/completions"

// RoundTrip sends a request. What it cannot translate gets an answer with status 400 that says why.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base, path := cutPath(r.URL.Path)
	r.Header.Del("Authorization")
	r.Header.Del("X-Api-Key")
	switch {
	case t.API == "azure":
		return t.azure(r, base, path)
	case t.API == "anthropic" && strings.HasPrefix(path, "/v1/messages"):
		t.sign(r, nil)
		return t.Next.RoundTrip(r)
	case path != chatPath:
		return refused(r, fmt.Errorf("the provider's API (%s) has no %s", t.API, path)), nil
	}
	var d dialect
	switch t.API {
	case "anthropic":
		d = &anthropic{}
	case "gemini":
		d = &gemini{}
	case "bedrock":
		d = &bedrock{}
	}
	q, path, body, err := t.encode(r, d)
	if err != nil && r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	if err != nil {
		return refused(r, err), nil
	}
	if r.URL, err = url.Parse(r.URL.Scheme + "://" + r.URL.Host + base + path); err != nil {
		return refused(r, fmt.Errorf("model: %w", err)), nil
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "X-Request-Id": r.Header["X-Request-Id"]}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(body))
	t.sign(r, body)
	res, err := t.Next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	return translated(res, d, q)
}

// encode makes a request the provider's.
func (t *Transport) encode(r *http.Request, d dialect) (q *request, path string, body []byte, err error) {
	done, err := t.Work.begin(r.Context())
	if err != nil {
		return nil, "", nil, err
	}
	defer done()
	raw, err := readBody(r)
	if err != nil {
		return nil, "", nil, err
	}
	if q, err = decode(raw); err != nil {
		return nil, "", nil, err
	}
	path, content, err := d.encode(q)
	if err != nil {
		return nil, "", nil, err
	}
	body, err = json.Marshal(content)
	return q.answered(), path, body, err
}

// answered is what the answer depends on.
func (q *request) answered() *request {
	return &request{Model: q.Model, Stream: q.Stream, StreamOptions: q.StreamOptions}
}

func readBody(r *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(r.Body)
	r.Body.Close()
	return raw, err
}

// cutPath divides a path into what an endpoint's URL begins with and the API's path.
func cutPath(path string) (base, api string) {
	if i := strings.LastIndex(path, "/v1/"); i >= 0 {
		return path[:i], path[i:]
	}
	return "", path
}

// sign adds the provider's key.
func (t *Transport) sign(r *http.Request, body []byte) {
	switch t.API {
	case "anthropic":
		r.Header.Set("X-Api-Key", t.Key)
		if r.Header.Get("Anthropic-Version") == "" {
			r.Header.Set("Anthropic-Version", "2023-06-01")
		}
	case "gemini":
		r.Header.Set("X-Goog-Api-Key", t.Key)
	case "azure":
		r.Header.Set("Api-Key", t.Key)
	case "bedrock":
		if parts := strings.SplitN(t.Key, ":", 3); len(parts) > 1 {
			c := credentials{id: parts[0], secret: parts[1], region: t.Region, service: "bedrock"}
			if len(parts) == 3 {
				c.session = parts[2]
			}
			c.sign(r, body, time.Now())
			return
		}
		r.Header.Set("Authorization", "Bearer "+t.Key)
	}
}

// azure sends a request as it is to the address where Azure has it: of a deployment, or of its v1 API.
func (t *Transport) azure(r *http.Request, base, path string) (*http.Response, error) {
	u := *r.URL
	r.URL = &u
	u.RawPath, u.Path = "", base+"/openai"+path
	if t.Version != "" {
		raw, err := readBody(r)
		if err != nil {
			return nil, err
		}
		var named struct{ Model string }
		if err := json.Unmarshal(raw, &named); err != nil {
			return refused(r, err), nil
		}
		u.Path = base + "/openai/deployments/" + named.Model + strings.TrimPrefix(path, "/v1")
		u.RawPath = base + "/openai/deployments/" + url.PathEscape(named.Model) + strings.TrimPrefix(path, "/v1")
		u.RawQuery = url.Values{"api-version": {t.Version}}.Encode()
		r.Body = io.NopCloser(bytes.NewReader(raw))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	}
	t.sign(r, nil)
	return t.Next.RoundTrip(r)
}

// translated reads a provider's answer in the caller's API.
func translated(res *http.Response, d dialect, q *request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	if after := res.Header.Get("Retry-After"); after != "" {
		header.Set("Retry-After", after)
	}
	res.Header = header
	if res.StatusCode == http.StatusOK && q.Stream {
		header.Set("Content-Type", "text/event-stream")
		res.ContentLength = -1
		res.Trailer = http.Header{}
		res.Body = newStream(res.Body, d, q, res.Trailer)
		return res, nil
	}
	data, err := readAnswer(res.Body)
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	out := errorBody("provider_error", said(data))
	if res.StatusCode == http.StatusOK {
		a, err := d.whole(data)
		if err != nil {
			return nil, fmt.Errorf("the provider's answer: %w", err)
		}
		out = a.json(q.Model)
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(out)), int64(len(out))
	return res, nil
}

// readAnswer reads an answer that is no stream.
func readAnswer(in io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, longestEvent+1))
	if err == nil && len(data) > longestEvent {
		err = fmt.Errorf("the answer has more than %d bytes", longestEvent)
	}
	return data, err
}

// said finds the message in a provider's error.
func said(data []byte) string {
	var e struct {
		Message string
		Error   struct{ Message string }
	}
	json.Unmarshal(data, &e) // what is no JSON is the message
	for _, text := range []string{e.Error.Message, e.Message, strings.TrimSpace(string(data[:min(len(data), 500)]))} {
		if text != "" {
			return text
		}
	}
	return "the provider gave no reason"
}

func errorBody(code, message string) []byte {
	data, _ := json.Marshal(map[string]any{"error": map[string]any{
		"message": message, "type": "invalid_request_error", "param": nil, "code": code,
	}}) // of texts, which does not fail
	return data
}

// refused answers a request that cannot be translated.
func refused(r *http.Request, err error) *http.Response {
	body := errorBody("unsupported", err.Error())
	return &http.Response{
		StatusCode: http.StatusBadRequest, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// Check refuses an API that is not known, and settings that it does not take.
func Check(api, region, version string) error {
	switch {
	case api == "" && region == "" && version == "":
		return nil
	case !slices.Contains(apis, api):
		return fmt.Errorf("api is %q; want one of %s, or nothing for OpenAI's", api, strings.Join(apis, ", "))
	case api == "bedrock" && region == "":
		return errors.New("bedrock needs a region such as us-east-1")
	case api != "bedrock" && region != "", api != "azure" && version != "":
		return fmt.Errorf("%s takes no region, or no version", api)
	}
	return nil
}
