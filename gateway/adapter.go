package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Adapter is a LoRA adapter of a model's endpoints. Requests ask for it by its name.
type Adapter struct {
	Name string `yaml:"name"`
	Path string `yaml:"path"` // as the engines know it; they are told to load it from there. "" is one they have
}

// adapter returns the adapter of a model that the request asks for; its name is "" if it asks for none.
func (m *Model) adapter(name string) Adapter {
	if i := slices.IndexFunc(m.Adapters, func(a Adapter) bool { return a.Name == name }); i >= 0 {
		return m.Adapters[i]
	}
	return Adapter{}
}

// load makes sure that the endpoint has the adapter that the job needs. Engines answer 400 if they have it.
func (a *attempt) load() error {
	e, want := a.placement.endpoint, a.job.adapter
	if want.Path == "" {
		return nil
	}
	a.g.mu.Lock()
	has := e.loaded[want.Name] == want.Path
	a.g.mu.Unlock()
	if has {
		return nil
	}
	body, err := json.Marshal(map[string]string{"lora_name": want.Name, "lora_path": want.Path})
	if err != nil {
		return err
	}
	res, err := a.g.fetch(a.ctx, e, http.MethodPost, "/v1/load_lora_adapter", body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	known := res.StatusCode == http.StatusBadRequest && strings.Contains(string(said), "already")
	if err == nil && res.StatusCode != http.StatusOK && !known {
		err = fmt.Errorf("status %d: %.200s", res.StatusCode, said)
	}
	if err != nil {
		return fmt.Errorf("the adapter %s was not loaded: %w", want.Name, err)
	}
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	if e.loaded == nil {
		e.loaded = map[string]string{}
	}
	e.loaded[want.Name] = want.Path
	a.g.fleet.Loaded(e.id, want.Name)
	return nil
}
