package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

type healthCmd struct {
	URL     string        `name:"url" help:"The server." default:"http://127.0.0.1:8000" env:"KVASIR_URL" placeholder:"URL"`
	Timeout time.Duration `help:"How long to wait for its answer." default:"5s"`
}

func (healthCmd) Help() string {
	return `The exit status is 0 if the server is well, and 1 if it does not answer, still loads or is unwell.

Examples:
  kvasir health
  kvasir health --url https://llm.example.org --timeout 1s`
}

func (c *healthCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	url := strings.TrimRight(c.URL, "/") + "/health"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return usageError{fmt.Sprintf("--url %q is no URL: %v", c.URL, err)}
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the server at %s does not answer: %w", c.URL, rootOf(err))
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 1000)) // what came before an error is good enough
	return fmt.Errorf("the server at %s is not well: %s: %s", c.URL, answer.Status, strings.TrimSpace(string(said)))
}
