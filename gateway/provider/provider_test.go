package provider

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// asked is a conversation with a tool and an image, in OpenAI's API.
const asked = `{"model":"big:1","max_tokens":100,"temperature":0.5,"stop":["END"],"messages":[
{"role":"system","content":"Be brief."},
{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},
{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"deep\":true}"}}]},
{"role":"tool","tool_call_id":"c1","content":"a cat"},
{"role":"user","content":"And now?"}],
"tools":[{"type":"function","function":{"name":"look","description":"looks","parameters":{"type":"object","properties":{"deep":{"type":"boolean"}}}}}],
"tool_choice":"required"STREAM}`

const schema = `{"type":"object","properties":{"deep":{"type":"boolean"}}}`

// events of a stream in the forms of providers.
func sse(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		var named struct{ Type string }
		json.Unmarshal([]byte(e), &named)
		if named.Type != "" {
			fmt.Fprintf(&b, "event: %s\n", named.Type)
		}
		fmt.Fprintf(&b, "data: %s\n\n", e)
	}
	return b.String()
}

// frames are pairs of a type and a payload in AWS's event stream.
func frames(pairs ...string) string {
	var all bytes.Buffer
	for i := 0; i < len(pairs); i += 2 {
		all.Write(frame("event", pairs[i], pairs[i+1]))
	}
	return all.String()
}

func frame(message, kind, payload string) []byte {
	var headers bytes.Buffer
	for _, h := range [][2]string{{":" + map[bool]string{true: "event", false: "exception"}[message == "event"] + "-type", kind},
		{":content-type", "application/json"}, {":message-type", message}} {
		headers.WriteByte(byte(len(h[0])))
		headers.WriteString(h[0])
		headers.WriteByte(7)
		binary.Write(&headers, binary.BigEndian, uint16(len(h[1])))
		headers.WriteString(h[1])
	}
	var b bytes.Buffer
	binary.Write(&b, binary.BigEndian, []uint32{uint32(16 + headers.Len() + len(payload)), uint32(headers.Len())})
	binary.Write(&b, binary.BigEndian, crc32.ChecksumIEEE(b.Bytes()))
	b.Write(headers.Bytes())
	b.WriteString(payload)
	binary.Write(&b, binary.BigEndian, crc32.ChecksumIEEE(b.Bytes()))
	return b.Bytes()
}

