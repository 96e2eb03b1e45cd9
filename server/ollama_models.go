package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/api/ollama"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/shelf"
)

// ollamaDigest makes up what tells models apart, from their name and time.
func ollamaDigest(name string, modified time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", name, modified.Unix()))
	return hex.EncodeToString(sum[:])
}

func ollamaDetails(a *About) ollama.Details {
	d := ollama.Details{Format: a.Format, Family: a.Family, Quantization: a.Quantization}
	if a.Family != "" {
		d.Families = []string{a.Family}
	}
	switch n := float64(a.Parameters); {
	case n >= 1e9:
		d.ParameterSize = fmt.Sprintf("%.1fB", n/1e9)
	case n >= 1e6:
		d.ParameterSize = fmt.Sprintf("%.0fM", n/1e6)
	case n > 0:
		d.ParameterSize = fmt.Sprintf("%.0fK", n/1e3)
	}
	return d
}

func (s *Server) ollamaTags(w http.ResponseWriter, r *http.Request) {
	t, out := tenantOf(r.Context()), ollama.Tags{Models: []ollama.Tag{}}
	add := func(name string, modified time.Time, size int64, a *About) {
		if t.may(name) {
			out.Models = append(out.Models, ollama.Tag{Name: name, Model: name, Modified: modified.UTC(), Size: size,
				Digest: ollamaDigest(name, modified), Details: ollamaDetails(a)})
		}
	}
	for _, name := range s.order {
		m := s.byName[name]
		add(name, m.Model.Info().Opened, m.Size, &m.About)
	}
	for _, st := range s.offers() {
		about := new(About)
		if st.There {
			about = &st.Model.About
		}
		add(st.Offer.Name, st.Offer.Modified, st.Offer.Bytes, about)
	}
	s.write(w, http.StatusOK, out)
}

// ollamaNever is when a model leaves that stays for ever: clients read a time.
var ollamaNever = time.Date(2999, 12, 31, 0, 0, 0, 0, time.UTC)

func (s *Server) ollamaPs(w http.ResponseWriter, r *http.Request) {
	t, out := tenantOf(r.Context()), ollama.Processes{Models: []ollama.Process{}}
	add := func(m *Served, modified, leaves time.Time) {
		info := m.Model.Info()
		if !t.may(info.Name) {
			return
		}
		p := ollama.Process{Name: info.Name, Model: info.Name, Size: m.Size, Digest: ollamaDigest(info.Name, modified),
			Details: ollamaDetails(&m.About), Expires: leaves.UTC(), Context: info.Context}
		if !strings.HasPrefix(m.Device, "cpu") {
			p.VRAM = m.Size
		}
		out.Models = append(out.Models, p)
	}
	for i := range s.models {
		add(&s.models[i], s.models[i].Model.Info().Opened, ollamaNever)
	}
	if s.shelf != nil {
		for _, st := range s.shelf.Models() {
			if st.Leaves.IsZero() {
				st.Leaves = ollamaNever
			}
			if st.There {
				add(&st.Model.Served, st.Offer.Modified, st.Leaves)
			}
		}
	}
	s.write(w, http.StatusOK, out)
}

// about says what a model of a name is made of, and since when it is there.
func (s *Server) about(ctx context.Context, name string) (a About, modified time.Time, err error) {
	t := tenantOf(ctx)
	if m := s.byName[name]; m != nil && t.may(name) {
		return m.About, m.Model.Info().Opened, nil
	}
	if s.shelf == nil || !t.may(name) {
		return a, modified, s.noModel(t, name)
	}
	o, err := s.shelf.Catalog().Find(ctx, name)
	if errors.Is(err, shelf.ErrNotFound) {
		err = s.noModel(t, name)
	}
	if err == nil {
		a, err = s.cfg.OnDemand.Catalog.About(o)
	}
	return a, o.Modified, err
}

func (s *Server) ollamaShow(ctx context.Context, name *string) (out ollama.ShowResponse, err error) {
	a, modified, err := s.about(ctx, ollamaName(*name))
	if err != nil {
		return out, err
	}
	out.Modelfile, out.Template, out.Details = "FROM "+ollamaName(*name)+"\n", a.Template, ollamaDetails(&a)
	out.Modified, out.Capabilities = modified.UTC(), []string{}
	out.ModelInfo = map[string]any{"general.architecture": a.Family, "general.parameter_count": a.Parameters,
		a.Family + ".context_length": a.Context, a.Family + ".embedding_length": a.Hidden, a.Family + ".block_count": a.Layers}
	for _, c := range []struct {
		name string
		has  bool
	}{{"completion", a.Generates}, {"embedding", !a.Generates}, {"tools", a.Tools}, {"thinking", a.Reasons}} {
		if c.has {
			out.Capabilities = append(out.Capabilities, c.name)
		}
	}
	return out, nil
}

func (s *Server) ollamaEmbed(ctx context.Context, req *ollama.EmbedRequest) (out ollama.EmbedResponse, err error) {
	length := true
	return s.ollamaVectors(ctx, req, &length)
}

// ollamaEmbedOne gives vectors the length that the model gives them.
func (s *Server) ollamaEmbedOne(ctx context.Context, req *ollama.EmbedRequest) (out ollama.EmbeddingsResponse, err error) {
	length := false
	all, err := s.ollamaVectors(ctx, req, &length)
	if err == nil {
		out.Embedding = all.Embeddings[0]
	}
	return out, err
}

func (s *Server) ollamaVectors(ctx context.Context, req *ollama.EmbedRequest, length *bool) (out ollama.EmbedResponse,
	err error) {
	came := time.Now()
	keepFor(ctx, req.KeepAlive)
	truncate := -1
	p := &pooling{params: engine.Params{}, param: "input", texts: len(req.Input)}
	if !req.Truncate {
		p, err = s.pool(ctx, p, ollamaName(req.Model), nil)
	} else {
		p, err = s.pool(ctx, p, ollamaName(req.Model), &truncate)
	}
	if err != nil {
		return out, err
	}
	out.Load, out.Model, out.Embeddings = int64(time.Since(came)), req.Model, make([][]float32, len(req.Input))
	if out.Model == "" {
		out.Model = p.name()
	}
	err = p.each(ctx, len(req.Input), func(ctx context.Context, i int) error {
		v, err := p.embed(ctx, text.EmbedRequest{Text: req.Input[i], Truncate: p.truncate, Dimensions: req.Dimensions, Normalise: length})
		out.Embeddings[i] = v
		return err
	})
	out.Total, out.Prompt = int64(time.Since(came)), int(p.tokens.Load())
	return out, err
}
