package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// licences are phrases by which the text of a licence is known, of those that a module in the program may have.
var licences = []string{
	"Permission is hereby granted, free of charge, to any person obtaining a copy",    // MIT
	"Redistribution and use in source and binary forms, with or without modification", // BSD
	"Apache License", // Apache 2.0
	"Permission to use, copy, modify, and/or distribute this software for any purpose",              // ISC
	"This is free and unencumbered software released into the public domain",                        // Unlicense
	"Permission to use, copy, modify, and distribute this software for any purpose with or without", // ISC
}

// TestLicences holds that every module that is linked into the program has a licence that allows it.
func TestLicences(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}",
		"github.com/kvasir-llm/kvasir/cmd/kvasir").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			modules[path] = dir
		}
	}
	if len(modules) < 5 {
		t.Fatalf("only %d modules are linked", len(modules))
	}
	for path, dir := range modules {
		if !allowed(dir) {
			t.Errorf("%s has no licence that is known to allow its use", path)
		}
	}
}

// allowed reports whether a module's folder has the text of one of the licences.
func allowed(dir string) bool {
	for _, pattern := range []string{"LICEN[CS]E*", "licen[cs]e*", "Licen[cs]e*", "COPYING*", "UNLICENSE*"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, name := range files {
			data, _ := os.ReadFile(name)
			text := strings.Join(strings.Fields(string(data)), " ")
			for _, phrase := range licences {
				if strings.Contains(text, phrase) {
					return true
				}
			}
		}
	}
	return false
}
