package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCmd) Help() string {
	return `Examples:
  source <(kvasir completion bash)
  kvasir completion zsh > "${fpath[1]}/_kvasir"
  kvasir completion fish > ~/.config/fish/completions/kvasir.fish`
}

func (c *completionCmd) Run(parser *kong.Kong) error {
	var rows []completion
	collect(parser.Model.Node, "", &rows)
	switch c.Shell {
	case "bash":
		bashCompletion(os.Stdout, rows)
	case "zsh":
		fmt.Println("#compdef kvasir\nautoload -U bashcompinit && bashcompinit")
		bashCompletion(os.Stdout, rows)
	case "fish":
		fishCompletion(os.Stdout, rows)
	}
	return nil
}

// completion is what can follow one command: subcommands and flags with their help.
type completion struct {
	path  string // "", "run", "debug logits", …
	words []string
	help  []string
}

func collect(n *kong.Node, path string, out *[]completion) {
	row := completion{path: path}
	for _, child := range n.Children {
		row.words, row.help = append(row.words, child.Name), append(row.help, child.Help)
	}
	for _, f := range n.Flags {
		if !f.Hidden {
			row.words, row.help = append(row.words, "--"+f.Name), append(row.help, f.Help)
		}
	}
	*out = append(*out, row)
	for _, child := range n.Children {
		collect(child, strings.TrimSpace(path+" "+child.Name), out)
	}
}

func bashCompletion(w io.Writer, rows []completion) {
	fmt.Fprint(w, `_kvasir() {
  local current=${COMP_WORDS[COMP_CWORD]} path="" i
  for ((i = 1; i < COMP_CWORD && i < 3; i++)); do
    [[ ${COMP_WORDS[i]} == -* ]] && break
    path="${path:+$path }${COMP_WORDS[i]}"
  done
  case "$path" in
`)
	for i := len(rows) - 1; i >= 0; i-- { // longest paths first
		pattern := `"` + rows[i].path + `"`
		if rows[i].path != "" {
			pattern += `|"` + rows[i].path + ` "*`
		}
		fmt.Fprintf(w, "    %s) COMPREPLY=($(compgen -W %q -- \"$current\")) ;;\n", pattern, strings.Join(rows[i].words, " "))
	}
	fmt.Fprint(w, "  esac\n}\ncomplete -o default -F _kvasir kvasir\n")
}

func fishCompletion(w io.Writer, rows []completion) {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }
	for _, r := range rows {
		when := "__fish_use_subcommand"
		if r.path != "" {
			when = "__fish_seen_subcommand_from " + strings.ReplaceAll(r.path, " ", "; and __fish_seen_subcommand_from ")
		}
		for i, word := range r.words {
			if flag, ok := strings.CutPrefix(word, "--"); ok {
				fmt.Fprintf(w, "complete -c kvasir -n %s -l %s -d %s\n", quote(when), flag, quote(r.help[i]))
			} else {
				fmt.Fprintf(w, "complete -c kvasir -f -n %s -a %s -d %s\n", quote(when), word, quote(r.help[i]))
			}
		}
	}
}
