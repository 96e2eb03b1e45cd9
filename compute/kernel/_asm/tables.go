package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"

	"github.com/kvasir-llm/kvasir/quant"
)

// goFile is the text of a Go file.
type goFile struct{ bytes.Buffer }

func newGo(constraint string, imports ...string) *goFile {
	g := new(goFile)
	g.WriteString(generated)
	if constraint != "" {
		fmt.Fprintf(g, "//go:build %s\n\n", constraint)
	}
	fmt.Fprint(g, "package kernel\n\n")
	for _, i := range imports {
		fmt.Fprintf(g, "import %q\n\n", i)
	}
	return g
}

func (g *goFile) f(format string, args ...any) { fmt.Fprintf(g, format, args...) }

// formatted returns the file as gofmt has it.
func (g *goFile) formatted() *bytes.Buffer {
	text, err := format.Source(g.Bytes())
	if err != nil {
		panic(fmt.Sprintf("%v\n%s", err, g.Bytes()))
	}
	return bytes.NewBuffer(text)
}

const quantPath = "github.com/kvasir-llm/kvasir/quant"

// typeName is a type as Go code.
func typeName(t quant.Type) string { return "quant." + strings.ReplaceAll(t.String(), "-", "_") }

// layouts is the table of panel layouts.
func layouts() *bytes.Buffer {
	g := newGo("", quantPath)
	g.f("// layouts are how panels of each type store scales.\nvar layouts = map[quant.Type]scaleLayout{\n")
	for _, w := range weights {
		g.f("%s: %s,\n", typeName(w.typ), w.layout)
	}
	g.f("}\n")
	return g.formatted()
}

// vnniTables has the declarations of the functions with AVX-512 VNNI and the tables that choose them.
func vnniTables() *bytes.Buffer {
	g := newGo("amd64 && !noasm", quantPath)
	g.f("// tilesVNNI are the tiles of many rows, by type.\nvar tilesVNNI = [...]func(t tileVNNI){\n")
	for _, w := range weights {
		g.f("%s: tileCodes%sVNNI,\n", typeName(w.typ), kindOf(w.typ).name)
	}
	g.f("}\n\n// panelsVNNI are the products of few rows, by type.\nvar panelsVNNI = [...]func(t panelVNNI){\n")
	for _, w := range weights {
		if w.layout != "zeroPoints" {
			g.f("%s: panelCodes%sVNNI,\n", typeName(w.typ), kindOf(w.typ).name)
		}
	}
	g.f("}\n")
	for _, c := range kinds {
		g.f("\n//go:noescape\nfunc tileCodes%sVNNI(t tileVNNI)\n", c.name)
		g.f("\n//go:noescape\nfunc panelCodes%sVNNI(t panelVNNI)\n", c.name)
	}
	return g.formatted()
}

// amxTables numbers the functions that unpack types for AMX.
func amxTables() *bytes.Buffer {
	g := newGo("amd64 && !noasm", quantPath)
	g.f("// unpackTypes says which of unpackersAMX takes a type, counted from 1; 0 is none.\nvar unpackTypes = [...]uintptr{\n")
	n := 0
	for _, w := range weights {
		if w.tiled() {
			n++
			g.f("%s: %d,\n", typeName(w.typ), n)
		}
	}
	g.f("}\n")
	return g.formatted()
}

// avx2Tables has the declarations of the functions with AVX2 and AVX-VNNI and the table that chooses them.
func avx2Tables() *bytes.Buffer {
	g := newGo("amd64 && !noasm", quantPath)
	g.f("// affinesAVX2 is indexed by type.\nvar affinesAVX2 = [...]affineAVX2{\n")
	for _, w := range weights {
		bytes := "nil"
		if kindOf(w.typ).words() {
			bytes = "unpack" + w.id() + "AVXVNNI"
		}
		g.f("%s: {tile%sAVX2, %d, %d, unpack%sAVX2, %s},\n", typeName(w.typ), w.id(), w.fewAVX2, sums(w), w.id(), bytes)
	}
	g.f("}\n")
	for _, w := range weights {
		g.f("\n//go:noescape\nfunc tile%sAVX2(t tileAVX2)\n", w.id())
		g.f("\n//go:noescape\nfunc unpack%sAVX2(to *spanWeights, codes, scales, superScales *byte, stride, blocks int)\n", w.id())
		if kindOf(w.typ).words() {
			g.f("\n//go:noescape\nfunc unpack%sAVXVNNI(to *spanWeights, codes, scales, superScales *byte, stride, blocks int)\n", w.id())
		}
	}
	return g.formatted()
}
