package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// queries returns the queries of Grafana's dashboard by their panels, as Grafana would ask them.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("../packaging/compose/grafana/gateway.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			all[p.Title] = append(all[p.Title], strings.NewReplacer("$__rate_interval", "10s", "$model", ".*").Replace(q.Expr))
		}
	}
	if len(all) < 18 {
		t.Fatalf("the dashboard has %d panels; want more", len(all))
	}
	return all
}

// bustle is a gateway that does all that it has metrics of, each time that it is asked to.
type bustle struct {
	door   *httptest.Server
	client *http.Client
}

func newBustle(t *testing.T) *bustle {
	t.Helper()
	fine := httptest.NewServer(&engine{name: "fine"})
	t.Cleanup(fine.Close)
	embeds := embedder("embeds")
	inner := httptest.NewServer(embeds)
	t.Cleanup(inner.Close)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Error(w, "oh no", 500)
		}
	}))
	t.Cleanup(broken.Close)
	c, err := Parse("fleet.yaml", fmt.Appendf(nil, `
models:
- {name: m, endpoints: [%[1]q], cache: 1h, shadow: {model: n}, price: {input: 1, output: 1}}
- {name: n, endpoints: [%[1]q], price: {input: 1, output: 1}}
- {name: bad, endpoints: [%[3]q]}
- {name: e, endpoints: [%[2]q], batch: {wait: 500ms, inputs: 2}}
health: {eject_after: 1000000}
retries: 0
`, fine.URL, inner.URL, broken.URL))
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(c, Options{Logger: slog.New(slog.DiscardHandler), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := &bustle{door: httptest.NewServer(g), client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		b.door.Close()
		g.Close()
	})
	return b
}

// work asks for everything once.
func (b *bustle) work(ctx context.Context) error {
	post := func(path, body string, status int) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.door.URL+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		res, err := b.client.Do(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		said, err := io.ReadAll(res.Body)
		if res.StatusCode != status {
			return fmt.Errorf("%s %s: status %d: %s", path, body, res.StatusCode, said)
		}
		return err
	}
	joined := make(chan error, 2)
	for range 2 {
		go func() { joined <- post("/v1/embeddings", `{"model":"e","input":["x"]}`, 200) }()
	}
	for _, err := range []error{
		post("/v1/chat/completions", strings.Replace(streamed, "hi", unique(), 1), 200), post("/v1/chat/completions", streamed, 200),
		post("/v1/chat/completions", strings.Replace(plain, `"m"`, `"bad"`, 1), 500), <-joined, <-joined,
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

var (
	selector = regexp.MustCompile(`((?:kvasir|gen_ai|process)_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)(?:=~|!=|=)"`)
	grouping = regexp.MustCompile(`by \(([^)]*)\)`)
)

// TestDashboard holds that every metric that a query of the dashboard names is there, with every label that the query
// selects or groups by.
func TestDashboard(t *testing.T) {
	b := newBustle(t)
	if err := b.work(t.Context()); err != nil {
		t.Fatal(err)
	}
	page := ""
	for deadline := time.Now().Add(time.Minute); !strings.Contains(page, "shadow_request_seconds_bucket{"); {
		res, err := b.client.Get(b.door.URL + "/metrics")
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no copies are counted: %v", err)
		}
		data, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		page = string(data)
	}
	labels := map[string][]string{}
	for line := range strings.Lines(page) {
		if name := regexp.MustCompile(`^\w+`).FindString(line); name != "" {
			labels[name] = []string{"job", "instance"} // which Prometheus adds
			for _, l := range matcher.FindAllStringSubmatch(line, -1) {
				labels[name] = append(labels[name], l[1])
			}
		}
	}
	for title, all := range queries(t) {
		for _, q := range all {
			found := selector.FindAllStringSubmatch(q, -1)
			var wanted []string
			for _, g := range grouping.FindAllStringSubmatch(q, -1) {
				wanted = append(wanted, strings.Split(g[1], ", ")...)
			}
			if len(found) == 0 {
				t.Errorf("%s asks for nothing: %s", title, q)
			}
			for _, s := range found {
				for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
					wanted = append(wanted, m[1])
				}
				if s[1] == "gen_ai_token_type" || s[1] == "gen_ai_operation_name" { // labels
					continue
				}
				have, ok := labels[s[1]]
				for _, l := range wanted {
					ok = ok && slices.Contains(have, l)
				}
				if !ok {
					t.Errorf("%s: %s is there with %v; the query wants %v", title, s[1], have, wanted)
				}
			}
		}
	}
}

// TestDashboardInPrometheus lets Prometheus scrape a busy gateway and answer every query of the dashboard.
func TestDashboardInPrometheus(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed (apt install prometheus)")
	}
	b := newBustle(t)
	dir := t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := ln.Addr().String()
	ln.Close()
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: gateway, static_configs: [{targets: [%q]}]}]\n", b.door.Listener.Addr())
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", at)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	ask := func(q string) (series int, err error) {
		res, err := b.client.Get("http://" + at + "/api/v1/query?query=" + url.QueryEscape(q))
		if err != nil {
			return 0, nil // it does not listen yet
		}
		defer res.Body.Close()
		var said struct {
			Status, Error string
			Data          struct{ Result []json.RawMessage }
		}
		if err := json.NewDecoder(res.Body).Decode(&said); err != nil || res.StatusCode == http.StatusServiceUnavailable {
			return 0, nil // it is not ready yet
		}
		if said.Status != "success" {
			return 0, fmt.Errorf("%s", said.Error)
		}
		return len(said.Data.Result), nil
	}
	deadline := time.Now().Add(3 * time.Minute)
	for title, all := range queries(t) {
		for _, q := range all {
			q = strings.ReplaceAll(q, "[10s]", "[1m]")
			for {
				if err := b.work(t.Context()); err != nil {
					t.Fatal(err)
				}
				n, err := ask(q)
				if err != nil {
					t.Errorf("%s: %s: %v", title, q, err)
				}
				if err != nil || n > 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: %s has no answer", title, q)
				}
			}
		}
	}
}
