package gateway

import (
	"context"
	"io"
	"net"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// picker connects a gRPC client to the gateway's picker.
func (w *world) picker() (conn *grpc.ClientConn, done func()) {
	w.t.Helper()
	s, err := w.g.Picker()
	if err != nil {
		w.t.Fatal(err)
	}
	p := &place{server: s, conns: make(chan net.Conn), closed: make(chan struct{})}
	go s.Serve(p)
	conn, err = grpc.NewClient("passthrough:///picker", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return p.dial() }))
	if err != nil {
		w.t.Fatal(err)
	}
	return conn, func() {
		conn.Close()
		s.Close()
	}
}

// inFlight counts the requests that endpoints have.
func (w *world) inFlight() (n int) {
	w.g.mu.Lock()
	defer w.g.mu.Unlock()
	for _, e := range w.g.ends {
		n += e.requests
	}
	return n
}

// proxy is what Envoy does with one request.
type proxy struct {
	t      *testing.T
	stream procv3.ExternalProcessor_ProcessClient
	mode   modev3.ProcessingMode_BodySendMode
}

func dialProxy(ctx context.Context, t *testing.T, conn *grpc.ClientConn, mode modev3.ProcessingMode_BodySendMode) *proxy {
	t.Helper()
	stream, err := procv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &proxy{t, stream, mode}
}

func headerMap(pairs ...string) *corev3.HeaderMap {
	h := &corev3.HeaderMap{}
	for i := 0; i < len(pairs); i += 2 {
		h.Headers = append(h.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return h
}

func requestHeaders(end bool, pairs ...string) *procv3.ProcessingRequest {
	pairs = append([]string{":method", "POST", ":path", "/v1/chat/completions", ":authority", "gateway", "content-type", "application/json"}, pairs...)
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestHeaders{
		RequestHeaders: &procv3.HttpHeaders{Headers: headerMap(pairs...), EndOfStream: end}}}
}

func requestBody(body string, end bool) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestBody{RequestBody: &procv3.HttpBody{Body: []byte(body), EndOfStream: end}}}
}

func responseHeaders(status string, end bool, pairs ...string) *procv3.ProcessingRequest {
	pairs = append([]string{":status", status}, pairs...)
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &procv3.HttpHeaders{Headers: headerMap(pairs...), EndOfStream: end}}}
}

func responseBody(body string, end bool) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseBody{ResponseBody: &procv3.HttpBody{Body: []byte(body), EndOfStream: end}}}
}

// noted adds an entry of a namespace to a message's metadata.
func noted(m *procv3.ProcessingRequest, space, key string, value any) *procv3.ProcessingRequest {
	s, err := structpb.NewStruct(map[string]any{key: value, "other": map[string]any{"deep": []any{1.5, true, nil}}})
	if err != nil {
		panic(err)
	}
	m.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{space: s}}
	return m
}

func (p *proxy) send(m *procv3.ProcessingRequest) {
	p.t.Helper()
	if err := p.stream.Send(m); err != nil && err != io.EOF { // of which Recv knows more
		p.t.Error(err)
	}
}

func (p *proxy) next() *procv3.ProcessingResponse {
	p.t.Helper()
	m, err := p.stream.Recv()
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

// went is where a request goes, and as what.
type went struct {
	to      string
	set     map[string]string
	removed []string
	body    string
}

// ask sends a request with a body, and returns what comes of it: an answer in place of an endpoint's, or where it went.
func (p *proxy) ask(head *procv3.ProcessingRequest, body string) (went, *procv3.ImmediateResponse) {
	p.t.Helper()
	head.ProtocolConfig = &procv3.ProtocolConfiguration{RequestBodyMode: p.mode, ResponseBodyMode: p.mode}
	p.send(head)
	w := went{set: map[string]string{}}
	var heads *procv3.CommonResponse
	if p.mode == modev3.ProcessingMode_BUFFERED {
		m := p.next()
		if i := m.GetImmediateResponse(); i != nil {
			return w, i
		}
		if m.GetRequestHeaders() == nil {
			p.t.Fatalf("the headers were answered by %v", m)
		}
		p.send(requestBody(body, true))
		if m = p.next(); m.GetImmediateResponse() != nil {
			return w, m.GetImmediateResponse()
		}
		heads = m.GetRequestBody().GetResponse()
		if w.body = body; heads.GetBodyMutation() != nil {
			w.body = string(heads.GetBodyMutation().GetBody())
		}
		w.read(p.t, heads, m)
		return w, nil
	}
	for at := 0; at < len(body) || at == 0; at += 50_000 {
		piece := body[at:min(len(body), at+50_000)]
		p.send(requestBody(piece, at+len(piece) == len(body)))
	}
	m := p.next()
	if i := m.GetImmediateResponse(); i != nil {
		return w, i
	}
	w.read(p.t, m.GetRequestHeaders().GetResponse(), m)
	for {
		piece := p.next().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if piece == nil || len(piece.Body) > 64<<10 {
			p.t.Fatalf("a piece of the body is %v", piece)
		}
		if w.body += string(piece.Body); piece.EndOfStream {
			return w, nil
		}
	}
}

func (w *went) read(t *testing.T, heads *procv3.CommonResponse, m *procv3.ProcessingResponse) {
	t.Helper()
	for _, h := range heads.GetHeaderMutation().GetSetHeaders() {
		w.set[h.Header.Key] = string(h.Header.RawValue)
		if h.AppendAction != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			t.Errorf("%s is appended: %v", h.Header.Key, h.AppendAction)
		}
	}
	w.removed = heads.GetHeaderMutation().GetRemoveHeaders()
	w.to = w.set["x-gateway-destination-endpoint"]
	lb := m.GetDynamicMetadata().GetFields()["envoy.lb"].GetStructValue().GetFields()
	if told := lb["x-gateway-destination-endpoint"].GetStringValue(); told != w.to || w.to == "" || !heads.ClearRouteCache {
		t.Errorf("the header says %q, the metadata %q, and the route is chosen anew: %v", w.to, told, heads.ClearRouteCache)
	}
}

// answer lets an endpoint answer, and returns what the client gets of the body.
func (p *proxy) answer(head *procv3.ProcessingRequest, pieces ...string) (got string) {
	p.t.Helper()
	p.send(head)
	if m := p.next(); m.GetResponseHeaders() == nil {
		p.t.Fatalf("the answer's headers were answered by %v", m)
	}
	for i, piece := range pieces {
		p.send(responseBody(piece, i == len(pieces)-1))
		m := p.next().GetResponseBody()
		switch mutation := m.GetResponse().GetBodyMutation(); {
		case m == nil:
			p.t.Fatal("a piece of the answer had no answer")
		case p.mode == modev3.ProcessingMode_FULL_DUPLEX_STREAMED:
			got += string(mutation.GetStreamedResponse().GetBody())
		case mutation != nil:
			p.t.Errorf("the answer's body is changed: %v", mutation)
		default:
			got += piece
		}
	}
	return got
}

// end waits for the stream's end, and returns its status.
func (p *proxy) end() codes.Code {
	p.t.Helper()
	for {
		if _, err := p.stream.Recv(); err == io.EOF {
			return codes.OK
		} else if err != nil {
			return status.Code(err)
		}
	}
}

var bothModes = []modev3.ProcessingMode_BodySendMode{modev3.ProcessingMode_FULL_DUPLEX_STREAMED, modev3.ProcessingMode_BUFFERED}
