package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// FuzzScan compares what scan reads of a body with what encoding/json does.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","stream":true,"user":"u","max_tokens":5,"messages":[{"content":"a\\\"]}"}],"n":2,"tools":[]}`,
		` { "model" : "\u006d" , "input" : [1,-2.5e3,null,true] , "stream":null} `,
		`{"mod\u0065l":"x","prompt":"\\"}`, `{"model":"m","model":"n"}`, `{"model":"m","modEl":"n"}`, "{\"user\":\"\xcf\"}", `{"model":1}`, `{}`, `[]`, `{"a":[}]}`, `{"a":{]}`,
		`{"a":"\\\\\""}`, `{"model":"m"}x`, `{"model":"m",}`, `{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + "}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := scan(raw)
		if err == nil && len(b.raw) != len(raw) {
			t.Fatal("the body is not whole")
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(raw, &want) != nil || want == nil {
			return // what else scan may let pass, an endpoint refuses
		}
		if err != nil {
			if s := err.Error(); strings.Contains(s, "invalid JSON") && !strings.Contains(s, "nested") {
				t.Fatalf("valid JSON is refused: %v", err)
			}
			return
		}
		text := func(key string) (s string) {
			json.Unmarshal(want[key], &s)
			return s
		}
		if b.model != text("model") || b.user != text("user") || b.session != text("prompt_cache_key") || b.stream != (string(want["stream"]) == "true") {
			t.Fatalf("scan %+v; json %s", b, want)
		}
		if b.tools != nil && !bytes.Equal(b.tools, want["tools"]) {
			t.Fatalf("tools %q; want %q", b.tools, want["tools"])
		}
		if at := b.modelAt; at[1] > 0 {
			var got struct{ Model string }
			if err := json.Unmarshal(bytes.Join(b.edited(b.naming(b.model+"x")), nil), &got); err != nil || got.Model != b.model+"x" && json.Valid([]byte(`"`+b.model+`"`)) {
				t.Fatalf("rewritten to %q: %v", got.Model, err)
			}
		}
	})
}

// TestLongEvents holds that an event which comes in many small pieces is copied few times, and then refused.
func TestLongEvents(t *testing.T) {
	var e events
	piece := []byte(strings.Repeat("x", 100))
	e.add([]byte("data: {}\n\ndata: \""))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var err error
	n := 0
	for ; err == nil; n++ {
		_, err = e.add(piece)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 10*longestEvent || n*len(piece) > longestEvent+len(piece) {
		t.Errorf("after %d pieces and %d bytes of memory: %v", n, took, err)
	}
}

// FuzzEvents cuts streams in two at any place: what is told as whole events must be the same, and what is refused too.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		"data: {\"a\":1}\n\ndata: {\"usage\":{\"prompt_tokens\":3}}\r\n\r\n: comment\n\ndata: [DONE]\n\n",
		"event: x\nid: 3\nretry: 5\ndata:{}\n\n", "data: 7\n\n", "<html>", "data: {\"a\"", "\n\n\r\n", "data: {}\n\nx", "dat",
	} {
		f.Add([]byte(s), uint(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint) {
		var once, twice events
		want, wantErr := once.add(data)
		at := int(cut % uint(len(data)+1))
		got, err := twice.add(data[:at])
		got = append([]byte(nil), got...)
		if err == nil {
			var more []byte
			more, err = twice.add(data[at:])
			got = append(got, more...)
		}
		if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) {
			t.Fatalf("cut at %d: %q, %v; whole: %q, %v", at, got, err, want, wantErr)
		}
		if err == nil && (once.count != twice.count || once.done != twice.done || !bytes.Equal(once.usage, twice.usage)) {
			t.Fatalf("cut at %d: %+v; whole: %+v", at, twice, once)
		}
		if !bytes.HasPrefix(data, got) {
			t.Fatalf("%q became %q", data, got)
		}
	})
}

// BenchmarkScan scans a chat of many messages.
func BenchmarkScan(b *testing.B) {
	for _, size := range []int{1 << 10, 220 << 10} {
		var text strings.Builder
		text.WriteString(`{"model":"m","stream":true,"messages":[`)
		for i := 0; text.Len() < size; i++ {
			fmt.Fprintf(&text, `{"role":"user","content":%q},`, strings.Repeat("What is a \"KV cache\"?\n", 20))
		}
		text.WriteString(`{}]}`)
		raw := []byte(text.String())
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := scan(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
