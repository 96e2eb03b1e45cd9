package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"runtime/debug"
	"strings"
)

// bom lists what a program was built from, in the form of CycloneDX 1.6 (ECMA-424).
type bom struct {
	Format     string         `json:"bomFormat"`
	Spec       string         `json:"specVersion"`
	Version    int            `json:"version"`
	Metadata   bomMetadata    `json:"metadata"`
	Components []bomComponent `json:"components"`
}

type bomMetadata struct {
	Component bomComponent `json:"component"`
}

type bomComponent struct {
	Type    string    `json:"type"` // "application" or "library"
	Name    string    `json:"name"`
	Version string    `json:"version,omitempty"`
	URL     string    `json:"purl,omitempty"`
	Hashes  []bomHash `json:"hashes,omitempty"`
}

// bomHash is that of go.sum: SHA-256 over the sorted list of a module's files with their own.
type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"` // in hexadecimal
}

// billOfMaterials returns the modules of a build, and the standard library.
func billOfMaterials(info *debug.BuildInfo) bom {
	out := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Components: []bomComponent{}}
	out.Metadata.Component = component(&info.Main)
	out.Metadata.Component.Type = "application"
	out.Components = append(out.Components, bomComponent{Type: "library", Name: "stdlib", Version: info.GoVersion,
		URL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out.Components = append(out.Components, component(m))
	}
	return out
}

func component(m *debug.Module) bomComponent {
	c := bomComponent{Type: "library", Name: m.Path, Version: m.Version, URL: "pkg:golang/" + m.Path}
	if m.Version != "" {
		c.URL += "@" + m.Version
	}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err == nil && len(sum) == sha256.Size {
		c.Hashes = []bomHash{{"SHA-256", hex.EncodeToString(sum)}}
	}
	return c
}
