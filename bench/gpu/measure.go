package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// ours is the name of kvasir among the servers.
const ours = "kvasir"

// campaign measures groups of the report. Each result is written as soon as there is one, so that an end loses nothing.
type campaign struct {
	*reporter
	wanted                                bool
	rows, from, file, known, docs, models string
	link                                  float64
	which                                 string // series of the model that peers serve
	peers                                 []peer
	data                                  data
	least                                 map[string]float64 // seconds of tests' parts, by flags and test
}

// flags are those of the report.
func (c *campaign) flags(f *flag.FlagSet) {
	f.BoolVar(&c.wanted, "report", false, "measure kvasir beside other servers in the rows of --rows, and nothing else")
	f.StringVar(&c.rows, "rows", strings.Join(groupNames(), ","), "--report: the groups of rows to measure, or a model of one, as in 'packed/8b U4'")
	f.StringVar(&c.from, "from", "", "render the report of this file of results, and measure nothing")
	f.StringVar(&c.file, "data", "gpu.json", "--report: the file of results, to which new ones are added")
	f.StringVar(&c.known, "known", "", "figures of other servers that were measured before, in a file like that of --data; those of vLLM on an H200 if not given, none if -")
	f.StringVar(&c.docs, "docs", "", "also write the report to the marked part of gpu.md in this folder, and its plots to the folder plots there")
	f.StringVar(&c.models, "models", os.TempDir(), "--report: the folder of the model file that is served, which is used again if it is there")
	f.Float64Var(&c.link, "link", 54.4, "--report: GB/s of the link to the device, which TestSpeedOfLoading measures")
	f.StringVar(&c.which, "peer-series", bf16, "--report: the model that peers serve, as the report calls it")
}

// run measures groups, adds to what the file of data has, and renders the report.
func (c *campaign) run(ctx context.Context) (err error) {
	for name := range strings.SplitSeq(c.rows, ",") {
		if name, _, _ := strings.Cut(name, "/"); !slices.Contains(groupNames(), name) {
			return fmt.Errorf("no rows %q; there are %s", name, strings.Join(groupNames(), ", "))
		}
	}
	c.least = map[string]float64{}
	if c.data, err = readData(c.file); err != nil {
		return err
	}
	err = c.measure(ctx)
	if len(c.failing) > 0 {
		err = errors.Join(err, fmt.Errorf("failed: %s", strings.Join(c.failing, "; ")))
	}
	return errors.Join(err, render(c.w, c.data, c.known, c.docs))
}

// renderFrom renders the report of a file.
func (c *campaign) renderFrom() error {
	d, err := readData(c.from)
	if err != nil {
		return err
	}
	return render(c.w, d, c.known, c.docs)
}

// wants reports whether a group is to be measured, or a series of it; "" is any.
func (c *campaign) wants(g group, series string) bool {
	for name := range strings.SplitSeq(c.rows, ",") {
		if of, only, part := strings.Cut(name, "/"); of == g.name && (!part || series == "" || only == series) {
			return true
		}
	}
	return false
}

// measure measures the groups that were asked for.
func (c *campaign) measure(ctx context.Context) error {
	served := false
	for _, g := range groups {
		if !c.wants(g, "") {
			continue
		}
		if len(g.loads) > 0 && len(g.loads[0].floor.tests) > 0 {
			c.try(ctx, g.name+", floors", func() error { return c.floors(ctx, g) })
		}
		for _, s := range g.steps {
			if !c.wants(g, s.series) {
				continue
			}
			c.try(ctx, g.name+", "+s.series, func() error { return c.measureSteps(ctx, g, s) })
		}
		served = served || g.starts
		for _, l := range g.loads {
			if !c.wants(g, l.series) {
				continue
			}
			if served = served || l.flags == ""; l.flags != "" {
				c.try(ctx, g.name+", "+l.row, func() error { return c.measureLoad(ctx, g, l, ours, "--device", c.device) })
			}
		}
	}
	if served {
		c.try(ctx, ours, func() error { return c.serveFile(ctx) })
	}
	for _, p := range c.peers {
		c.try(ctx, p.name, func() error { return c.serve(ctx, p, c.peerURL) })
	}
	return ctx.Err()
}

