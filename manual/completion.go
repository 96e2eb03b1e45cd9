package manual

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// Complete writes a completion script for a shell: bash, zsh or fish.
func Complete(w io.Writer, parser *kong.Kong, shell string) {
	var rows []completion
	collect(parser.Model.Node, "", &rows)
	switch shell {
	case "bash":
		bashCompletion(w, rows)
	case "zsh":
		fmt.Fprintln(w, "autoload -U compinit bashcompinit\n(( $+functions[compdef] )) || compinit\nbashcompinit")
		bashCompletion(w, rows)
	case "fish":
		fishCompletion(w, rows)
	}
}

// completion is what can follow one command: subcommands or arguments of a fixed set, and flags.
type completion struct {
	path  string // "", "run", "debug logits", …
	words []candidate
	flags []candidate // with their dashes
}

type candidate struct{ text, help string }

func collect(n *kong.Node, path string, out *[]completion) {
	row := completion{path: path}
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		row.words = append(row.words, candidate{child.Name, child.Help})
	}
	for _, arg := range n.Positional {
		if arg.Enum == "" {
			continue
		}
		for _, value := range arg.EnumSlice() {
			row.words = append(row.words, candidate{value, arg.Help})
		}
	}
	for _, f := range n.Flags {
		if !f.Hidden {
			row.flags = append(row.flags, candidate{"--" + f.Name, f.Help})
		}
	}
	*out = append(*out, row)
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		collect(child, strings.TrimSpace(path+" "+child.Name), out)
	}
}

// bashCompletion offers flags after a dash, and else words; where there are none, bash offers files.
func bashCompletion(w io.Writer, rows []completion) {
	fmt.Fprint(w, `_kvasir() {
  local current=${COMP_WORDS[COMP_CWORD]} path="" words="" flags="" i
  for ((i = 1; i < COMP_CWORD && i < 3; i++)); do
    [[ ${COMP_WORDS[i]} == -* ]] && break
    path="${path:+$path }${COMP_WORDS[i]}"
  done
  case "$path" in
`)
	for i := len(rows) - 1; i >= 0; i-- { // longest paths first
		r := rows[i]
		pattern := strconv.Quote(r.path)
		if r.path != "" {
			pattern += "|" + strconv.Quote(r.path+" ") + "*"
		}
		fmt.Fprintf(w, "    %s) words=%q flags=%q ;;\n", pattern, texts(r.words), texts(r.flags))
	}
	fmt.Fprint(w, `  esac
  [[ $current == -* ]] && words=$flags
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _kvasir kvasir
`)
}

func texts(list []candidate) string {
	var out []string
	for _, c := range list {
		out = append(out, c.text)
	}
	return strings.Join(out, " ")
}

func fishCompletion(w io.Writer, rows []completion) {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }
	for _, r := range rows {
		when := "__fish_use_subcommand"
		if r.path != "" {
			when = "__fish_seen_subcommand_from " + strings.ReplaceAll(r.path, " ", "; and __fish_seen_subcommand_from ")
		}
		for _, c := range r.words {
			fmt.Fprintf(w, "complete -c kvasir -f -n %s -a %s -d %s\n", quote(when), c.text, quote(c.help))
		}
		for _, c := range r.flags {
			fmt.Fprintf(w, "complete -c kvasir -n %s -l %s -d %s\n", quote(when), strings.TrimPrefix(c.text, "--"), quote(c.help))
		}
	}
}
