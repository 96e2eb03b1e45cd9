// Package manual writes what the program's commands and flags say of themselves: a page of Markdown, a manual page, and
// completion scripts for shells.
package manual

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-runewidth"
)

// section is what the reference says of one command.
type section struct {
	name     string // "serve", "bench load"
	usage    string
	help     string
	detail   string // paragraphs
	examples string // lines, indented
	flags    []flagGroup
}

// flagGroup is the flags under one title; "" is the command's own.
type flagGroup struct {
	title string
	flags [][2]string // as they are written, and their help
}

// sections describes the commands that do something, in the order of the program's help.
func sections(n *kong.Node, path string, out []section) []section {
	for _, child := range n.Children {
		if child.Hidden || child.Name == "help" {
			continue
		}
		name := strings.TrimSpace(path + " " + child.Name)
		if len(child.Children) > 0 {
			out = sections(child, name, out)
			continue
		}
		detail := strings.Replace("\n"+child.Detail, "\nExample:\n", "\nExamples:\n", 1)
		detail, examples, _ := strings.Cut(detail, "\nExamples:\n")
		m := section{name: name, usage: "kvasir " + name, help: child.Help, detail: strings.TrimSpace(detail), examples: examples}
		for _, arg := range child.Positional {
			m.usage += " " + arg.Summary()
		}
		m.usage += " [flags]"
		groups := map[string]int{}
		for _, arg := range child.Positional {
			m.add(groups, "", arg.Summary(), arg.Help)
		}
		for _, f := range child.Flags {
			if f.Hidden || f.Name == "help" {
				continue
			}
			title := ""
			if f.Group != nil {
				title = f.Group.Title
			}
			text := f.String()
			if f.Short != 0 && !strings.HasPrefix(text, "-"+string(f.Short)) {
				text = "-" + string(f.Short) + ", " + text
			}
			help := f.Help
			for _, env := range f.Envs {
				help += " Environment: $" + env + "."
			}
			m.add(groups, title, text, help)
		}
		out = append(out, m)
	}
	return out
}

func (m *section) add(groups map[string]int, title, text, help string) {
	i, ok := groups[title]
	if !ok {
		i = len(m.flags)
		groups[title] = i
		m.flags = append(m.flags, flagGroup{title: title})
	}
	m.flags[i].flags = append(m.flags[i].flags, [2]string{text, help})
}

// Markdown writes docs/reference.md.
func Markdown(w io.Writer, parser *kong.Kong) error {
	var b strings.Builder
	b.WriteString("# Commands and flags\n\n`kvasir reference` prints this page; a test keeps it true.\n")
	for _, m := range sections(parser.Model.Node, "", nil) {
		fmt.Fprintf(&b, "\n## kvasir %s\n\n%s\n\n    %s\n", m.name, filled(m.help, ""), m.usage)
		for _, paragraph := range strings.Split(m.detail, "\n") {
			if paragraph = strings.TrimSpace(paragraph); paragraph != "" {
				fmt.Fprintf(&b, "\n%s\n", filled(paragraph, ""))
			}
		}
		for _, g := range m.flags {
			if b.WriteString("\n"); g.title != "" {
				fmt.Fprintf(&b, "%s:\n\n", g.title)
			}
			for _, f := range g.flags {
				fmt.Fprintf(&b, "- %s\n", filled("`"+f[0]+"`: "+f[1], "  "))
			}
		}
		b.WriteString("\nExamples:\n\n")
		for line := range strings.Lines(m.examples) {
			if line = strings.TrimSpace(line); line != "" {
				fmt.Fprintf(&b, "    %s\n", line)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// filled breaks a text into lines of up to 118 columns, and begins those after the first with indent.
func filled(text, indent string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		width := runewidth.StringWidth(word)
		switch {
		case i == 0:
		case column+1+width > 118:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += width
	}
	return b.String()
}

// Man writes kvasir(1) in the macros of man(7).
func Man(w io.Writer, parser *kong.Kong, version string) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH KVASIR 1 \"\" \"kvasir %s\" \"User Commands\"\n", roff(version))
	b.WriteString(".SH NAME\nkvasir \\- serve large language models\n.SH SYNOPSIS\n.B kvasir\n.I command\n[\\fIflags\\fR]\n")
	b.WriteString(".SH DESCRIPTION\nkvasir runs a model in the terminal, serves it over HTTP, fetches, converts and measures models.\n")
	b.WriteString("The exit status is 0 on success, 1 on failure, 2 on wrong usage and 130 on interruption.\n")
	for _, m := range sections(parser.Model.Node, "", nil) {
		fmt.Fprintf(&b, ".SH %s\n.B %s\n.PP\n%s\n", strings.ToUpper(roff("kvasir "+m.name)), roff(m.usage), roff(m.help))
		for _, paragraph := range strings.Split(m.detail, "\n") {
			if paragraph = strings.TrimSpace(paragraph); paragraph != "" {
				fmt.Fprintf(&b, ".PP\n%s\n", roff(paragraph))
			}
		}
		for _, g := range m.flags {
			if g.title != "" {
				fmt.Fprintf(&b, ".SS %s\n", roff(g.title))
			}
			for _, f := range g.flags {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(f[0]), roff(f[1]))
			}
		}
		b.WriteString(".SS Examples\n.nf\n")
		for line := range strings.Lines(m.examples) {
			if line = strings.TrimSpace(line); line != "" {
				b.WriteString(roff(line) + "\n")
			}
		}
		b.WriteString(".fi\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// roff escapes a text for man(7).
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
