"""Writes samplers.json: what transformers' logits processors leave of logits of the built-in model.

    go build -o /tmp/kvasir ../../../cmd/kvasir && python make_samplers.py /tmp/kvasir
"""

import json
import subprocess
import sys

import torch
import transformers
from transformers.generation import logits_process as of

TOKENS = 384  # of the vocabulary: the likeliest ones of any row, and as many others as are left, evenly spread
TEXTS = ["The capital of France is", "def add(a, b):\n    return", "Once upon a time there was a"]


def kvasir(*args, text=None):
    return json.loads(subprocess.run([sys.argv[1], "debug", *args, "--json"], input=text, capture_output=True, check=True, text=True).stdout)


def record():
    rows = []
    for text in TEXTS:
        ids = kvasir("tokenize", "--model", "kvasir-mini", text=text)["ids"]
        rows.append(kvasir("logits", "--model", "kvasir-mini", "--ids", ",".join(map(str, ids)), "--last", "1")["logits"][0])
    vocab = len(rows[0])
    keep = {i for row in rows for i in sorted(range(vocab), key=lambda i: -row[i])[:80]}
    others = [i for i in range(vocab) if i not in keep]
    keep |= set(others[::len(others) // (TOKENS - len(keep)) + 1])
    return [[round(row[i], 4) for i in sorted(keep)] for row in rows]


CASES = [
    {"temperature": 0.7}, {"temperature": 2.0},
    {"top_k": 1}, {"top_k": 7}, {"top_k": 40, "temperature": 0.6},
    {"top_p": 0.1}, {"top_p": 0.5}, {"top_p": 0.95}, {"top_p": 0.9, "temperature": 1.5}, {"top_k": 50, "top_p": 0.8},
    {"min_p": 0.02}, {"min_p": 0.1, "temperature": 1.8}, {"min_p": 0.5},
    {"typical_p": 0.2}, {"typical_p": 0.5}, {"typical_p": 0.9}, {"typical_p": 0.95, "temperature": 1.3},
    {"temperature": 1.2, "top_k": 60, "top_p": 0.97, "min_p": 0.01, "typical_p": 0.9},
    {"repetition_penalty": 1.3, "top_k": 20}, {"repetition_penalty": 0.8, "top_p": 0.9},
    {"bias": 4.5, "top_k": 12}, {"bad_words": True, "top_p": 0.99}, {"banned": True, "top_k": 5},
]


def processors(case, logits, out):
    """Yields the processors of a case in the order of transformers, and says in out what they are told."""
    best = sorted(range(len(logits)), key=lambda i: -logits[i])
    out["prompt"], out["output"] = [best[3], best[9], best[100], best[0]], [best[5], best[1], best[1]]
    if "bias" in case:
        out["bias"] = [[best[30], case["bias"]], [best[0], -case["bias"]]]
        out["bias"].sort()
        yield of.SequenceBiasLogitsProcessor({(token,): add for token, add in out["bias"]})
    if "repetition_penalty" in case:
        yield of.RepetitionPenaltyLogitsProcessor(case["repetition_penalty"])
    if "bad_words" in case:
        out["bad_words"] = [[best[0]], [best[1], best[2]], [best[5], best[4]]]  # the last does not follow
        yield of.NoBadWordsLogitsProcessor(out["bad_words"], eos_token_id=-1)
    if "banned" in case:
        out["banned"] = [best[1], best[2]]
        yield of.MinNewTokensLengthLogitsProcessor(len(out["prompt"]), 10, out["banned"], device="cpu")
    if "temperature" in case:
        yield of.TemperatureLogitsWarper(case["temperature"])
    if "top_k" in case:
        yield of.TopKLogitsWarper(case["top_k"])
    if "top_p" in case:
        yield of.TopPLogitsWarper(case["top_p"])
    if "min_p" in case:
        yield of.MinPLogitsWarper(case["min_p"])
    if "typical_p" in case:
        yield of.TypicalLogitsWarper(case["typical_p"])


rows, cases = record(), []
for n, row in enumerate(rows):
    for case in CASES:
        out = {"row": n, **case}
        scores = torch.tensor([row], dtype=torch.float32)
        for p in processors(case, row, out):
            scores = p(torch.tensor([out["prompt"] + out["output"]]), scores)
        probs = torch.softmax(scores[0].double(), -1).tolist()
        out["left"] = [i for i, x in enumerate(scores[0].tolist()) if x > float("-inf")]
        out["probs"] = [float(f"{probs[i]:.6g}") for i in out["left"]]
        cases.append(out)
with open("samplers.json", "w") as f:
    about = f"transformers {transformers.__version__}, torch {torch.__version__}"
    f.write('{"about": ' + json.dumps(about) + ', "logits": [\n' + ",\n".join(map(json.dumps, rows)) + '\n], "cases": [\n')
    f.write(",\n".join(map(json.dumps, cases)) + "\n]}\n")