// try notes what could not be measured.
func (c *campaign) try(ctx context.Context, what string, f func() error) {
	if ctx.Err() != nil {
		return
	}
	begin := time.Now()
	if err := f(); err != nil {
		c.failing = append(c.failing, what)
		fmt.Fprintf(os.Stderr, "gpu: %s: %v\n", what, err)
	}
	fmt.Fprintf(os.Stderr, "gpu: %s: %.1f s\n", what, time.Since(begin).Seconds())
}

// add keeps a result.
func (c *campaign) add(r result) error {
	for metric, v := range r.Values {
		r.Values[metric] = digits(v)
	}
	r.Floor, r.Device = digits(r.Floor), c.gpu
	c.data.add(r)
	return c.data.write(c.file)
}

// ask runs kvasir and reads the JSON that it prints, also before it fails.
func (c *campaign) ask(ctx context.Context, into any, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	p := exec.CommandContext(ctx, c.kvasir, args...)
	var said bytes.Buffer
	p.Stderr = &said
	out, err := p.Output()
	if broken := json.Unmarshal(out, into); err == nil {
		err = broken
	}
	if err != nil {
		text := said.Bytes()
		return fmt.Errorf("kvasir %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(text[max(0, len(text)-600):]))
	}
	return nil
}

// bench runs kvasir bench model.
func (c *campaign) bench(ctx context.Context, flags, tests string, more ...string) ([]row, error) {
	args := append([]string{"bench", "model", "--device", c.device, "--json", "--tests", tests}, strings.Fields(flags)...)
	var rows []row
	return rows, c.ask(ctx, &rows, append(args, more...)...)
}

// measureSteps measures the tests of one model.
func (c *campaign) measureSteps(ctx context.Context, g group, s steps) error {
	rows, failed := c.bench(ctx, s.flags, s.tests, "--choose", "-r", "3")
	for _, x := range rows {
		t, err := parseTest(x.Test)
		if err != nil || x.Speed <= 0 {
			return errors.Join(err, fmt.Errorf("%s: %v tokens a second", x.Test, x.Speed))
		}
		took := float64(x.Tokens) / x.Speed // seconds
		r := result{Group: g.name, Series: s.series, Row: t.String(), Server: ours, Values: map[string]float64{
			stepTime: took / t.parts() * 1e3, tokenRate: x.Speed,
		}}
		if t.rows > 0 {
			r.Values[operations] = x.Operations / took / 1e3
		}
		if x.Floor > 0 {
			r.Floor = float64(x.Tokens) / x.Floor / t.parts() * 1e3
		}
		if err := c.add(r); err != nil {
			return err
		}
	}
	return failed
}

// measureLoad measures a load on a server, or on a model in the client's process.
func (c *campaign) measureLoad(ctx context.Context, g group, m measuredLoad, name string, where ...string) error {
	args := func(flags string) []string {
		all := append([]string{"bench", "load", "--json"}, strings.Fields(flags)...)
		if name == ours {
			all = append(all, strings.Fields(m.flags+" "+m.scheduling)...)
		}
		return append(all, where...)
	}
	var l, beside load
	var other guard.Group
	if m.beside != "" {
		other.Start(func() error {
			time.Sleep(besideAfter)
			return c.ask(ctx, &beside, args(m.beside)...)
		})
	}
	err := errors.Join(c.ask(ctx, &l, args(m.load)...), other.Wait())
	switch {
	case err != nil:
		return err
	case l.Failed+beside.Failed > 0:
		return fmt.Errorf("%s: %d requests failed: %v %v", m.row, l.Failed+beside.Failed, l.Errors, beside.Errors)
	case l.E2E.Mean == 0:
		return errors.New("no request was answered")
	}
	r := result{Group: g.name, Series: m.series, Row: m.row, Server: name, Values: m.values(l, beside)}
	r.Floor = c.leastOf(m, isRate(g.metrics[0]))
	return c.add(r)
}

// besideAfter is when a second load begins: the prompts of the first are computed then.
const besideAfter = 1500 * time.Millisecond

// floors finds the least times of what the floors of a group's loads add up.
func (c *campaign) floors(ctx context.Context, g group) error {
	wanted := map[string][]string{} // tests by flags
	for _, m := range g.loads {
		if !c.wants(g, m.series) {
			continue
		}
		for _, t := range m.floor.tests {
			wanted[m.model()] = appendNew(wanted[m.model()], t)
		}
	}
	for flags, tests := range wanted {
		if len(tests) == 0 {
			continue
		}
		rows, err := c.bench(ctx, flags, strings.Join(tests, ","), "-r", "0")
		if err != nil {
			return err
		}
		for _, x := range rows {
			if t, err := parseTest(x.Test); err != nil {
				return err
			} else if x.Floor > 0 {
				c.least[flags+x.Test] = float64(x.Tokens) / x.Floor / t.parts()
			}
		}
	}
	return nil
}

// leastOf returns the floor of a load: milliseconds, or the rate of its tokens; 0 if it is not known.
func (c *campaign) leastOf(m measuredLoad, rate bool) float64 {
	if m.floor.bytes > 0 {
		return m.floor.bytes / c.link / 1e6
	}
	seconds := 0.0
	for i, t := range m.floor.tests {
		least := c.least[m.model()+t]
		if least == 0 {
			return 0
		}
		seconds += m.floor.times[i] * least
	}
	if rate && seconds > 0 {
		return m.floor.tokens / seconds
	}
	return seconds * 1e3
}

// served is the file that kvasir serves.
func (c *campaign) served() string { return filepath.Join(c.models, "8b-bf16.gguf") }

// serveFile writes a model's file, unless it is there, and measures kvasir serving it.
func (c *campaign) serveFile(ctx context.Context) error {
	file := c.served()
	if _, err := os.Stat(file); err != nil {
		args := append([]string{"bench", "write", file + ".part"}, strings.Fields(bf16Flags)...)
		if text, err := c.command(ctx, c.kvasir, args...); err != nil {
			return errors.Join(fmt.Errorf("kvasir bench write: %w: %s", err, bytes.TrimSpace(text)), os.Remove(file+".part"))
		}
		if err := os.Rename(file+".part", file); err != nil {
			return err
		}
	}
	// No request is refused because others wait: the load has no more clients than it has.
	command := fmt.Sprintf("exec '%s' serve '%s' --device %s --port %d --max-queue-time 0", c.kvasir, file, c.device, ownPort)
	return c.serve(ctx, peer{ours, command}, fmt.Sprintf("http://127.0.0.1:%d/v1", ownPort))
}

const (
	ownPort = 8011
	vocab   = "128000" // of prompts: fewer tokens than models have, sent as numbers, so that each server gets the same
)

// serve starts a server, measures its start and the loads of all groups that are wanted, and ends it.
func (c *campaign) serve(ctx context.Context, p peer, url string) error {
	begin, series := time.Now(), c.which
	if p.name == ours {
		series = bf16
	}
	return c.started(ctx, p, url, func(model string) error {
		if err := c.first(ctx, url, model); err != nil {
			return err
		}
		took := time.Since(begin).Seconds()
		var failed error
		for _, g := range groups {
			switch {
			case !c.wants(g, series):
			case g.starts:
				r := result{Group: g.name, Series: series, Row: "process start to first token", Server: p.name, Values: map[string]float64{seconds: took}}
				if info, err := os.Stat(c.served()); err == nil && p.name == ours {
					r.Floor = float64(info.Size()) / c.link / 1e9
				}
				failed = errors.Join(failed, c.add(r))
			default:
				for _, l := range g.loads {
					if c.takes(p, l) {
						failed = errors.Join(failed, c.measureLoad(ctx, g, l, p.name, "--url", url, "--completions", "--vocab", vocab, model))
					}
				}
			}
		}
		return failed
	})
}

// takes reports whether a load is measured on a server: kvasir takes those of its file, others all but kvasir's
// own.
func (c *campaign) takes(p peer, l measuredLoad) bool {
	if l.clients > 0 && !slices.Contains(strings.Split(c.clients, ","), strconv.Itoa(l.clients)) {
		return false
	}
	if p.name == ours {
		return l.flags == ""
	}
	return l.series == c.which && !l.own
}

// first asks a server for one token, until it gives one.
func (c *campaign) first(ctx context.Context, url, model string) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	body, err := json.Marshal(map[string]any{"model": model, "prompt": "the", "max_tokens": 1})
	if err != nil {
		return err
	}
	for {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/completions", bytes.NewReader(body))
		if err != nil {
			return err
		}
		q.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(q)
		if err == nil {
			if err = a.Body.Close(); err == nil && a.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no token from %s: %w", url, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}
