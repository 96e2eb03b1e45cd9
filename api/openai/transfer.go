package openai

import "github.com/kvasir-llm/kvasir/api/wire"

// KVTransfer says where the KV blocks of a prompt are that one server computes and another one goes on from, in the
// words of vLLM's NIXL connector. A request asks with DoRemoteDecode that its blocks can be fetched; the answer says
// where, and is what the request to the other server has.
type KVTransfer struct {
	DoRemotePrefill bool    `json:"do_remote_prefill"` // the blocks are elsewhere
	DoRemoteDecode  bool    `json:"do_remote_decode"`  // the blocks are to be fetched
	EngineID        string  `json:"remote_engine_id"`  // the server that has them
	RequestID       string  `json:"remote_request_id"` // by which it knows them; whoever has it may fetch them
	BlockIDs        []int32 `json:"remote_block_ids"`  // null: there is no order but the prompt's
	Blocks          int     `json:"remote_blocks"`     // how many the prompt fills
	Host            string  `json:"remote_host"`
	Port            int     `json:"remote_port"`
}

// DecodeTransfer reads kv_transfer_params. It is nil if they ask for nothing.
func DecodeTransfer(c *wire.Cursor) (*KVTransfer, error) {
	t := &KVTransfer{}
	err := c.Object(func(key string) (err error) {
		switch key {
		case "do_remote_prefill":
			t.DoRemotePrefill, err = c.Bool()
		case "do_remote_decode":
			t.DoRemoteDecode, err = c.Bool()
		case "remote_engine_id":
			t.EngineID, err = c.Label(MaxLabel)
		case "remote_request_id":
			t.RequestID, err = c.Label(MaxLabel)
		case "remote_block_ids":
			return c.Inert("null", "[]")
		case "remote_blocks":
			t.Blocks, err = c.IntIn(0, maxInt32)
		case "remote_host":
			t.Host, err = c.Label(MaxLabel)
		case "remote_port":
			t.Port, err = c.IntIn(0, 65535)
		case "transfer_id": // which some routers give either way
			_, err = c.Label(MaxLabel)
		default:
			return c.Unsupported()
		}
		return err
	})
	if err == nil && !t.DoRemotePrefill {
		if name := t.names(); name != "" {
			err = wire.Invalid(c.Path()+"."+name, wire.CodeInvalidValue, "must be null unless do_remote_prefill is true")
		}
	}
	missing := func(name, what string) error { return wire.Missing(c.Path()+"."+name, what) }
	switch {
	case err != nil:
		return nil, err
	case t.DoRemotePrefill && t.DoRemoteDecode:
		return nil, wire.Invalid(c.Path()+".do_remote_decode", wire.CodeInvalidValue, "must be false when do_remote_prefill is true")
	case t.DoRemotePrefill && t.RequestID == "":
		return nil, missing("remote_request_id", "what the server said that computed the prompt")
	case t.DoRemotePrefill && t.Host == "":
		return nil, missing("remote_host", "the host of the server that computed the prompt")
	case t.DoRemotePrefill && t.Port == 0:
		return nil, missing("remote_port", "the port of the server that computed the prompt")
	case !t.DoRemotePrefill && !t.DoRemoteDecode:
		return nil, nil
	}
	return t, nil
}

// names returns a member that says where blocks are, "" if there is none.
func (t *KVTransfer) names() string {
	switch {
	case t.EngineID != "":
		return "remote_engine_id"
	case t.RequestID != "":
		return "remote_request_id"
	case t.Blocks != 0:
		return "remote_blocks"
	case t.Host != "":
		return "remote_host"
	case t.Port != 0:
		return "remote_port"
	}
	return ""
}

// checkTransfer refuses what cannot be with a transfer.
func (r *Common) checkTransfer() error {
	if t := r.KVTransfer; t != nil && t.DoRemoteDecode && r.Stream {
		return wire.Invalid("kv_transfer_params.do_remote_decode", wire.CodeInvalidValue, "not available when stream is true")
	}
	return nil
}
