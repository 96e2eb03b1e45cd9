"""Computes golden continuations again for the weights of a GGUF, in float32 on the CPU.

  goldens.py GGUF GOLDEN.json OUT.json [LORA.gguf]   OUT.json leaves out prompts whose margin is below 0.8

GOLDEN.json is golden.json, or a list of its prompts. An adapter is merged into the weights.
"""
import json
import os
import struct
import sys

import numpy as np
import torch
from tokenizers import Tokenizer

import evaluate
import gguf

MAX, MARGIN = 64, .8


def adapter(path):
    """(alpha, {tensor: float32 array}) of a LoRA adapter."""
    b = open(path, "rb").read()
    key = b.index(b"adapter.lora.alpha") + len("adapter.lora.alpha")
    alpha, = struct.unpack_from("<f", b, key + 4)
    return alpha, {n: gguf.values(b, t) for n, t in gguf.layout(b).items()}


def merge(sd, path):
    alpha, ts = adapter(path)
    for n in ts:
        if n.endswith(".lora_a"):
            base = n[:-len(".lora_a")]
            a, b = ts[n], ts[base + ".lora_b"]
            sd[gguf.hf_name(base)] = sd[gguf.hf_name(base)] + gguf.permuted(base, b @ a * np.float32(alpha / len(a)), True)
    return sd


def main(path, golden, out, lora=None):
    if lora:
        load = gguf.load
        gguf.load = lambda p: merge(load(p), lora)
    tok = Tokenizer.from_file(os.environ.get("TOKENIZER", "tokenizer.json"))
    g, margins, picks = evaluate.Gen(path), [], []
    step = g.step

    def watched(*a):
        logits = step(*a)
        best = logits[0].topk(2)
        margins.append((best.values[0] - best.values[1]).item())
        picks.append(best.indices[0].item())
        return logits
    g.step = watched
    doc = json.load(open(golden))
    kept = []
    for p in doc["prompts"] if isinstance(doc, dict) else doc:
        margins.clear()
        picks.clear()
        with torch.no_grad():
            ids = g.batch([p["prompt_ids"]], MAX)[0]
        ids += picks[len(ids):len(ids) + 1] if len(ids) < MAX else []      # <|im_end|>, or <|endoftext|> of raw text
        same = ids == p["output_ids"]
        p.update(output_ids=ids, output_text=tok.decode(ids, skip_special_tokens=False), min_margin=round(min(margins[:len(ids)]), 4))
        print(p["min_margin"], "same" if same else "changed", repr(p["output_text"])[:100], flush=True)
        if p["min_margin"] >= MARGIN:
            kept.append(p)
    if isinstance(doc, dict):
        doc["prompts"] = kept
    else:
        doc = kept
    json.dump(doc, open(out, "w"), ensure_ascii=False, indent=1 if isinstance(doc, dict) else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
