package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/fault"
)

// TestScripts runs the scripts in testdata/api. In each, "model" says what a fake model answers, piece by piece, and
// "get" and "post" are requests, whose answers are shown with ids and times blotted out.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/api", func(t *testing.T, path string) {
		fake := newFake("fake", "Hello", " world", "!")
		cfg := Config{Version: "v0", Models: []Served{{Model: fake, Engine: fake, Vocabulary: fake, Aliases: []string{"org/alias"}, Root: "/models/fake"}}, Ping: -1}
		s := build(t, cfg)
		defer func() { s.Close() }()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "model":
				return script(t, fake, d)
			case "server":
				cfg := cfg
				configure(t, &cfg, d)
				s.Close()
				s = build(t, cfg)
				return ""
			case "drain":
				s.Drain()
				return ""
			case "get", "post", "options", "delete":
				return exchange(t, s, d)
			}
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

func build(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// configure reads the arguments of "server".
func configure(t *testing.T, cfg *Config, d *datadriven.TestData) {
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "keys":
			for _, secret := range a.Vals {
				cfg.Keys = append(cfg.Keys, Key{Secret: secret})
			}
		case "admin":
			cfg.AdminKeys = a.Vals
		case "origins":
			cfg.AllowedOrigins = a.Vals
		case "body":
			cfg.MaxBodyBytes, _ = strconv.ParseInt(a.Vals[0], 10, 64)
		case "adapters":
			cfg.AdapterRoot = a.Vals[0]
		case "second":
			cfg.Models = append(cfg.Models, served(newFake(a.Vals[0], "Second.")))
		default:
			t.Fatalf("%s: unknown argument %s", d.Pos, a.Key)
		}
	}
}

// script reads what the fake is to do. Its pieces are quoted, one to a line.
func script(t *testing.T, m *fakeModel, d *datadriven.TestData) string {
	m.finish, m.stop, m.refuse, m.fail, m.sick, m.asked = "stop", "", nil, nil, nil, nil
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "finish":
			m.finish = a.Vals[0]
		case "stop":
			m.stop = a.Vals[0]
		case "refuse":
			m.refuse = map[string]error{"full": engine.ErrQueueFull, "closed": engine.ErrClosed,
				"late": engine.ErrTimeout,
				"bad":  fault.New(engine.FieldMaxTokens, "too many")}[a.Vals[0]]
		case "fail":
			m.fail = errors.New("the logits are not numbers")
		case "sick":
			m.sick = errors.New("step 7 hangs")
		case "encoder":
			m.info.Encoder, m.info.CrossEncoder = true, a.Vals[0] == "cross"
		default:
			t.Fatalf("%s: unknown argument %s", d.Pos, a.Key)
		}
	}
	if d.Input != "" {
		m.pieces = nil
	}
	for line := range strings.Lines(d.Input) {
		piece, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("%s: %q: %v", d.Pos, line, err)
		}
		m.pieces = append(m.pieces, piece)
	}
	return ""
}

var varying = regexp.MustCompile(`((?:cmpl|rerank|score|pool|classify|embd)-|"id":"|(?:resp|msg|rs|fc|fco)_|"request_id":")[0-9A-Z]{26}` +
	`|("(?:created|created_at|completed_at)":)[0-9]+` +
	`|("created_at":")[0-9T:-]+[.][0-9]+Z|("(?:[a-z_]+_duration|(?:prompt|predicted)_ms|[a-z]+_per_second)":)[0-9.e+-]+`)

// exchange sends a request and shows the answer: the status, the headers that matter, the body.
func exchange(t *testing.T, s *Server, d *datadriven.TestData) string {
	target := d.CmdArgs[0].Key
	if v := d.CmdArgs[0].Vals; len(v) > 0 { // it has a query
		target += "=" + v[0]
	}
	r := httptest.NewRequest(strings.ToUpper(d.Cmd), target, strings.NewReader(d.Input))
	if d.Cmd == "post" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, a := range d.CmdArgs[1:] {
		r.Header.Set(a.Key, strings.Join(a.Vals, " "))
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	checkDescribed(t, s, s.routed(r), w)
	out := fmt.Sprintf("%d %s\n", w.Code, http.StatusText(w.Code))
	var names []string
	for name := range w.Header() {
		switch name {
		case "Content-Length", "Server", requestID, "Request-Id":
		default:
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		if name == "Content-Type" && w.Header().Get(name) == "application/json" {
			continue
		}
		out += name + ": " + varying.ReplaceAllString(strings.Join(w.Header()[name], ", "), "${1}${2}${3}${4}…") + "\n"
	}
	if w.Header().Get("Content-Type") == "application/octet-stream" {
		return out + fmt.Sprintf("%x\n", w.Body.Bytes())
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return out + strings.ReplaceAll(varying.ReplaceAllString(w.Body.String(), "${1}${2}${3}${4}…"), here, "/here")
}