// providers are what their documentation says of them: what they are asked, and what they answer.
var providers = []struct {
	api, path, streamPath string
	header, value         string
	body                  string // that they get, without stream
	answer, stream        string
}{
	{
		"anthropic", "/v1/messages", "/v1/messages", "X-Api-Key", "id:secret",
		`{"model":"big:1","max_tokens":100,"temperature":0.5,"stop_sequences":["END"],"system":"Be brief.","messages":[
		{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},
		{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"look","input":{"deep":true}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"a cat"}]},{"type":"text","text":"And now?"}]}],
		"tools":[{"name":"look","description":"looks","input_schema":` + schema + `}],"tool_choice":{"type":"any"}}`,
		`{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"I look."},
		{"type":"tool_use","id":"t9","name":"look","input":{"deep":false}}],"stop_reason":"tool_use","usage":{"input_tokens":5,"cache_read_input_tokens":15,"output_tokens":7}}`,
		sse(`{"type":"message_start","message":{"id":"msg_1","type":"message","content":[],"usage":{"input_tokens":5,"cache_read_input_tokens":15,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`, `{"type":"ping"}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_stop","index":0}`, `{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I "}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"look."}}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t9","name":"look","input":{}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"deep\":"}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"false}"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}`, `{"type":"message_stop"}`),
	},
	{
		"gemini", "/v1beta/models/big:1:generateContent", "/v1beta/models/big:1:streamGenerateContent?alt=sse", "X-Goog-Api-Key", "id:secret",
		`{"generationConfig":{"maxOutputTokens":100,"temperature":0.5,"stopSequences":["END"]},"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[
		{"role":"user","parts":[{"text":"What is this?"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]},
		{"role":"model","parts":[{"functionCall":{"name":"look","args":{"deep":true}}}]},
		{"role":"user","parts":[{"functionResponse":{"name":"look","response":{"result":"a cat"}}},{"text":"And now?"}]}],
		"tools":[{"functionDeclarations":[{"name":"look","description":"looks","parametersJsonSchema":` + schema + `}]}],
		"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}`,
		`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"I look."},{"functionCall":{"name":"look","args":{"deep":false}}}],"role":"model"},
		"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":20,"cachedContentTokenCount":15,"candidatesTokenCount":4,"thoughtsTokenCount":3}}`,
		sse(`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}],"usageMetadata":{"promptTokenCount":20}}`,
			`{"candidates":[{"content":{"parts":[{"text":"I "}]}}],"usageMetadata":{"promptTokenCount":20}}`,
			`{"candidates":[{"content":{"parts":[{"text":"look."},{"functionCall":{"name":"look","args":{"deep":false}}}]},"finishReason":"STOP"}],`+
				`"usageMetadata":{"promptTokenCount":20,"cachedContentTokenCount":15,"candidatesTokenCount":4,"thoughtsTokenCount":3}}`),
	},
	{
		"bedrock", "/model/big%3A1/converse", "/model/big%3A1/converse-stream", "Authorization", "AWS4-HMAC-SHA256 Credential=id/",
		`{"inferenceConfig":{"maxTokens":100,"temperature":0.5,"stopSequences":["END"]},"system":[{"text":"Be brief."}],"messages":[
		{"role":"user","content":[{"text":"What is this?"},{"image":{"format":"png","source":{"bytes":"AAAA"}}}]},
		{"role":"assistant","content":[{"toolUse":{"toolUseId":"c1","name":"look","input":{"deep":true}}}]},
		{"role":"user","content":[{"toolResult":{"toolUseId":"c1","content":[{"text":"a cat"}]}},{"text":"And now?"}]}],
		"toolConfig":{"tools":[{"toolSpec":{"name":"look","description":"looks","inputSchema":{"json":` + schema + `}}}],"toolChoice":{"any":{}}}}`,
		`{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm"}}},{"text":"I look."},
		{"toolUse":{"toolUseId":"t9","name":"look","input":{"deep":false}}}]}},"stopReason":"tool_use","usage":{"inputTokens":5,"cacheReadInputTokens":15,"outputTokens":7,"totalTokens":27}}`,
		frames("messageStart", `{"role":"assistant"}`, "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}}`,
			"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"I "}}`, "contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"look."}}`,
			"contentBlockStop", `{"contentBlockIndex":1}`, "contentBlockStart", `{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"t9","name":"look"}}}`,
			"contentBlockDelta", `{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"deep\":"}}}`,
			"contentBlockDelta", `{"contentBlockIndex":2,"delta":{"toolUse":{"input":"false}"}}}`, "messageStop", `{"stopReason":"tool_use"}`,
			"metadata", `{"usage":{"inputTokens":5,"cacheReadInputTokens":15,"outputTokens":7}}`),
	},
}

// ask sends a body as a client of OpenAI's API, to a provider.
func ask(t *testing.T, tr *Transport, h http.HandlerFunc, path, body string) (*http.Response, string, error) {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	tr.Next = http.DefaultTransport
	r, err := http.NewRequest("POST", s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer the-client's")
	res, err := tr.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res, string(data), err
}

func TestTranslations(t *testing.T) {
	for _, p := range providers {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %v", p.api, stream), func(t *testing.T) {
				var got, uri string
				var header http.Header
				provider := func(w http.ResponseWriter, r *http.Request) {
					data, _ := io.ReadAll(r.Body)
					got, uri, header = string(data), r.URL.RequestURI(), r.Header
					if stream {
						io.WriteString(w, p.stream)
						return
					}
					io.WriteString(w, p.answer)
				}
				body, path := strings.Replace(asked, "STREAM", "", 1), p.path
				if stream {
					body = strings.Replace(asked, "STREAM", `,"stream":true,"stream_options":{"include_usage":true}`, 1)
					path = p.streamPath
				}
				res, said, err := ask(t, &Transport{API: p.api, Key: "id:secret", Region: "eu-west-1"}, provider, "/base/v1/chat/completions", body)
				if err != nil || res.StatusCode != 200 {
					t.Fatalf("%v %s", err, said)
				}
				if uri != "/base"+path || !strings.HasPrefix(header.Get(p.header), p.value) || strings.Contains(fmt.Sprint(header), "the-client's") {
					t.Errorf("it was asked %s with %v", uri, header)
				}
				var is, want map[string]any
				if err := json.Unmarshal([]byte(got), &is); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal([]byte(p.body), &want); err != nil {
					t.Fatal(err)
				}
				if stream && p.api == "anthropic" {
					want["stream"] = true
				}
				if d := cmp.Diff(want, is); d != "" {
					t.Error(d)
				}
				checkAnswer(t, stream, res.Header.Get("Content-Type"), said)
				if stream && res.Trailer.Get(UsageTrailer) != `{"usage":{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27,"prompt_tokens_details":{"cached_tokens":15}}}` {
					t.Errorf("the trailer is %v", res.Trailer)
				}
			})
		}
	}
}

// checkAnswer reads what a provider said with OpenAI's own client.
func checkAnswer(t *testing.T, stream bool, kind, said string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, said)
	}))
	defer s.Close()
	client := openai.NewClient(option.WithBaseURL(s.URL), option.WithAPIKey("none"), option.WithMaxRetries(0))
	var sum openai.ChatCompletion
	ask := openai.ChatCompletionNewParams{Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x")}}
	if stream {
		var all openai.ChatCompletionAccumulator
		events := client.Chat.Completions.NewStreaming(t.Context(), ask)
		for events.Next() {
			all.AddChunk(events.Current())
		}
		if err := events.Err(); err != nil {
			t.Fatal(err)
		}
		sum = all.ChatCompletion
	} else {
		one, err := client.Chat.Completions.New(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		sum = *one
	}
	if len(sum.Choices) != 1 {
		t.Fatalf("%s", said)
	}
	c := sum.Choices[0]
	calls := c.Message.ToolCalls
	if c.Message.Content != "I look." || c.FinishReason != "tool_calls" || len(calls) != 1 || calls[0].Function.Name != "look" ||
		calls[0].Function.Arguments != `{"deep":false}` || calls[0].ID == "" || sum.Model != "big:1" || !strings.Contains(said, `"reasoning_content":"hm"`) {
		t.Errorf("%+v\n%s", c, said)
	}
	if u := sum.Usage; u.PromptTokens != 20 || u.CompletionTokens != 7 || u.PromptTokensDetails.CachedTokens != 15 {
		t.Errorf("%+v", u)
	}
}

func TestRefusals(t *testing.T) {
	const m = `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct{ api, path, body, want string }{
		{"anthropic", chatPath, `{"model":"x",` + m + `,"logit_bias":{}}`, "logit_bias cannot be translated"},
		{"anthropic", chatPath, `{"model":"x",` + m + `,"seed":1}`, "seed cannot be translated"},
		{"anthropic", chatPath, `{"model":"x",` + m + `,"n":2}`, "one answer"},
		{"gemini", chatPath, `{"model":"x",` + m + `,"parallel_tool_calls":false}`, "parallel_tool_calls"},
		{"bedrock", chatPath, `{"model":"x",` + m + `,"response_format":{"type":"json_object"}}`, "response_format"},
		{"bedrock", chatPath, `{"model":"x","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}]}`, "data: URLs"},
		{"gemini", chatPath, `{"model":"x","messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`, "input_audio"},
		{"gemini", chatPath, `{"model":"x","messages":[{"role":"tool","tool_call_id":"1","content":"x"}]}`, "no earlier message"},
		{"gemini", chatPath, `{"model":"x","messages":[{"role":"robot","content":"x"}]}`, "messages[0].role"},
		{"gemini", "/v1/embeddings", `{}`, "has no /v1/embeddings"},
	} {
		res, said, err := ask(t, &Transport{API: c.api}, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }, c.path, c.body)
		if err != nil || res.StatusCode != 400 || !strings.Contains(said, c.want) {
			t.Errorf("%s %s: %v, %s; want %s", c.api, c.body, err, said, c.want)
		}
	}
}

