package manual

import (
	"fmt"
	"io"
	"slices"
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
		zshCompletion(w, rows)
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
	for _, r := range slices.Backward(rows) { // longest paths first
		fmt.Fprintf(w, "    %s) words=%q flags=%q ;;\n", r.pattern(), texts(r.words), texts(r.flags))
	}
	fmt.Fprint(w, `  esac
  [[ $current == -* ]] && words=$flags
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _kvasir kvasir
`)
}

// pattern is what a case of bash and zsh matches the words before the cursor with.
func (r *completion) pattern() string {
	if r.path == "" {
		return `""`
	}
	return fmt.Sprintf("%q|%q*", r.path, r.path+" ")
}

// zshCompletion offers the same with what help says of it. The script can be sourced, or be the file _kvasir in a
// folder of $fpath.
func zshCompletion(w io.Writer, rows []completion) {
	fmt.Fprint(w, `#compdef kvasir
_kvasir() {
  local command="" i
  local -a choices flags
  for ((i = 2; i < CURRENT && i < 4; i++)); do
    [[ ${words[i]} == -* ]] && break
    command="${command:+$command }${words[i]}"
  done
  case "$command" in
`)
	described := func(list []candidate) string {
		var out []string
		for _, c := range list {
			out = append(out, "'"+strings.ReplaceAll(c.text+":"+c.help, "'", `'\''`)+"'")
		}
		return strings.Join(out, " ")
	}
	for _, r := range slices.Backward(rows) {
		fmt.Fprintf(w, "    %s) choices=(%s) flags=(%s) ;;\n", r.pattern(), described(r.words), described(r.flags))
	}
	fmt.Fprint(w, `  esac
  if [[ $PREFIX == -* ]]; then
    _describe -o flag flags
  elif (( $#choices )); then
    _describe command choices
  else
    _files
  fi
}
if [[ ${funcstack[1]} == _kvasir ]]; then
  _kvasir "$@"
else
  (( $+functions[compdef] )) || { autoload -U compinit && compinit; }
  compdef _kvasir kvasir
fi
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
