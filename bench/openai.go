package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// OpenAI is a server with the OpenAI API, as a Target. Answers are streamed.
type OpenAI struct {
	base        string
	client      *http.Client
	options     OpenAIOptions
	path, model string
}

// OpenAIOptions configures the requests.
type OpenAIOptions struct {
	Model       string // "" is the first of the server's list
	Key         string // sent as a bearer token, if any
	Completions bool   // use /completions rather than /chat/completions; a conversation is then one text
	Vocab       int    // with Completions: synthetic tokens are sent as numbers below this; 0 sends words
	IgnoreEOS   bool   // request full-length answers by ignore_eos, which vLLM, SGLang, llama-server and kvasir support
	Temperature float32
}

// NewOpenAI returns a client of the server at base, such as http://127.0.0.1:8000/v1.
func NewOpenAI(ctx context.Context, base string, o OpenAIOptions) (*OpenAI, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("bench: %q is no base URL; want one such as http://127.0.0.1:8000/v1", base)
	}
	t := &OpenAI{base: strings.TrimSuffix(base, "/"), options: o, path: "/chat/completions", model: o.Model}
	if o.Completions {
		t.path = "/completions"
	}
	t.client = &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1 << 14, DisableCompression: true,
	}}
	if t.model == "" {
		t.model, err = t.firstModel(ctx)
	}
	return t, err
}

// Model is the model name that requests send.
func (t *OpenAI) Model() string { return t.model }

// Close ends idle connections.
func (t *OpenAI) Close() { t.client.CloseIdleConnections() }

func (t *OpenAI) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	return t.send(ctx, method, t.base+path, body)
}

func (t *OpenAI) send(ctx context.Context, method, at string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if t.options.Key != "" {
		req.Header.Set("Authorization", "Bearer "+t.options.Key)
	}
	req.Header["X-Idempotency-Key"] = nil // allows a retry if the server has closed the connection
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return nil, fmt.Errorf("bench: %s answers %s: %s", req.URL.Path, resp.Status, bytes.TrimSpace(said))
	}
	return resp, nil
}

func (t *OpenAI) firstModel(ctx context.Context) (string, error) {
	resp, err := t.do(ctx, http.MethodGet, "/models", nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list); err != nil {
		return "", fmt.Errorf("bench: /models: %w", err)
	}
	if len(list.Data) == 0 {
		return "", errors.New("bench: /models lists no model")
	}
	return list.Data[0].ID, nil
}

// kv reads kvasir's metrics, which other servers do not have.
func (t *OpenAI) kv(ctx context.Context) (k kv, ok bool) {
	at, err := url.JoinPath(t.base, "..", "metrics")
	if err != nil {
		return k, false
	}
	resp, err := t.send(ctx, http.MethodGet, at, nil)
	if err != nil {
		return k, false
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, 1<<24))
	for lines.Scan() {
		line := lines.Text()
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		switch {
		case err != nil:
		case strings.HasPrefix(line, "kvasir:kv_held_tokens_total"):
			k.held += v
			ok = true
		case strings.HasPrefix(line, "kvasir:kv_unfilled_tokens_total"):
			k.unfilled += v
		}
	}
	return k, ok
}

// wireMessage and wireRequest are the request's JSON.
type wireMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type wireRequest struct {
	Model         string        `json:"model"`
	Messages      []wireMessage `json:"messages,omitempty"`
	Prompt        any           `json:"prompt,omitempty"` // text, or the numbers of tokens
	MaxTokens     int           `json:"max_tokens"`
	Temperature   float32       `json:"temperature"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	IgnoreEOS bool `json:"ignore_eos,omitempty"`
}

// Answer implements Target.
func (t *OpenAI) Answer(ctx context.Context, conversation []Message, output int, piece func()) (Answer, error) {
	req := wireRequest{Model: t.model, MaxTokens: output, Temperature: t.options.Temperature, Stream: true, IgnoreEOS: t.options.IgnoreEOS}
	req.StreamOptions.IncludeUsage = true
	if t.options.Completions && t.options.Vocab > 0 {
		ids, err := idsOf(conversation, t.options.Vocab)
		if err != nil {
			return Answer{}, err
		}
		req.Prompt = ids
		return t.answer(ctx, req, piece)
	}
	var prompt []byte
	for _, m := range conversation {
		var text []byte
		for _, p := range m.Parts {
			text = p.appendText(text)
		}
		if t.options.Completions {
			prompt = append(prompt, text...)
		} else {
			req.Messages = append(req.Messages, wireMessage{m.Role, string(text)})
		}
	}
	if t.options.Completions {
		req.Prompt = string(prompt)
	}
	return t.answer(ctx, req, piece)
}

// idsOf returns a conversation as tokens. Text of its own has none that all servers know.
func idsOf(conversation []Message, vocab int) (ids []int32, err error) {
	for _, m := range conversation {
		for _, p := range m.Parts {
			ids = p.appendIDs(ids, vocab, func(text string) []int32 {
				err = fmt.Errorf("bench: %.40q is text, whose tokens depend on the server; want prompts of numbers", text)
				return nil
			})
		}
	}
	return ids, err
}

// answer sends a request and reads its answer.
func (t *OpenAI) answer(ctx context.Context, req wireRequest, piece func()) (Answer, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return Answer{}, err
	}
	resp, err := t.do(ctx, http.MethodPost, t.path, body)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	return readStream(io.LimitReader(resp.Body, maxAnswer), piece)
}

// maxEvent bounds a line of a stream, maxAnswer all of it, in bytes.
const (
	maxEvent  = 1 << 20
	maxAnswer = 1 << 30
)

// event is the part of a streamed event that matters here.
type event struct {
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
		} `json:"delta"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt    int `json:"prompt_tokens"`
		Generated int `json:"completion_tokens"`
		Details   struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// readStream reads a stream of server-sent events to its end and calls piece for each that adds text.
func readStream(r io.Reader, piece func()) (Answer, error) {
	var a Answer
	var text strings.Builder
	finished := false
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			finished = true
			continue // a connection is reused only after it was read to its end
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return a, fmt.Errorf("bench: an event of the stream: %w", err)
		}
		if len(e.Error) > 0 && string(e.Error) != "null" {
			return a, fmt.Errorf("bench: the stream ends with an error: %.300s", e.Error)
		}
		for _, c := range e.Choices {
			if c.Text != "" || c.Delta.Content != "" || c.Delta.Reasoning != "" {
				piece()
				text.WriteString(c.Text)
				text.WriteString(c.Delta.Content)
			}
			finished = finished || c.Finish != ""
		}
		if u := e.Usage; u != nil {
			a.Prompt, a.Generated, a.Cached = max(u.Prompt, 0), max(u.Generated, 0), max(u.Details.Cached, 0)
		}
	}
	if err := lines.Err(); err != nil {
		return a, fmt.Errorf("bench: reading the stream: %w", err)
	}
	if !finished {
		return a, errors.New("bench: the stream ends before the answer does")
	}
	a.Said = Part{Text: text.String()}
	return a, nil
}