// TestBadAnswers lets providers fail, lie and break off.
func TestBadAnswers(t *testing.T) {
	body := `{"model":"x","messages":[],"stream":true}`
	for _, p := range providers {
		res, said, err := ask(t, &Transport{API: p.api}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
			io.WriteString(w, `{"error":{"message":"slow down"}}`)
		}, chatPath, body)
		if err != nil || res.StatusCode != 429 || !strings.Contains(said, `"message":"slow down"`) || res.Header.Get("Retry-After") != "7" {
			t.Errorf("%s: %v, %s", p.api, err, said)
		}
		for _, cut := range []int{1, len(p.stream) / 3, len(p.stream) / 2} {
			_, said, err := ask(t, &Transport{API: p.api}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, p.stream[:cut]) }, chatPath, body)
			if err == nil || strings.Contains(said, "[DONE]") {
				t.Errorf("%s cut off after %d bytes: %s", p.api, cut, said)
			}
		}
		for _, bad := range []string{"", "{}", "nonsense", `{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`} {
			_, said, err := ask(t, &Transport{API: p.api}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, bad) },
				chatPath, `{"model":"x","messages":[]}`)
			if err == nil {
				t.Errorf("%s said %q, and the client got %s", p.api, bad, said)
			}
		}
	}
	for api, stream := range map[string]string{
		"anthropic": sse(`{"type":"error","error":{"type":"overloaded_error","message":"too much"}}`),
		"bedrock":   string(frame("exception", "throttlingException", `{"message":"too much"}`)),
	} {
		_, _, err := ask(t, &Transport{API: api}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, stream) }, chatPath, body)
		if err == nil || !strings.Contains(err.Error(), "too much") {
			t.Errorf("%s: %v", api, err)
		}
	}
	flipped := []byte(providers[2].stream)
	flipped[40] ^= 1
	_, _, err := ask(t, &Transport{API: "bedrock"}, func(w http.ResponseWriter, _ *http.Request) { w.Write(flipped) }, chatPath, body)
	if err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("with a bit flipped: %v", err)
	}
}

