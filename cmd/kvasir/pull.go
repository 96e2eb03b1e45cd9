package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/kvasir-llm/kvasir/hub"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

type pullCmd struct {
	Model string `arg:"" help:"owner/name, with :TAG for a GGUF quantisation or @REVISION."`
}

func (pullCmd) Help() string {
	return `Models lie where Hugging Face's own tools keep them: HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE
are read as they read them. An interrupted download goes on where it was.

Examples:
  kvasir pull Qwen/Qwen3-0.6B
  kvasir pull Qwen/Qwen3-0.6B-GGUF:Q8_0
  HF_TOKEN=hf_… kvasir pull meta-llama/Llama-3.2-1B-Instruct`
}

func (c *pullCmd) Run(ctx context.Context) error {
	path, err := pull(ctx, c.Model, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Println(path)
	return nil
}

// pull fetches a model and shows the progress on w: bars on a terminal, a line for each event elsewhere.
func pull(ctx context.Context, name string, w *os.File) (string, error) {
	if name == builtin.Name {
		return "", usageError{name + " is part of the program"}
	}
	n, err := hub.ParseName(name)
	if err != nil {
		return "", err
	}
	client, err := hub.FromEnv(os.Getenv)
	if err != nil {
		return "", err
	}
	client.UserAgent = "kvasir/" + version()
	if !term.IsTerminal(int(w.Fd())) {
		return client.Pull(ctx, n, plainProgress(w))
	}
	bars := mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(120*time.Millisecond))
	path, err := client.Pull(ctx, n, barProgress(bars))
	if err != nil {
		bars.Shutdown() // draws what there is for the last time
		return "", err
	}
	bars.Wait()
	return path, nil
}

// plainProgress prints a line when a file's state changes and for each tenth of it.
func plainProgress(w io.Writer) func(hub.Event) {
	tenths := map[string]int64{}
	states := map[string]hub.State{}
	return func(e hub.Event) {
		tenth := int64(-1)
		if e.Total > 0 {
			tenth = e.Done * 10 / e.Total
		}
		if states[e.File] == e.State && (e.State != hub.Downloading || tenths[e.File] == tenth) {
			return
		}
		states[e.File], tenths[e.File] = e.State, tenth
		switch {
		case e.Reason != nil:
			fmt.Fprintln(w, trouble(e))
		case e.Total > 0 && e.State != hub.Queued:
			fmt.Fprintf(w, "%s: %s %s of %s\n", e.File, e.State, bytes(e.Done), bytes(e.Total))
		case e.File != "":
			fmt.Fprintf(w, "%s: %s\n", e.File, e.State)
		}
	}
}

// trouble says what keeps a file, or the listing of files, from coming.
func trouble(e hub.Event) string {
	what := e.File
	if what == "" {
		what = "hub"
	}
	return fmt.Sprintf("%s: %s: %v", what, e.State, e.Reason)
}

// barProgress draws a bar for each file. A bar's state is atomic, not locked: the goroutine that draws the bar reads
// it, and changing the bar waits for that goroutine.
func barProgress(p *mpb.Progress) func(hub.Event) {
	type fileBar struct {
		*mpb.Bar
		state *atomic.Value // a hub.State
	}
	bars := map[string]fileBar{}
	return func(e hub.Event) {
		if e.Reason != nil {
			fmt.Fprintln(p, trouble(e)) // above the bars
		}
		if e.File == "" {
			return
		}
		bar, ok := bars[e.File]
		if !ok {
			state := new(atomic.Value)
			state.Store(e.State)
			bar = fileBar{p.AddBar(max(e.Total, 0),
				mpb.PrependDecorators(decor.Name(e.File, decor.WCSyncSpaceR)),
				mpb.AppendDecorators(
					decor.CountersKibiByte("% .1f / % .1f", decor.WCSyncSpace),
					decor.Any(func(decor.Statistics) string { return string(state.Load().(hub.State)) }, decor.WC{W: 12}),
				)), state}
			bars[e.File] = bar
		}
		bar.state.Store(e.State)
		if e.Total > 0 {
			bar.SetTotal(e.Total, false)
		}
		bar.SetCurrent(e.Done)
		if e.State == hub.Done || e.State == hub.Cached {
			bar.SetTotal(-1, true)
		}
	}
}
