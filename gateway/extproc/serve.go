package extproc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Code is a status of gRPC.
type Code int

const (
	invalidArgument    Code = 3
	notFound           Code = 5
	resourceExhausted  Code = 8
	FailedPrecondition Code = 9
	unimplemented      Code = 12
	internal           Code = 13
	unavailable        Code = 14
)

// Error ends a stream with a status.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

// Invalid is an error of who sent a message.
func Invalid(format string, args ...any) *Error {
	return &Error{invalidArgument, fmt.Sprintf(format, args...)}
}

// Service is what a server does.
type Service struct {
	// Process serves the stream of a request. An error that is no *Error is the server's own.
	Process func(*Stream) error
	// Ready reports whether requests are served.
	Ready func() bool
	// Most is the most bytes of a message.
	Most int
}

// name is that of the service in gRPC.
const name = "envoy.service.ext_proc.v3.ExternalProcessor"

// ServeHTTP answers calls of gRPC, which need HTTP/2.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 2 || r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		http.Error(w, "want gRPC", http.StatusUnsupportedMediaType)
		return
	}
	in := &Stream{ctx: r.Context(), in: r.Body, out: w, most: s.Most}
	w.Header().Set("Content-Type", "application/grpc")
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush()
	var err error
	switch r.URL.Path {
	case "/" + name + "/Process":
		err = s.Process(in)
	case "/grpc.health.v1.Health/Check":
		err = s.check(in)
	default:
		err = &Error{unimplemented, "there is no method " + r.URL.Path}
	}
	e := &Error{Code: 0}
	if err != nil && !errors.As(err, &e) {
		e = &Error{internal, err.Error()}
	}
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(e.Code)))
	if e.Message != "" {
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", escaped(e.Message))
	}
}

// escaped is a text as Grpc-Message has it.
func escaped(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// check answers a health check: that the process lives, that it is ready, or that the service is.
func (s *Service) check(in *Stream) error {
	data, err := in.read()
	if err != nil {
		return err
	}
	service := ""
	if err := each(data, func(n protowire.Number, value []byte) error {
		if n == 1 {
			service = string(value)
		}
		return nil
	}, nil); err != nil {
		return Invalid("%v", err)
	}
	const serving, notServing = 1, 2
	status := uint64(serving)
	switch service {
	case "liveness":
	case "", "readiness", name:
		if !s.Ready() {
			status = notServing
		}
	default:
		return &Error{notFound, "there is no service " + service}
	}
	return in.write(appendNumber(nil, 1, status))
}

// Stream is the exchange about one HTTP request and its answer. One goroutine may use it.
type Stream struct {
	ctx  context.Context
	in   io.Reader
	out  http.ResponseWriter
	most int
}

// Context ends with the request.
func (s *Stream) Context() context.Context { return s.ctx }

// Next waits for the next message. It returns io.EOF after the last.
func (s *Stream) Next() (*Message, error) {
	data, err := s.read()
	if err != nil {
		return nil, err
	}
	m, err := decode(data)
	if err != nil {
		return nil, Invalid("%v", err)
	}
	return m, nil
}

// Send answers a message.
func (s *Stream) Send(a *Answer) error { return s.write(a.encode()) }

// Reply answers the client. Nothing else may be sent then.
func (s *Stream) Reply(i *Immediate) error { return s.write(i.encode()) }

// atOnce is how much memory the length of a message that has not come yet is trusted with.
const atOnce = 64 << 10

// read reads a message of gRPC: a byte that says whether it is compressed, its length, and so many bytes.
func (s *Stream) read() ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = Invalid("the stream ends in the head of a message")
		}
		return nil, s.gone(err)
	}
	n := int64(binary.BigEndian.Uint32(head[1:]))
	switch {
	case head[0] != 0:
		return nil, &Error{unimplemented, "compressed messages are not supported"}
	case n > int64(s.most):
		return nil, &Error{resourceExhausted, fmt.Sprintf("a message has %d bytes; at most %d are possible", n, s.most)}
	}
	var data bytes.Buffer
	data.Grow(int(min(n, atOnce)))
	if _, err := io.CopyN(&data, s.in, n); errors.Is(err, io.EOF) {
		return nil, s.gone(Invalid("the stream ends in a message"))
	} else if err != nil {
		return nil, s.gone(err)
	}
	return data.Bytes(), nil
}

// gone returns the end of the context in place of an error that followed from it.
func (s *Stream) gone(err error) error {
	if s.ctx.Err() != nil {
		return &Error{unavailable, "the stream was cancelled"}
	}
	return err
}

func (s *Stream) write(message []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	if _, err := s.out.Write(append(head, message...)); err != nil {
		return s.gone(err)
	}
	return s.gone(http.NewResponseController(s.out).Flush())
}
