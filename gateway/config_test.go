package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestFourLines reads the smallest configuration.
func TestFourLines(t *testing.T) {
	c, err := Parse("fleet.yaml", []byte(`listen: 127.0.0.1:9000
models:
- name: kvasir-mini
  endpoints: [http://127.0.0.1:9001, http://127.0.0.1:9002]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Model{{Name: "kvasir-mini", Upstream: "kvasir-mini", Endpoints: []Endpoint{
		{URL: "http://127.0.0.1:9001", MaxInFlight: 256}, {URL: "http://127.0.0.1:9002", MaxInFlight: 256},
	}}}
	if d := cmp.Diff(want, c.Models); d != "" {
		t.Error(d)
	}
	if c.Listen != "127.0.0.1:9000" || c.Retries != 2 || c.Queue.MaxWait != 30*time.Second {
		t.Errorf("%+v", c)
	}
}

// whole has every key.
const whole = `listen: :80
models:
- name: a
  aliases: [b, c]
  upstream: org/a
  endpoints:
  - url: https://x/v1/
    key_env: X_KEY
    max_in_flight: 7
    context: 4096
    cost: 0.5
    zone: here
  - http://y/base
  policy: {prefix: 3, queue: 1.5}
  fallbacks: [d]
  resume: true
  shadow: {model: d, share: 0.5}
  batch: {wait: 5ms, tokens: 100}
  semantic: {model: d, threshold: 0.9}
  cache: 5m
  price: {input: 0.15, cached: 0.075, output: 0.6}
  limits: [{what: total_tokens, per: 1h, most: 1e6}]
- {name: d, endpoints: [http://z], policy: latency}
- name: e
  split: {a: 9, d: 1}
- name: f
  lengths: [{up_to: 100, model: a}, {model: d}]
keys:
- name: k
  hash: sha256:0000000000000000000000000000000000000000000000000000000000000000
  team: t
  old_hash: sha256:1000000000000000000000000000000000000000000000000000000000000000
  old_until: "2027-01-01T00:00:00Z"
  expires: "2028-01-01T00:00:00+01:00"
  models: [a, b]
  paths: [/v1/completions]
  limits: [{what: requests, per: 1m, most: 60}, {what: cost, per: month, most: 0.5, model: a}]
  max_in_flight: 4
  weight: 2.5
  priority: -1
  priorities: [-1, 3]
  users: true
  admin: true
queue: {max_waiting: 5, max_wait: 10s, down_wait: 0s}
timeouts: {connect: 1s, first_byte: 1m, idle: 30s, total: 1h}
retries: 0
health: {path: /ping, interval: 1s, timeout: 1s, eject_after: 2, eject_for: 5s, metrics: ""}
prefix: {block_bytes: 128, blocks: 1000}
zone: here
max_body: 1000
access_log: "-"
cache: {url: "rediss://localhost", bytes: 7, vectors: 9}
teams: [{name: t, limits: [{what: output_tokens, per: ever, most: 7}]}]
state: {url: "redis://localhost", on_failure: open, timeout: 100ms}
`

// TestPrintedIsReadAgain prints a configuration in full, and reads what it printed.
func TestPrintedIsReadAgain(t *testing.T) {
	for _, text := range []string{whole, "models: [{name: m, endpoints: [http://a]}]"} {
		c, err := Parse("fleet.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		printed, err := c.Print()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("printed.yaml", []byte(printed))
		if err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if d := cmp.Diff(c, again); d != "" {
			t.Errorf("%s\n%s", d, printed)
		}
	}
	c, _ := Parse("fleet.yaml", []byte(whole))
	if e := c.Models[0].Endpoints; e[0].URL != "https://x" || e[1].URL != "http://y/base" || c.Health.Metrics != "" || c.Queue.DownWait != 0 {
		t.Errorf("%+v", c)
	}
}

// TestMistakes are refused with the line and the nearest key.
func TestMistakes(t *testing.T) {
	const m = "models: [{name: m, endpoints: [http://a]}]\n"
	for text, want := range map[string]string{
		"":                           "fleet.yaml: it is empty",
		"listen: :80\nmodells: []\n": "fleet.yaml:2: modells: unknown key; did you mean models?",
		"models:\n- name: m\n  endpoint: [http://a]\n": "fleet.yaml:3: models[0].endpoint: unknown key; did you mean endpoints?",
		m + "health:\n  intervall: 1s\n":               "fleet.yaml:3: health.intervall: unknown key; did you mean interval?",
		m + "x: 1\n":                                   "fleet.yaml:2: x: unknown key; the keys here are listen, tls, models, keys, queue,",
		m + "retries: two\n":                           `fleet.yaml:2: retries: "two"; want a whole number`,
		m + "retries: -1\n":                            "fleet.yaml:2: retries: -1 is too low",
		m + "retries: 1\nretries: 2\n":                 "fleet.yaml:3: retries: it is there twice",
		m + "zone: 7\n":                                "fleet.yaml:2: zone: expected a text, found 7; put it in quotes",
		m + "queue: 7\n":                               `fleet.yaml:2: queue: expected keys with values, found "7"`,
		m + "queue: {max_wait: 7}\n":                   `queue.max_wait: "7"; want a time such as 500ms`,
		m + "---\n" + m:                                "more than one document",
		m + "queue: {max_unused: 1.1}\n":               "queue.max_unused: 1.1; want a share from 0 to 1",
		m + "queue: {max_unused: .nan}\n":              "queue.max_unused: NaN; want a share from 0 to 1",
		"models: m\n":                                  `fleet.yaml:1: models: expected a list, found "m"`,
		"models: []\n":                                 "fleet.yaml:1: models: there is none",
		"listen: :80\n":                                "models: there is none",
		"models:\n- endpoints: [http://a]\n":           "fleet.yaml:2: models[0].name: it is missing",
		"models:\n- name: m\n":                         "fleet.yaml:2: models[0]: a model has endpoints, a split or lengths",
		"models:\n- name: m\n  endpoints:\n  - http://a\n  - 127.0.0.1:8\n":                                                                  `fleet.yaml:5: models[0].endpoints[1].url: "127.0.0.1:8"; want a URL such as`,
		"models: [{name: m, endpoints: [http://a, http://a/v1]}]\n":                                                                          "http://a is there twice",
		"models: [{name: m, endpoints: [{url: http://a, cost: -1}]}]\n":                                                                      "cost -1",
		"models:\n- {name: m, endpoints: [http://a]}\n- {name: n, endpoints: [{url: http://a, zone: x}]}\n":                                  "fleet.yaml:3: models[1].endpoints[0]: http://a is in an earlier model with other settings",
		"models:\n- {name: m, endpoints: [http://a]}\n- {name: n, aliases: [m], endpoints: [http://a]}\n":                                    `fleet.yaml:3: models[1]: the name "m" is that of models[0], too`,
		"models: [{name: m, endpoints: [http://a], policy: fast}]\n":                                                                         `policy is "fast"; want one of balanced,`,
		"models: [{name: m, endpoints: [http://a], policy: {speed: 1}}]\n":                                                                   `scorer is "speed"; want one of`,
		"models: [{name: m, endpoints: [http://a], policy: {queue: x}}]\n":                                                                   `models[0].policy.queue: "x"; want a number`,
		"models: [{name: m, endpoints: [http://a], fallbacks: [m]}]\n":                                                                       `"m" is no other model's name`,
		"models: [{name: m, split: {x: 1}}]\n":                                                                                               `"x" is no other model's name`,
		"models: [{name: m, endpoints: [http://a]}, {name: n, split: {m: 1}}, {name: o, split: {n: 1}}]\n":                                   `"n" is divided itself`,
		"models: [{name: m, endpoints: [http://a]}, {name: n, split: {m: 0}}]\n":                                                             `the weight of "m" is 0`,
		m + "keys: [{name: k, hash: secret}]\n":                                                                                              "keys[0].hash: want sha256: and 64",
		m + "keys: [{name: k, hash: 'sha256:" + strings.Repeat("a", 64) + "'}, {name: l, hash: 'sha256:" + strings.Repeat("A", 64) + "'}]\n": "keys[1].hash: want",
		m + "keys: [{hash: x}]\n": "keys[0].name",
		m + "keys: [{name: k, hash: 'sha256:" + strings.Repeat("0", 64) + "', models: [x]}]\n":                                   `there is no model "x"`,
		m + "keys: [{name: k, hash: 'sha256:" + strings.Repeat("0", 64) + "', weight: -1}]\n":                                    "below 0",
		m + "keys: [{name: k, hash: 'sha256:" + strings.Repeat("0", 64) + "', team: x}]\n":                                       `there is no team "x"`,
		m + "keys: [{name: k, hash: 'sha256:" + strings.Repeat("0", 64) + "', expires: soon}]\n":                                 `keys[0].expires: "soon"; want a time`,
		m + "keys: [{name: k, hash: 'sha256:" + strings.Repeat("0", 64) + "', old_until: soon}]\n":                               "belong together",
		m + "keys: [{name: k, hash: 'sha256:" + strings.Repeat("0", 64) + "', paths: [/metrics]}]\n":                             "no requests to \"/metrics\"",
		m + "teams: [{name: t, limits: [{what: tokens, per: 1m, most: 1}]}]\n":                                                   `teams[0].limits[0]: what is "tokens"`,
		m + "teams: [{name: t}, {name: t}]\n":                                                                                    "no other team has",
		m + "state: {url: mysql://x}\n":                                                                                          "state.url: meter:",
		m + "state: {on_failure: shut}\n":                                                                                        "want closed or open",
		"models: [{name: m, endpoints: [http://a], price: {input: -1}}]\n":                                                       "models[0].price: a price is -1",
		"models: [{name: m, endpoints: [http://a], limits: [{what: cost, per: 1m, most: 1, model: x}]}]\n":                       `there is no model "x"`,
		"models: [{name: m, endpoints: [http://a], limits: [{what: cost, per: 1m, most: 1}, {what: cost, per: 1m, most: 2}]}]\n": "an earlier limit",
		m + "health: {path: ping}\n":                                                                                             "want a path that begins with /",
		"a: &x 1\nmodels: *x\n":                                                                                                  "unknown key",
		"models: &x [{name: m, endpoints: [http://a]}]\nkeys: *x\n":                                                              "anchors and aliases are not supported",
		"models: [\n": "did not find",
	} {
		if _, err := Parse("fleet.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n%v\nwant %s", text, err, want)
		}
	}
}

// FuzzParse holds that no text makes the reader panic, and that what it takes can be printed and read again.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("models: [{name: m, endpoints: [http://a]}]")
	f.Add("models: [{name: m, endpoints: [http://a], policy: {queue: .inf}}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("x", []byte(text))
		if err != nil {
			return
		}
		printed, err := c.Print()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse("x", []byte(printed)); err != nil || cmp.Diff(c, again) != "" {
			t.Fatalf("%v\n%s\n%s", err, printed, cmp.Diff(c, again))
		}
	})
}
