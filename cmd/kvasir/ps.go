package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// serverFlags say which server a command asks.
type serverFlags struct {
	URL string `name:"url" help:"Where the server answers." default:"http://127.0.0.1:8000" env:"KVASIR_URL" placeholder:"URL"`
	Key string `name:"key" help:"A key for the server; stop needs the admin key." env:"KVASIR_KEY" placeholder:"KEY"`
}

// askTimeout is how long a server may take to tell what it does, which needs no model.
const askTimeout = 30 * time.Second

// ask sends a request to the server and decodes its answer.
func (f serverFlags) ask(ctx context.Context, method, path, body string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(f.URL, "/")+path, strings.NewReader(body))
	if err != nil {
		return usageError{fmt.Sprintf("--url %q is no URL: %v", f.URL, err)}
	}
	if f.Key != "" {
		r.Header.Set("Authorization", "Bearer "+f.Key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("the server at %s does not answer: %w (kvasir serve starts one, --url names another)", f.URL, rootOf(err))
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var e struct {
			Error struct{ Message string }
		}
		json.Unmarshal(data, &e)
		return errors.New(cmp.Or(e.Error.Message, resp.Status))
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s%s does not answer as kvasir does: %w", f.URL, path, err)
	}
	return nil
}

type psCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
	serverFlags
}

func (psCmd) Help() string {
	return `Examples:
  kvasir ps
  kvasir ps --url http://10.0.0.7:8000 --key secret`
}

func (c *psCmd) Run(ctx context.Context) error {
	var answer struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := c.ask(ctx, "GET", "/models", "", &answer); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(answer.Data)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tSIZE\tDEVICE\tCONTEXT\tREQUESTS\tSTAYS")
	for _, raw := range answer.Data {
		var m struct {
			ID, State, Device string
			Progress          float64
			Size              int64
			Context           int
			Running, Waiting  int
			Pinned            bool
			Leaves            time.Time
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		stays := "until its memory is needed"
		switch {
		case m.Pinned:
			stays = "always"
		case m.Running > 0:
			stays = "while it answers"
		case !m.Leaves.IsZero():
			stays = time.Until(m.Leaves).Round(time.Second).String()
		}
		if m.State == "unloading" {
			stays = "-"
		}
		if m.State == "loading" {
			m.State, stays = fmt.Sprintf("loading, %.0f%%", 100*m.Progress), "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d running, %d waiting\t%s\n", m.ID, m.State, bytes(m.Size), cmp.Or(m.Device, "-"),
			m.Context, m.Running, m.Waiting, stays)
	}
	return w.Flush()
}

type stopCmd struct {
	Model string `arg:"" help:"A model that kvasir ps lists."`
	serverFlags
}

func (stopCmd) Help() string {
	return `The model leaves memory when its requests have ended. A later request loads it again.

Examples:
  kvasir stop Qwen/Qwen3-0.6B
  kvasir stop small --url http://10.0.0.7:8000 --key admin-key`
}

func (c *stopCmd) Run(ctx context.Context) error {
	body, err := json.Marshal(map[string]string{"model": c.Model})
	if err != nil {
		return err
	}
	return c.ask(ctx, "POST", "/models/unload", string(body), new(any))
}
