package openai

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
	err := decode(body, func(c *cursor, key string) (err error) {
		switch key {
		case "model":
			r.Model, err = c.text()
		case "lora_name":
			r.Name, err = c.text()
		case "lora_path":
			r.Path, err = c.text()
		case "load_inplace":
			r.LoadInplace, err = c.boolean()
		default:
			err = c.unsupported()
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case r.Name == "":
		return nil, missing("lora_name", "a name for the adapter")
	case r.Path == "":
		return nil, missing("lora_path", "the adapter's folder or file")
	}
	return r, nil
}

// DecodeUnloadAdapter reads the body of a /v1/unload_lora_adapter request. The number that vLLM takes beside the name is not
// needed.
func DecodeUnloadAdapter(body []byte) (*UnloadAdapterRequest, error) {
	r := &UnloadAdapterRequest{}
	err := decode(body, func(c *cursor, key string) (err error) {
		switch key {
		case "lora_name":
			r.Name, err = c.text()
		default:
			err = c.unsupported()
		}
		return err
	})
	if err == nil && r.Name == "" {
		err = missing("lora_name", "the adapter's name")
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}
