package guard

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestConnectionsOfAnAddress(t *testing.T) {
	l := newListener(nil, 5, 2, slog.New(slog.DiscardHandler))
	at := func(ip string) netip.Prefix { return origin(&net.TCPAddr{IP: net.ParseIP(ip), Port: 1}) }
	for i, c := range []struct {
		ip string
		ok bool
	}{
		{"10.0.0.1", true}, {"10.0.0.1", true}, {"10.0.0.1", false}, {"::ffff:10.0.0.1", false}, {"10.0.0.2", true},
		{"2001:db8::1", true}, {"2001:db8::2:1", true}, {"2001:db8:0:1::1", false}, // the fifth was the last of all
	} {
		if got := l.enter(at(c.ip)); got != c.ok {
			t.Errorf("%d: %s: %v", i, c.ip, got)
		}
	}
	l.leave(at("10.0.0.1"))
	if l.enter(at("2001:db8::3")) || !l.enter(at("10.0.0.1")) {
		t.Error("the place of 10.0.0.1 is not its own")
	}
	if len(l.each) != 3 || l.open != 5 {
		t.Errorf("%d open, of %v", l.open, l.each)
	}
}

// pipes is a listener in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// behind answers with h behind a door, and calls f with a client of HTTP of a version.
func behind(t *testing.T, version int, h http.HandlerFunc, f func(*http.Client)) {
	synctest.Test(t, func(t *testing.T) {
		d := Door{Accept: time.Minute, Log: slog.New(slog.DiscardHandler)}
		ln := make(pipes)
		s := d.Server(h)
		Go(func() error { return s.Serve(d.Listen(ln)) }, func(error) {})
		transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}, DialContext: func(context.Context, string, string) (net.Conn, error) {
			a, b := net.Pipe()
			ln <- a
			return b, nil
		}}
		transport.Protocols.SetHTTP1(version == 1)
		transport.Protocols.SetUnencryptedHTTP2(version == 2)
		f(&http.Client{Transport: transport})
		transport.CloseIdleConnections()
		close(ln)
		s.Close()
	})
}

// TestAnswerThatTakesLong holds that an answer may take longer to make than a client may take to accept a piece of it,
// as a whole and between two pieces, and that the next one on its connection may, too.
func TestAnswerThatTakesLong(t *testing.T) {
	for version := 1; version <= 2; version++ {
		behind(t, version, func(w http.ResponseWriter, r *http.Request) {
			a := NewAnswer(w, r, time.Second)
			defer a.End()
			time.Sleep(time.Minute)
			if strings.HasPrefix(r.URL.Path, "/pieces") {
				io.WriteString(a, "one ")
				http.NewResponseController(a).Flush()
				time.Sleep(time.Minute)
			}
			io.WriteString(a, "two")
			time.Sleep(time.Minute)
		}, func(client *http.Client) {
			for path, want := range map[string]string{"/whole": "two", "/pieces": "one two"} {
				resp, err := client.Get("http://door" + path)
				if err != nil {
					t.Fatalf("HTTP/%d %s: %v", version, path, err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(got) != want || err != nil || resp.ProtoMajor != version {
					t.Errorf("%s %s: %q, %v; want %q", resp.Proto, path, got, err, want)
				}
			}
		})
	}
}

// TestOptionsOfAll holds that OPTIONS * is the handler's, too: net/http would wait for its body, without an end.
func TestOptionsOfAll(t *testing.T) {
	for version := 1; version <= 2; version++ {
		behind(t, version, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, func(client *http.Client) {
			r := &http.Request{Method: http.MethodOptions, URL: &url.URL{Scheme: "http", Host: "door", Path: "*"}}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatalf("HTTP/%d: %v", version, err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusTeapot {
				t.Errorf("HTTP/%d: status %d; want the handler's", version, resp.StatusCode)
			}
		})
	}
}

// TestAnswerNobodyTakes holds that a client that accepts nothing is given up, also where the handler has returned.
func TestAnswerNobodyTakes(t *testing.T) {
	for version := 1; version <= 2; version++ {
		for _, size := range []int{100 << 10, 1 << 20} {
			ended := make(chan time.Duration, 1)
			behind(t, version, func(w http.ResponseWriter, r *http.Request) {
				began := time.Now()
				a := NewAnswer(w, r, time.Second)
				a.Write(make([]byte, size))
				a.End()
				ended <- time.Since(began)
			}, func(client *http.Client) {
				resp, err := client.Get("http://door/")
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				time.Sleep(time.Minute)
				if n, err := io.Copy(io.Discard, resp.Body); err == nil {
					t.Errorf("HTTP/%d: after a minute the client still gets all %d bytes", version, n)
				}
				resp.Body.Close()
			})
			if took := <-ended; took > 2*time.Second {
				t.Errorf("HTTP/%d: %d bytes were being written for %v", version, size, took)
			}
		}
	}
}

// TestStreamsEndedAtOnce holds that a connection rests for a second once its client has ended 16 streams of HTTP/2
// within a second before their answers began, and not for streams that were answered, or for fewer.
func TestStreamsEndedAtOnce(t *testing.T) {
	for _, test := range []struct {
		path string
		n    int
		gap  time.Duration
		want time.Duration
	}{{"/none", mostResets - 1, 0, 0}, {"/none", mostResets, 0, time.Second}, {"/some", 2 * mostResets, 0, 0}, {"/none", 2 * mostResets, 100 * time.Millisecond, 0}} {
		behind(t, 2, func(w http.ResponseWriter, r *http.Request) {
			a := NewAnswer(w, r, time.Minute)
			defer a.End()
			if r.URL.Path == "/some" {
				io.WriteString(a, "some")
				http.NewResponseController(a).Flush()
			}
			if r.URL.Path != "/" {
				<-r.Context().Done()
			}
		}, func(client *http.Client) {
			for range test.n {
				ctx, end := context.WithCancel(context.Background())
				r, err := http.NewRequestWithContext(ctx, "GET", "http://door"+test.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					if resp, err := client.Do(r); err == nil {
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}()
				synctest.Wait()
				end()
				<-done
				time.Sleep(test.gap)
			}
			synctest.Wait()
			began := time.Now()
			resp, err := client.Get("http://door/")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if took := time.Since(began); took != test.want {
				t.Errorf("after %d streams of %s, one each %v: an answer after %v; want %v", test.n, test.path, test.gap, took, test.want)
			}
		})
	}
}
