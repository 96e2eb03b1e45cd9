"""Writes a PEFT adapter of the built-in model as the GGUF that llama.cpp's converter would make of it, with each A in Q8_0
and each B in F16, and its golden answers beside it.

  make_adapters.py PEFT_DIR NAME     (pip install gguf numpy safetensors)
"""
import json
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file

SLOTS = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
HEAD = 64


def neighbours(b):
    """The two halves of each head, row by row."""
    return b.reshape(-1, 2, HEAD // 2, b.shape[1]).swapaxes(1, 2).reshape(b.shape)


def main(folder, name):
    config = json.load(open(f"{folder}/adapter_config.json"))
    w = gguf.GGUFWriter(f"{name}.gguf", "llama")
    w.add_type("adapter")
    w.add_string("adapter.type", "lora")
    w.add_float32("adapter.lora.alpha", config["lora_alpha"])
    for key, v in sorted(load_file(f"{folder}/adapter_model.safetensors").items()):
        _, _, _, _, layer, part, weight, kind, _ = key.split(".")
        slot = f"blk.{layer}.{SLOTS[part + '.' + weight]}.weight."
        if kind == "lora_A":
            w.add_tensor(slot + "lora_a", gguf.quants.quantize(v, gguf.GGMLQuantizationType.Q8_0), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            w.add_tensor(slot + "lora_b", (neighbours(v) if weight in ("q_proj", "k_proj") else v).astype(np.float16))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    golden = json.load(open(f"{folder}/golden.json"))
    keep = ("prompt_ids", "output_ids", "output_text", "min_margin")
    json.dump([{k: p[k] for k in keep} for p in golden["prompts"]], open(f"{name}.json", "w"))


main(*sys.argv[1:])
