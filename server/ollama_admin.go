package server

import (
	"context"
	"errors"
	"math"
	"net/http"

	"github.com/kvasir-llm/kvasir/api/ollama"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/shelf"
)

// changing returns the catalog, for requests that change it.
func (s *Server) changing() (Catalog, error) {
	if s.cfg.OnDemand == nil {
		return nil, ErrFixed
	}
	return s.cfg.OnDemand.Catalog, nil
}

// steps answers a request that takes a while: with a line of JSON for each step, or, if it is not to be streamed, with
// the last one.
func (s *Server) steps(w http.ResponseWriter, r *http.Request, stream bool, run func(tell func(ollama.Progress)) error) {
	flush, begun := http.NewResponseController(w), false
	line := func(p any) {
		body, err := wire.Encode(p)
		if err != nil { // all values are of the kinds that encoding/json takes
			panic(err)
		}
		if !begun {
			w.Header().Set("Content-Type", "application/x-ndjson")
			begun = true
		}
		w.Write(body) // if the client is gone, the context says so
		flush.Flush()
	}
	err := run(func(p ollama.Progress) {
		if stream {
			line(p)
		}
	})
	switch {
	case err != nil && !begun:
		s.fail(w, r, err)
	case err != nil:
		f := classify(w, s.dialectOf(r), err)
		s.cfg.Logger.Error("a request failed", "path", r.URL.Path, "id", w.Header().Get(requestID), "error", err)
		line(ollama.ErrorResponse{Error: f.message})
	case stream:
		line(ollama.Progress{Status: "success"})
	default:
		s.write(w, http.StatusOK, ollama.Progress{Status: "success"})
	}
}

func (s *Server) ollamaPull(w http.ResponseWriter, r *http.Request) {
	req, err := read(w, r, ollama.DecodePull)
	var models Catalog
	if err == nil {
		models, err = s.changing()
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.steps(w, r, req.Stream, func(tell func(ollama.Progress)) error {
		begun := false
		err := models.Pull(r.Context(), ollamaName(req.Model), func(file string, done, total int64) {
			if !begun { // not before it is known that there is such a model
				tell(ollama.Progress{Status: "pulling manifest"})
				begun = true
			}
			tell(ollama.Progress{Status: "pulling " + file, Digest: file, Total: total, Completed: done})
		})
		if errors.Is(err, shelf.ErrNotFound) {
			err = refuse(http.StatusNotFound, "model", "model_not_found", "The hub has no model `%s` that can be served.", req.Model)
		}
		return err
	})
}

func (s *Server) ollamaCreate(w http.ResponseWriter, r *http.Request) {
	req, err := read(w, r, ollama.DecodeCreate)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	recipe := Recipe{From: ollamaName(req.From), System: req.System, Template: req.Template, Options: req.Parameters}
	if n, ok := recipe.Options["num_ctx"].(float64); ok && n >= 1 && n <= math.MaxInt32 { // else it is refused
		recipe.Context = int(n)
		delete(recipe.Options, "num_ctx")
	}
	if recipe.Files, err = s.blobs("files", req.Files); err == nil {
		recipe.Adapter, err = s.blobs("adapters", req.Adapters)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.steps(w, r, req.Stream, func(tell func(ollama.Progress)) error {
		if err := s.create(r.Context(), ollamaName(req.Model), recipe); err != nil {
			return err
		}
		tell(ollama.Progress{Status: "writing manifest"})
		return nil
	})
}

func (s *Server) ollamaCopy(w http.ResponseWriter, r *http.Request) {
	req, err := read(w, r, ollama.DecodeCopy)
	if err == nil {
		err = s.create(r.Context(), ollamaName(req.Destination), Recipe{From: ollamaName(req.Source)})
	}
	s.succeed(w, r, err)
}

// create adds a model to those on demand. If one of its name is in memory, that one leaves.
func (s *Server) create(ctx context.Context, name string, recipe Recipe) error {
	models, err := s.changing()
	if err != nil {
		return err
	}
	if s.byName[name] != nil {
		return refuse(http.StatusConflict, "model", "model_stays", "The model `%s` was named when the server was started.", name)
	}
	if recipe.Files == nil {
		if _, err := models.Find(ctx, recipe.From); errors.Is(err, shelf.ErrNotFound) {
			return s.noModel(tenantOf(ctx), recipe.From)
		} else if err != nil {
			return err
		}
	}
	if _, err := Preset(recipe.Options); err != nil {
		return err
	}
	if err := models.Create(name, recipe); err != nil {
		return err
	}
	s.cfg.Logger.Info("made a model", "model", name, "from", recipe.From)
	s.shelf.Stop(name)
	return nil
}

func (s *Server) ollamaDelete(w http.ResponseWriter, r *http.Request) {
	name, err := read(w, r, ollama.DecodeModel)
	if err == nil {
		err = s.remove(r.Context(), ollamaName(*name))
	}
	s.succeed(w, r, err)
}

// remove takes a model away from those on demand, and out of memory.
func (s *Server) remove(ctx context.Context, name string) error {
	models, err := s.changing()
	if err != nil {
		return err
	}
	if err := s.unload(ctx, name); err != nil {
		return err
	}
	if err := models.Delete(name); err != nil {
		return err
	}
	s.cfg.Logger.Info("deleted a model", "model", name)
	return nil
}
