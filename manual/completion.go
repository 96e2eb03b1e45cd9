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

type candidate struct {
	text, help string
	values     []string // of a flag with a fixed set
	bare       bool     // of a flag without a value
}

func collect(n *kong.Node, path string, out *[]completion) {
	row := completion{path: path}
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		row.words = append(row.words, candidate{text: child.Name, help: child.Help})
	}
	for _, arg := range n.Positional {
		if arg.Enum == "" {
			continue
		}
		for _, value := range arg.EnumSlice() {
			row.words = append(row.words, candidate{text: value, help: arg.Help})
		}
	}
	for _, f := range n.Flags {
		if f.Hidden {
			continue
		}
		c := candidate{text: "--" + f.Name, help: f.Help, bare: f.IsBool()}
		if f.Enum != "" {
			c.values = f.EnumSlice()
		}
		row.flags = append(row.flags, c)
	}
	*out = append(*out, row)
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		collect(child, strings.TrimSpace(path+" "+child.Name), out)
	}
}

// bashCompletion offers flags after a dash, values after a flag with a fixed set of them, and else words; where there
// are none, bash offers files.
func bashCompletion(w io.Writer, rows []completion) {
	fmt.Fprint(w, `_kvasir() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path="" words="" flags="" i
  [[ $current == = ]] && current=""
  [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}
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
  case "$path $before" in
`)
	for _, r := range slices.Backward(rows) {
		for _, c := range r.flags {
			if len(c.values) > 0 {
				fmt.Fprintf(w, "    %s) words=%q ;;\n", r.after(c), strings.Join(c.values, " "))
			}
		}
	}
	fmt.Fprint(w, `  esac
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

// after is what a case matches the words before the cursor with where a flag is the last of them.
func (r *completion) after(flag candidate) string {
	return fmt.Sprintf("%q|%q*%q", r.path+" "+flag.text, r.path+" ", " "+flag.text)
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
  case "$command ${words[CURRENT-1]}" in
`)
	for _, r := range slices.Backward(rows) {
		for _, c := range r.flags {
			if len(c.values) > 0 {
				fmt.Fprintf(w, "    %s) choices=(%s) ;;\n", r.after(c), strings.Join(c.values, " "))
			}
		}
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
			value := " -r"
			switch {
			case len(c.values) > 0:
				value = " -x -a " + quote(strings.Join(c.values, " "))
			case c.bare:
				value = ""
			}
			fmt.Fprintf(w, "complete -c kvasir -n %s -l %s%s -d %s\n", quote(when), strings.TrimPrefix(c.text, "--"), value, quote(c.help))
		}
	}
}
