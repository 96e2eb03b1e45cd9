package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// adapterOf returns the model that has an adapter of a name, nil if none has.
func (s *Server) adapterOf(name string) (*Served, engine.AdapterStats) {
	for _, m := range s.present() {
		for _, a := range m.Engine.Adapters() {
			if a.Name == name {
				return m, a
			}
		}
	}
	return nil, engine.AdapterStats{}
}

// names returns what a tenant can ask: models, aliases and adapters.
func (s *Server) names(t *tenant) []string {
	all := slices.Concat(s.order, s.offered())
	for _, m := range s.present() {
		for _, a := range m.Engine.Adapters() {
			all = append(all, a.Name)
		}
	}
	return slices.DeleteFunc(all, func(name string) bool { return !t.may(name) })
}

func describeAdapter(m *Served, a engine.AdapterStats) openai.Model {
	info := m.Model.Info()
	return openai.Model{ID: a.Name, Object: openai.ObjectModel, Created: a.Loaded.Unix(), OwnedBy: "kvasir",
		Root:   rootOf(a.Source),
		Parent: &info.Name, MaxModelLen: info.Context}
}

// loadAdapter answers in plain text, as vLLM does.
func (s *Server) loadAdapter(w http.ResponseWriter, r *http.Request) {
	req, err := read(w, r, openai.DecodeLoadAdapter)
	if err == nil {
		err = s.tryLoad(r.Context(), req)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.cfg.Logger.Info("loaded an adapter", "adapter", req.Name, "path", req.Path)
	fmt.Fprintf(w, "Success: LoRA adapter '%s' added successfully.", req.Name)
}

func (s *Server) tryLoad(ctx context.Context, req *openai.LoadAdapterRequest) error {
	path, err := s.adapterPath(req.Path)
	if err != nil {
		return err
	}
	m, _, err := s.lookup(ctx, req.Model)
	if err != nil {
		return err
	}
	if s.byName[req.Name] != nil {
		return badAdapter("lora_name", "The lora adapter name '%s' is that of a model.", req.Name)
	}
	if other, _ := s.adapterOf(req.Name); other != nil && other != m {
		return badAdapter("lora_name", "The lora adapter '%s' has already been loaded for another model.", req.Name)
	}
	err = m.Model.LoadAdapter(req.Name, path, req.LoadInplace)
	unfit := new(text.AdapterError)
	switch {
	case errors.Is(err, engine.ErrAdapterExists):
		return badAdapter("lora_name", "The lora adapter '%s' has already been loaded. "+
			"If you want to load the adapter in place, "+
			"set 'load_inplace' to True.", req.Name)
	case errors.Is(err, engine.ErrAdapterPinned):
		return badAdapter("lora_name", "The lora adapter '%s' is pinned and cannot be replaced.", req.Name)
	case errors.Is(err, fs.ErrNotExist):
		return refuse(http.StatusNotFound, "lora_path", "adapter_not_found",
			"Loading lora %s failed: No adapter found for %s", req.Name, req.Path)
	case errors.As(err, &unfit):
		return badAdapter("lora_path", "Loading lora %s failed: %v", req.Name, unfit.Err)
	}
	return err
}

func (s *Server) unloadAdapter(w http.ResponseWriter, r *http.Request) {
	req, err := read(w, r, openai.DecodeUnloadAdapter)
	if err == nil && s.cfg.AdapterRoot == "" {
		err = errAdaptersFixed
	}
	if err == nil {
		err = s.tryUnload(req.Name)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.cfg.Logger.Info("unloaded an adapter", "adapter", req.Name)
	fmt.Fprintf(w, "Success: LoRA adapter '%s' removed successfully.", req.Name)
}

func (s *Server) tryUnload(name string) error {
	m, _ := s.adapterOf(name)
	var err error = engine.ErrNoAdapter
	if m != nil {
		err = m.Engine.Unload(name)
	}
	switch {
	case errors.Is(err, engine.ErrNoAdapter):
		return refuse(http.StatusNotFound, "lora_name", "adapter_not_found", "The lora adapter '%s' cannot be found.", name)
	case errors.Is(err, engine.ErrAdapterPinned):
		return badAdapter("lora_name", "The lora adapter '%s' is pinned and cannot be unloaded.", name)
	}
	return err
}

func badAdapter(param, format string, args ...any) error {
	return refuse(http.StatusBadRequest, param, wire.CodeInvalidValue, format, args...)
}

// errAdaptersFixed is returned for requests to load or unload when the server was started without --adapter-root.
var errAdaptersFixed = refuse(http.StatusForbidden, "", "adapters_fixed",
	"Adapters are not loaded or unloaded at run time here; the server would have to be started with --adapter-root.")

// adapterPath returns where an adapter lies, which must be inside AdapterRoot, links followed.
func (s *Server) adapterPath(path string) (string, error) {
	if s.cfg.AdapterRoot == "" {
		return "", errAdaptersFixed
	}
	root, err := filepath.EvalSymlinks(s.cfg.AdapterRoot)
	if err != nil {
		return "", fmt.Errorf("server: adapter root: %w", err)
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", fmt.Errorf("server: adapter root: %w", err)
	}
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(root, full)
	}
	outside := refuse(http.StatusForbidden, "lora_path", "adapter_outside",
		"The path %q does not lie in the folder that adapters may be loaded from.", path)
	within := func(p string) bool {
		rel, err := filepath.Rel(root, p)
		return err == nil && filepath.IsLocal(rel)
	}
	real, err := filepath.EvalSymlinks(full)
	switch {
	case err != nil && !within(filepath.Clean(full)): // whether it exists is not told
		return "", outside
	case err != nil:
		return full, nil // opening it will fail, with the same reason
	case !within(real):
		return "", outside
	}
	return real, nil
}

// adapterInfo collects vllm:lora_requests_info: which adapters run and wait, as labels; the value is the time.
type adapterInfo struct {
	desc   *prometheus.Desc
	served *Served
}

func newAdapterInfo(name string, m *Served) *adapterInfo {
	return &adapterInfo{served: m, desc: prometheus.NewDesc("vllm:lora_requests_info",
		"Adapters in use and waited for; the value is the time.",
		[]string{"max_lora", "running_lora_adapters", "waiting_lora_adapters"}, prometheus.Labels{"model_name": name,
			"engine": "0"})}
}

func (a *adapterInfo) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

func (a *adapterInfo) Collect(ch chan<- prometheus.Metric) {
	var running, waiting []string
	for _, s := range a.served.Engine.Adapters() {
		if s.Running > 0 {
			running = append(running, s.Name)
		}
		if s.Waiting > 0 {
			waiting = append(waiting, s.Name)
		}
	}
	ch <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, float64(time.Now().UnixMilli())/1000,
		fmt.Sprint(a.served.Model.Info().MaxLoRAs), strings.Join(running, ","), strings.Join(waiting, ","))
}
