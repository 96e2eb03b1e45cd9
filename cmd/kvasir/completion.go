package main

import (
	"os"

	"github.com/alecthomas/kong"

	"github.com/kvasir-llm/kvasir/manual"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCmd) Help() string {
	return `Examples:
  source <(kvasir completion bash)
  source <(kvasir completion zsh)
  kvasir completion fish > ~/.config/fish/completions/kvasir.fish`
}

func (c *completionCmd) Run(parser *kong.Kong) error {
	manual.Complete(os.Stdout, parser, c.Shell)
	return nil
}

type referenceCmd struct {
	Format string `enum:"markdown,man" default:"markdown" help:"markdown, or man for a manual page." placeholder:"NAME"`
}

func (referenceCmd) Help() string {
	return `Examples:
  kvasir reference > docs/reference.md
  kvasir reference --format man > kvasir.1`
}

func (c *referenceCmd) Run(parser *kong.Kong) error {
	if c.Format == "man" {
		return manual.Man(os.Stdout, parser, version())
	}
	return manual.Markdown(os.Stdout, parser)
}
