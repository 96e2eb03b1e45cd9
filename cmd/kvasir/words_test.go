package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
)

func TestPlainWords(t *testing.T) {
	for in, want := range map[string]string{
		`forge: weights: x.gguf: cut`:                                                          "x.gguf: cut",
		`--context: expected a valid 64 bit int but got "abc"`:                                 `--context: "abc" is not a whole number, or too large`,
		`--seed: expected a valid 64 bit uint but got "-1"`:                                    `--seed: "-1" is not a whole number of at least 0, or too large`,
		`--gpu-memory: expected a float but got "x" (string)`:                                  `--gpu-memory: "x" is not a number`,
		`--max-queue-time: expected duration but got "5": time: missing unit in duration "5"`:  `--max-queue-time: "5" is not a time; want a number and a unit, such as 10s or 5m`,
		`--context: expected int value but got "-1" (short flag); perhaps try --context="-1"?`: "--context wants a value, and -1 looks like a flag; if it is the value, write --context=-1",
		`expected "<model> <out>"`:                                                             "missing: <model> <out>",
		`unexpected argument bogus`:                                                            `there is no command or further argument "bogus" here`,
		`unexpected argument serv, did you mean "serve"?`:                                      `there is no command or further argument "serv" here, did you mean "serve"?`,
		`unexpected argument ps, did you mean "rm"?`:                                           `there is no command or further argument "ps" here`,
		`--config: stat /a/nope.yaml: no such file or directory`:                               "--config: /a/nope.yaml: no such file or folder",
		`hub: no/such: dial tcp: lookup huggingface.co on 10.2.3.4:53: no such host`:           "no/such: there is no host huggingface.co, or no way to it",
		`text: a context of 64 tokens needs 16777216 bytes of KV cache; there are 1024`:        "a context of 64 tokens needs 16.0 MiB of KV cache; there are 1024",
		`forge: m.gguf exists already`:                                                         "m.gguf exists already; --force replaces it",
		`an array of 12 bytes`:                                                                 "an array of 12 bytes",
	} {
		if got := misread(errors.New(in)); got != want {
			t.Errorf("%q is worded\n%q; want\n%q", in, got, want)
		}
	}
}

func TestInstead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"gateway", file}, "kvasir gateway serve --config " + file},
		{[]string{"gateway", "config", file}, "kvasir gateway config --config " + file},
		{[]string{"gateway", file + "x"}, "kvasir gateway serve --help"},
		{[]string{"version", file}, "kvasir version --help"},
	} {
		var pe *kong.ParseError
		if _, err := newParser(&cli{}).Parse(tt.args); !errors.As(err, &pe) {
			t.Fatalf("%q: got %v; want a ParseError", tt.args, err)
		}
		if got := instead(pe); got != tt.want {
			t.Errorf("%q: got %q; want %q", tt.args, got, tt.want)
		}
	}
}
