package server

import (
	"bytes"
	"compress/gzip"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func zipped(data string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(data))
	w.Close()
	return b.String()
}

func zstandard(t *testing.T, data string, o ...zstd.EOption) string {
	t.Helper()
	w, err := zstd.NewWriter(nil, o...)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return string(w.EncodeAll([]byte(data), nil))
}

// streamed is zstd as it is written by those who do not know how much will follow.
func streamed(t *testing.T, data string, window int) string {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		w.Write([]byte(data[:len(data)/4]))
		data = data[len(data)/4:]
		w.Flush()
	}
	w.Write([]byte(data))
	w.Close()
	return b.String()
}

// TestPackedBodies holds that bodies are unpacked, that bounds hold for what they are unpacked to, and that nothing is
// held afterwards.
func TestPackedBodies(t *testing.T) {
	const body, most = `{"prompt":"x","max_tokens":5}`, 1 << 20
	wide := strings.Repeat(" ", most-len(body)) + body
	bomb := strings.Repeat(" ", 20<<20) + body
	for _, c := range []struct {
		name, encoding, body string
		status               int
		words                string
	}{
		{"plain", "", body, 200, `"text"`},
		{"identity", "identity", body, 200, `"text"`},
		{"gzip", "gzip", zipped(body), 200, `"text"`},
		{"x-gzip", "X-GZIP", zipped(body), 200, `"text"`},
		{"zstd", "zstd", zstandard(t, body), 200, `"text"`},
		{"two frames", "zstd", zstandard(t, body[:10]) + zstandard(t, body[10:]), 200, `"text"`},
		{"as large as may be", "gzip", zipped(wide), 200, `"text"`},
		{"likewise", "zstd", zstandard(t, wide), 200, `"text"`},
		{"streamed", "zstd", streamed(t, wide, 1<<20), 200, `"text"`},
		{"gzip bomb", "gzip", zipped(bomb), 413, "larger than 1 MiB"},
		{"zstd bomb", "zstd", streamed(t, bomb, 1<<20), 413, "larger than 1 MiB"},
		{"no gzip", "gzip", body, 400, "gzip: invalid header"},
		{"no zstd", "zstd", body, 400, "Reading the request body"},
		{"nothing", "zstd", "", 400, "Reading the request body"},
		{"cut", "gzip", zipped(body)[:30], 400, "unexpected EOF"},
		{"cut", "zstd", zstandard(t, wide)[:30], 400, "unexpected EOF"},
		{"wide window", "zstd", streamed(t, bomb, 16<<20), 400, "the window is larger than 8 MiB"},
		{"wider second frame", "zstd", zstandard(t, " ") + streamed(t, wide, 1<<20), 400, "window size"},
		{"brotli", "br", body, 415, "takes gzip, zstd"},
		{"packed twice", "gzip, gzip", zipped(zipped(body)), 415, "takes gzip, zstd"},
	} {
		s := build(t, Config{Models: []Served{served(newFake("fake", "a"))}, MaxBodyBytes: most, RequestMemory: 64 << 20})
		r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(c.body))
		if c.encoding != "" {
			r.Header.Set("Content-Encoding", c.encoding)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.words) {
			t.Errorf("%s: %d %s; want %d, %q", c.name, w.Code, w.Body, c.status, c.words)
		}
		if got := w.Header().Get("Accept-Encoding"); (got == "gzip, zstd") != (c.status == 415) {
			t.Errorf("%s: Accept-Encoding is %q", c.name, got)
		}
		if n := s.bodies.read.Used() + s.bodies.decode.Used(); n != 0 {
			t.Errorf("%s: %d bytes are still held", c.name, n)
		}
	}
}

// TestUnpackingCountsItsMemory holds that unpacking is refused while there is no memory for it.
func TestUnpackingCountsItsMemory(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake", "a"))}, MaxBodyBytes: 1 << 20, RequestMemory: 8 << 20})
	r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(streamed(t, strings.Repeat(" ", 1<<20), 4<<20)))
	r.Header.Set("Content-Encoding", "zstd")
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != 503 || !strings.Contains(w.Body.String(), "too_many_bytes") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