// TestAddresses looks where requests go that need no translation.
func TestAddresses(t *testing.T) {
	for _, c := range []struct{ api, version, path, want, header string }{
		{"azure", "", "/v1/embeddings", "/openai/v1/embeddings", "Api-Key"},
		{"azure", "2024-10-21", chatPath, "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21", "Api-Key"},
		{"anthropic", "", "/v1/messages/count_tokens", "/v1/messages/count_tokens", "X-Api-Key"},
	} {
		const body = `{"model":"my gpt"}`
		_, said, err := ask(t, &Transport{API: c.api, Key: "k", Version: c.version}, func(w http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body)
			if r.RequestURI != c.want || r.Header.Get(c.header) != "k" || r.Header.Get("Authorization") != "" || string(data) != body {
				t.Errorf("%s: asked %s with %v and %s", c.api, r.RequestURI, r.Header, data)
			}
			io.WriteString(w, "as it is")
		}, c.path, body)
		if err != nil || said != "as it is" {
			t.Errorf("%v, %s", err, said)
		}
	}
}

// TestSignature is get-vanilla of AWS's test suite for signatures.
func TestSignature(t *testing.T) {
	r, _ := http.NewRequest("GET", "https://example.amazonaws.com/", nil)
	c := credentials{id: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", region: "us-east-1", service: "service"}
	c.sign(r, nil, time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
	const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, " +
		"Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(strings.Replace(asked, "STREAM", "", 1))
	f.Fuzz(func(t *testing.T, body string) {
		q, err := decode([]byte(body))
		if err != nil {
			return
		}
		for _, d := range []dialect{&anthropic{}, &gemini{}, &bedrock{}} {
			if _, o, err := d.encode(q); err == nil {
				if _, err := json.Marshal(o); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func FuzzStreams(f *testing.F) {
	for i, p := range providers {
		f.Add(i, p.stream)
	}
	f.Fuzz(func(t *testing.T, which int, text string) {
		d := []dialect{&anthropic{}, &gemini{}, &bedrock{}}[uint(which)%3]
		s := newStream(io.NopCloser(strings.NewReader(text)), d, &request{Model: "m"}, http.Header{})
		out, err := io.ReadAll(s)
		if err == nil && !strings.HasSuffix(string(out), "data: [DONE]\n\n") {
			t.Errorf("it ended well with %q", out)
		}
		in := bufio.NewReader(bytes.NewReader(out))
		for {
			_, data, err := nextEvent(in)
			if err != nil {
				break
			}
			if string(data) != "[DONE]" && !json.Valid(data) {
				t.Errorf("%q is no JSON", data)
			}
		}
	})
}
