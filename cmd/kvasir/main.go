// Command kvasir serves large language models: it runs one in the terminal, serves it over HTTP, fetches models and
// shows what is in them. This package knows flags and terminals; the work is done below. Read cli first.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/kvasir-llm/kvasir/bench"
	"github.com/kvasir-llm/kvasir/bench/fleet"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/guard"
)

// cli is the command line.
type cli struct {
	Run        runCmd        `cmd:"" help:"Answer a prompt, or chat in the terminal."`
	Serve      serveCmd      `cmd:"" help:"Serve models over HTTP with the OpenAI API."`
	Batch      batchCmd      `cmd:"" help:"Answer a file of requests, without a server."`
	Ps         psCmd         `cmd:"" help:"List the models that a server has in memory."`
	Stop       stopCmd       `cmd:"" help:"Make a model leave the memory of a server."`
	Gateway    gatewayCmd    `cmd:"" help:"Be one front door for many engines and providers."`
	Pull       pullCmd       `cmd:"" help:"Fetch a model from the hub into the local cache."`
	List       listCmd       `cmd:"" aliases:"ls" help:"List the models that can be served without fetching."`
	Show       showCmd       `cmd:"" help:"Show what is in a model."`
	Rm         rmCmd         `cmd:"" help:"Remove a fetched model from the local cache."`
	Convert    convertCmd    `cmd:"" help:"Convert a model between safetensors and GGUF."`
	Quantize   quantizeCmd   `cmd:"" help:"Quantise a model to a GGUF file."`
	Perplexity perplexityCmd `cmd:"" help:"Measure how well a model predicts a text."`
	Bench      benchCmd      `cmd:"" help:"Measure models, kernels and servers."`
	Debug      debugCmd      `cmd:"" help:"Look inside: logits, tokens, prompts, tensors. Stable JSON for scripts."`
	Health     healthCmd     `cmd:"" help:"Ask a server whether it is well."`
	Devices    devicesCmd    `cmd:"" help:"List the devices that models can run on."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
	Reference  referenceCmd  `cmd:"" hidden:"" help:"Print the reference of all commands and flags."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Help       helpCmd       `cmd:"" help:"Show help of a command."`

	ShowVersion bool `name:"version" hidden:"" help:"Print the version."`
}

// helpCmd is only listed: run puts --help in its place.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command."`
}

func (helpCmd) Help() string { return "Examples:\n  kvasir help\n  kvasir help serve" }

// Exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() { os.Exit(run(os.Args[1:])) }

// run parses and executes one command line and returns its exit code.
func run(args []string) int {
	var c cli
	parser := newParser(&c)
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help" && !slices.Contains(args, "--help"):
		args = append(args[1:], "--help")
	case args[0] == "--version":
		args = []string{"version"}
	}
	for i, arg := range args {
		if err := checkText(fmt.Sprintf("argument %d", i+1), arg); err != nil {
			fmt.Fprintf(os.Stderr, "kvasir: %v\n", err)
			return exitUsage
		}
	}
	code := -1
	parser.Exit = func(n int) { code = n } // after --help
	parsed, err := parser.Parse(args)
	if code >= 0 {
		return code
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "kvasir: %s\n", misread(err))
		var pe *kong.ParseError
		if errors.As(err, &pe) && pe.Context != nil {
			fmt.Fprintf(os.Stderr, "Try: %s\n", instead(pe))
		}
		return exitUsage
	}
	guard.BoundGarbage()
	ctx := untilSignal()
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.Bind(parser)
	err = parsed.Run()
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, new(usageError)):
		fmt.Fprintf(os.Stderr, "kvasir: %s\n", forPeople(err))
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "kvasir: %s\n", forPeople(err))
	return exitFailure
}

// endings receives the signals that tell the program to end. nil is a question, which quiet answers once the signals
// that came before it are seen to.
var (
	endings = make(chan os.Signal, 2)
	quiet   = make(chan struct{})
)

// untilSignal returns a context that ends with the first signal to end. The second one ends the program at once.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signal.Notify(endings, os.Interrupt, syscall.SIGTERM)
	guard.Go(func() error {
		for told := 0; told < 2; {
			if s := <-endings; s == nil {
				quiet <- struct{}{}
			} else {
				told++
				cancel()
			}
		}
		return nil
	}, func(error) { os.Exit(exitInterrupted) })
	return ctx
}

// heedNoSignal lets further signals to end do what they do to other programs. Those that came before have ended
// untilSignal's context when it returns.
func heedNoSignal() {
	signal.Stop(endings)
	endings <- nil
	<-quiet
}

func newParser(c *cli) *kong.Kong {
	return kong.Must(c,
		kong.Name("kvasir"),
		kong.Description("Serve large language models with one binary.\n\nExamples:\n  kvasir run \"What is a KV cache?\"\n  kvasir serve --port 8000"),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		choices(),
		kong.Vars{"recipes": strings.Join(forge.Recipes(), ", "), "packed": strings.Join(bench.PackedTypes(), " and "), "faults": fleet.Faults.Help(), "shapes": strings.Join(bench.ShapeNames(), ", "), "context": "Most tokens of prompt and answer together; 0 is what the model was made for, or what fits."},
	)
}

// choices lists what flags take, and what that means.
func choices() kong.Vars { return text.Choices() }

// commandPath returns the command as it was typed so far, such as "kvasir debug logits".
func commandPath(ctx *kong.Context) string {
	path := "kvasir"
	for _, p := range ctx.Path {
		if p.Command != nil {
			path += " " + p.Command.Name
		}
	}
	return path
}

// instead is a command to try after one that was not understood: with --config, if it takes that, before a file that
// was named without.
func instead(e *kong.ParseError) string {
	path, file := commandPath(e.Context), ""
	if n, _ := fmt.Sscanf(e.Error(), "unexpected argument %s", &file); n == 1 {
		info, err := os.Stat(file)
		takes := slices.ContainsFunc(e.Context.Flags(), func(f *kong.Flag) bool { return f.Name == "config" })
		if takes && err == nil && info.Mode().IsRegular() {
			return path + " --config " + file
		}
	}
	return path + " --help"
}

// usageError is a command line that parses but cannot be meant.
type usageError struct{ problem string }

func (e usageError) Error() string { return e.problem }

// printJSON prints one value in one line.
func printJSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// await returns what f returns, or ctx's error as soon as ctx ends: f, which knows no context, is left behind then, as
// the program is about to end.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	var value T
	done := make(chan error, 1)
	guard.Go(func() (err error) { value, err = f(); return err }, func(err error) { done <- err })
	select {
	case err := <-done:
		return value, err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
