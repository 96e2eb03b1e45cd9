package openai

import "github.com/kvasir-llm/kvasir/api/wire"

// LoadAdapterRequest asks for a LoRA adapter to be served, as vLLM's /v1/load_lora_adapter takes it.
type LoadAdapterRequest struct {
	Model       string `json:"model,omitempty"` // which the adapter is for, where several are served; kvasir's own
	Name        string `json:"lora_name"`
	Path        string `json:"lora_path"`
	LoadInplace bool   `json:"load_inplace,omitempty"` // replaces the one of that name
}

// UnloadAdapterRequest asks for an adapter to be served no longer, as vLLM's /v1/unload_lora_adapter takes it.
type UnloadAdapterRequest struct {
	Name string `json:"lora_name"`
}

// DecodeLoadAdapter reads the body of a /v1/load_lora_adapter request.
func DecodeLoadAdapter(body []byte) (*LoadAdapterRequest, error) {
	r := &LoadAdapterRequest{}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "model":
			r.Model, err = c.Text()
		case "lora_name":
			r.Name, err = c.Text()
		case "lora_path":
			r.Path, err = c.Text()
		case "load_inplace":
			r.LoadInplace, err = c.Bool()
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case r.Name == "":
		return nil, wire.Missing("lora_name", "a name for the adapter")
	case r.Path == "":
		return nil, wire.Missing("lora_path", "the adapter's folder or file")
	}
	return r, nil
}

// DecodeUnloadAdapter reads the body of a /v1/unload_lora_adapter request. The number that vLLM takes beside the name
// is not needed.
func DecodeUnloadAdapter(body []byte) (*UnloadAdapterRequest, error) {
	r := &UnloadAdapterRequest{}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "lora_name":
			r.Name, err = c.Text()
		default:
			err = c.Unsupported()
		}
		return err
	})
	if err == nil && r.Name == "" {
		err = wire.Missing("lora_name", "the adapter's name")
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}
