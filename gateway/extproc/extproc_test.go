package extproc

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// full is a message with all that is read.
func full() *procv3.ProcessingRequest {
	lb, err := structpb.NewStruct(map[string]any{"text": "a", "list": []any{"b", "c", 1.0}, "none": []any{}, "number": 7.0})
	if err != nil {
		panic(err)
	}
	return &procv3.ProcessingRequest{
		Request: &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: &procv3.HttpHeaders{EndOfStream: true, Headers: &corev3.HeaderMap{
			Headers: []*corev3.HeaderValue{{Key: ":path", RawValue: []byte("/v1")}, {Key: "x-a", Value: "1"}, {Key: "x-a", RawValue: []byte("2")}},
		}}},
		MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb": lb}},
		ProtocolConfig: &procv3.ProtocolConfiguration{
			RequestBodyMode: modev3.ProcessingMode_FULL_DUPLEX_STREAMED, ResponseBodyMode: modev3.ProcessingMode_STREAMED},
		ObservabilityMode: true,
	}
}

// TestDecode reads what the official types write.
func TestDecode(t *testing.T) {
	data, err := proto.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(data)
	want := &Message{
		Part: RequestHeaders, End: true, Observe: true, Modes: &Modes{FullDuplex, streamed},
		Headers:  http.Header{":path": {"/v1"}, "X-A": {"1", "2"}},
		Metadata: map[string]map[string][]string{"envoy.lb": {"text": {"a"}, "list": {"b", "c"}, "none": {}, "number": {}}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for n := range len(data) { // a part of a message is an error, or another message, but no panic
		decode(data[:n])
	}
}

// FuzzDecode reads what may be anything, and agrees with the official types on what part it is of, and on bodies.
func FuzzDecode(f *testing.F) {
	data, err := proto.Marshal(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("\x22\x03\x0a\x01x"))
	f.Add([]byte("\x0b\x0c"))
	f.Add([]byte("\x22\x09\x0a\x01x\x08\x01\x10\x01\x10\x00")) // the body's field as a number; the last end counts
	f.Add([]byte("\x3a\x02\x18\x00\x58\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decode(data)
		var official procv3.ProcessingRequest
		if err != nil || proto.Unmarshal(data, &official) != nil {
			return
		}
		set := official.ProtoReflect().WhichOneof(official.ProtoReflect().Descriptor().Oneofs().ByName("request"))
		if set == nil || string(set.Name()) != m.Part.String() {
			t.Fatalf("%x: %+v; want %v", data, m, &official)
		}
		var body []byte
		var end bool
		switch b := official.Request.(type) {
		case *procv3.ProcessingRequest_RequestBody:
			body, end = b.RequestBody.Body, b.RequestBody.EndOfStream
		case *procv3.ProcessingRequest_ResponseBody:
			body, end = b.ResponseBody.Body, b.ResponseBody.EndOfStream
		case *procv3.ProcessingRequest_RequestHeaders:
			end = b.RequestHeaders.EndOfStream
		case *procv3.ProcessingRequest_ResponseHeaders:
			end = b.ResponseHeaders.EndOfStream
		default: // trailers
			end = true
		}
		if !bytes.Equal(body, m.Body) || end != m.End || official.ObservabilityMode != m.Observe {
			t.Errorf("%x: %+v; want %v", data, m, &official)
		}
	})
}

// TestEncode writes what the official types read.
func TestEncode(t *testing.T) {
	a := &Answer{
		Part: RequestBody, Set: [][2]string{{"a", "1"}}, Remove: []string{"b"}, Reroute: true, Duplex: true, Body: []byte("xyz"), End: true,
		Metadata: map[string]map[string]string{"envoy.lb": {"k": "v"}},
	}
	var got procv3.ProcessingResponse
	if err := proto.Unmarshal(a.encode(), &got); err != nil {
		t.Fatal(err)
	}
	c := got.GetRequestBody().GetResponse()
	piece := c.GetBodyMutation().GetStreamedResponse()
	h := c.GetHeaderMutation()
	if !c.ClearRouteCache || string(piece.Body) != "xyz" || !piece.EndOfStream || len(h.SetHeaders) != 1 ||
		h.SetHeaders[0].Header.Key != "a" || string(h.SetHeaders[0].Header.RawValue) != "1" || fmt.Sprint(h.RemoveHeaders) != "[b]" ||
		got.DynamicMetadata.Fields["envoy.lb"].GetStructValue().Fields["k"].GetStringValue() != "v" {
		t.Errorf("%v", &got)
	}
	i := &Immediate{Status: 503, Headers: [][2]string{{"a", "1"}}, Body: []byte("no"), Why: "because"}
	if err := proto.Unmarshal(i.encode(), &got); err != nil {
		t.Fatal(err)
	}
	if r := got.GetImmediateResponse(); r.Status.Code != 503 || string(r.Body) != "no" || r.Details != "because" || len(r.Headers.SetHeaders) != 1 {
		t.Errorf("%v", r)
	}
	for part := RequestHeaders; part <= responseTrailers; part++ {
		if err := proto.Unmarshal((&Answer{Part: part, Set: [][2]string{{"a", "1"}}}).encode(), &got); err != nil {
			t.Fatal(err)
		}
		set := got.ProtoReflect().WhichOneof(got.ProtoReflect().Descriptor().Oneofs().ByName("response"))
		if set == nil || string(set.Name()) != part.String() {
			t.Errorf("an answer to %v is one to %v", part, set)
		}
	}
}

// TestHostileCalls sends what no client of gRPC would.
func TestHostileCalls(t *testing.T) {
	s := &http.Server{Protocols: new(http.Protocols), Handler: &Service{
		Process: func(s *Stream) error {
			_, err := s.Next()
			return err
		},
		Ready: func() bool { return true }, Most: 1000,
	}}
	s.Protocols.SetUnencryptedHTTP2(true)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(ln)
	defer s.Close()
	own := &http.Transport{Protocols: s.Protocols}
	defer own.CloseIdleConnections()
	call := func(path string, body []byte) string {
		r, err := http.NewRequestWithContext(context.Background(), "POST", "http://"+ln.Addr().String()+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc")
		res, err := own.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		io.Copy(io.Discard, res.Body)
		return res.Trailer.Get("Grpc-Status") + " " + res.Trailer.Get("Grpc-Message")
	}
	frame := func(flag byte, length uint32, data string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{flag}, length), data...)
	}
	const process = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
	for _, c := range []struct {
		path string
		body []byte
		want string
	}{
		{process, frame(1, 1, "x"), "12 compressed"},
		{process, frame(0, 1<<31, "x"), "8 a message has 2147483648 bytes"},
		{process, frame(0, 100, "x"), "3 the stream ends in a message"},
		{process, []byte{0, 0}, "3 the stream ends in the head"},
		{process, frame(0, 3, "\xff\xff\xff"), "3 the message is no protobuf"},
		{process, frame(0, 0, ""), "3 the message has no part"},
		{process, nil, "13 EOF"},
		{"/grpc.health.v1.Health/Watch", nil, "12 there is no method"},
		{"/grpc.health.v1.Health/Check", frame(0, 2, "\x0a\x05"), "3 "},
	} {
		if got := call(c.path, c.body); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s with %x ends with %q; want %q", c.path, c.body, got, c.want)
		}
	}
	res, err := http.DefaultClient.Get("http://" + ln.Addr().String() + process)
	if err == nil {
		res.Body.Close()
		t.Errorf("HTTP/1 got status %d", res.StatusCode)
	}
}
