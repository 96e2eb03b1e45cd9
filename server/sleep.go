package server

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"

	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
)

// Partial names of what wakes, as in vLLM.
const (
	tagWeights = "weights"
	tagCache   = "kv_cache"
)

// sleepReport is the answer of /sleep, /wake_up and /is_sleeping: whether a model that was meant sleeps.
type sleepReport struct {
	Sleeping bool `json:"is_sleeping"`
}

// sleepers returns the engines that a request means: that of ?model=, or all. allowed are its other parameters.
func (s *Server) sleepers(r *http.Request, allowed ...string) (values url.Values, engines []Engine, err error) {
	values, allowed = r.URL.Query(), append(allowed, "model")
	for name := range values {
		if !slices.Contains(allowed, name) {
			return nil, nil, refuse(http.StatusBadRequest, name, wire.CodeUnsupported, "%s: want one of %v", name, allowed)
		}
	}
	models := s.present()
	if name := values.Get("model"); name != "" {
		m, _, err := s.lookup(r.Context(), name)
		if err != nil {
			return nil, nil, err
		}
		models = []*Served{m}
	}
	for _, m := range models {
		engines = append(engines, m.Engine)
	}
	return values, engines, nil
}

// sleep frees the memory that models take of their devices.
func (s *Server) sleep(w http.ResponseWriter, r *http.Request) {
	values, engines, err := s.sleepers(r, "level", "mode")
	level := map[string]engine.SleepLevel{"1": engine.SleepOnHost, "2": engine.SleepOnDisk}[cmp.Or(values.Get("level"), "1")]
	mode := engine.SleepMode(cmp.Or(values.Get("mode"), string(engine.SleepAbort)))
	modes := []engine.SleepMode{engine.SleepAbort, engine.SleepWait, engine.SleepKeep}
	switch {
	case err != nil:
	case level == 0:
		err = refuse(http.StatusBadRequest, "level", wire.CodeInvalidValue, "level: %q; want 1 or 2", values.Get("level"))
	case !slices.Contains(modes, mode):
		err = refuse(http.StatusBadRequest, "mode", wire.CodeInvalidValue, "mode: %q; want one of %v", mode, modes)
	}
	for i := 0; err == nil && i < len(engines); i++ {
		err = engines[i].Sleep(r.Context(), level, mode)
	}
	s.turned(w, r, engines, err)
}

// wakeUp brings back what sleeps, or the parts of it that tags name.
func (s *Server) wakeUp(w http.ResponseWriter, r *http.Request) {
	values, engines, err := s.sleepers(r, "tags")
	tags := values["tags"]
	for _, tag := range tags {
		if err == nil && tag != tagWeights && tag != tagCache {
			err = refuse(http.StatusBadRequest, "tags", wire.CodeInvalidValue, "tags: %q; want %s or %s", tag, tagWeights, tagCache)
		}
	}
	all := len(tags) == 0
	for i := 0; err == nil && i < len(engines); i++ {
		err = engines[i].Wake(r.Context(), all || slices.Contains(tags, tagWeights), all || slices.Contains(tags, tagCache))
	}
	s.turned(w, r, engines, err)
}

// turned says whether one of the engines sleeps now, or why it does not sleep or wake.
func (s *Server) turned(w http.ResponseWriter, r *http.Request, engines []Engine, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, sleepReport{slices.ContainsFunc(engines, Engine.Asleep)})
}

// isSleeping says whether a model, or any, sleeps.
func (s *Server) isSleeping(w http.ResponseWriter, r *http.Request) {
	_, engines, err := s.sleepers(r)
	s.turned(w, r, engines, err)
}
