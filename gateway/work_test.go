package gateway

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/gateway/cache"
	"github.com/kvasir-llm/kvasir/gateway/provider"
)

// many is a list of so many bytes of one value.
func many(value string, size int) string {
	return "[" + strings.Repeat(value+",", size/(len(value)+1)) + value + "]"
}

// dense are bodies of a size that take much memory once they are taken apart.
func dense(size int) map[string]string {
	chat := func(messages string) string { return `{"model":"m","messages":` + messages + `}` }
	return map[string]string{
		"empty messages": chat(many(`{}`, size)),
		"messages":       chat(many(`{"role":"user","content":""}`, size)),
		"parts":          chat(`[{"role":"user","content":` + many(`{"type":"text","text":""}`, size) + `}]`),
		"empty parts":    chat(`[{"role":"user","content":` + many(`{}`, size) + `}]`),
		"calls":          chat(`[{"role":"assistant","tool_calls":` + many(`{"type":"function","function":{"name":"a"}}`, size) + `}]`),
		"tools":          `{"model":"m","messages":[],"tools":` + many(`{"type":"function","function":{"name":"a"}}`, size) + `}`,
		"lists":          `{"model":"m","messages":[],"zebra":` + many(`[]`, size) + `}`,
		"numbers":        `{"model":"m","input":` + many(`1`, size) + `}`,
		"members":        `{"model":"m","zebra":{` + strings.Repeat(`"a":0,`, size/6) + `"b":0}}`,
		"own members":    `{"model":"m","input":[1],` + strings.Repeat(`"a":0,`, size/6) + `"b":0}`,
		"escapes":        chat(`[{"role":"user","content":"` + strings.Repeat(`\u00e9`, size/6) + `"}]`),
		"text":           chat(`[{"role":"user","content":"` + strings.Repeat(`word `, size/5) + `"}]`),
		"stop":           `{"model":"m","messages":[],"stop":` + many(`"a"`, size) + `}`,
	}
}

// TestWorkCosts holds that taking a body apart takes no more memory than is claimed for it.
func TestWorkCosts(t *testing.T) {
	answer := roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	})
	translate := func(next http.RoundTripper, path string) func(x *exchange) {
		return func(x *exchange) {
			r, err := http.NewRequest("POST", "http://a"+path, bytes.NewReader(x.body.raw))
			if err == nil {
				_, err = next.RoundTrip(r)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	for what, do := range map[string]func(x *exchange){
		"name":      func(x *exchange) { cache.Name(x.body.raw, "who") },
		"question":  func(x *exchange) { x.question([]string{"who"}) },
		"share":     func(x *exchange) { x.share(&model{}) },
		"anthropic": translate(&provider.Transport{Next: answer, API: "anthropic"}, "/v1/chat/completions"),
		"gemini":    translate(&provider.Transport{Next: answer, API: "gemini"}, "/v1/chat/completions"),
		"bedrock":   translate(&provider.Transport{Next: answer, API: "bedrock", Region: "r"}, "/v1/chat/completions"),
		"messages":  translate(&provider.Messages{Next: answer}, "/v1/messages"),
	} {
		for name, raw := range dense(1 << 18) {
			b, err := scan([]byte(raw))
			if err != nil {
				t.Fatal(err)
			}
			path := "/v1/chat/completions"
			if what == "share" {
				path = "/v1/embeddings"
			}
			r, err := http.NewRequest("POST", path, nil)
			if err != nil {
				t.Fatal(err)
			}
			x := &exchange{body: b, r: r}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			do(x)
			runtime.ReadMemStats(&after)
			took, most := after.TotalAlloc-before.TotalAlloc, uint64(costPerByte*len(b.raw)+costPerValue*b.values)
			if took > most {
				t.Errorf("%s of %s took %d bytes; claimed are %d", what, name, took, most)
			}
		}
	}
}

type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
