package main

import (
	"os"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/manual"
)

// TestReference holds docs/reference.md to the commands and flags.
func TestReference(t *testing.T) {
	var b strings.Builder
	if err := manual.Markdown(&b, newParser(new(cli))); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != b.String() {
		t.Error("docs/reference.md is not what the commands say: go run ./cmd/kvasir reference > docs/reference.md")
	}
}

// TestManPage makes sure that no line of the manual page is taken for a macro that is none.
func TestManPage(t *testing.T) {
	var b strings.Builder
	if err := manual.Man(&b, newParser(new(cli)), "v1"); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		macro, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(line, ".") && !strings.HasPrefix(line, "'") {
			continue
		}
		if !strings.Contains(" .TH .SH .SS .PP .TP .B .I .nf .fi ", " "+macro+" ") {
			t.Errorf("%q would be a macro", line)
		}
	}
	if !strings.Contains(b.String(), ".SH KVASIR SERVE\n") || !strings.Contains(b.String(), `\-\-port`) {
		t.Error("the page lacks kvasir serve or its port")
	}
}
