"""Does with llguidance what `kvasir bench grammar` does: compiles a folder of JSON Schemas and follows the outputs beside
them token by token, on one thread. Needs pip install llguidance tiktoken numpy.

    python3 tools/grammar_peers.py jsonschemabench-sample llama-3/tokenizer.model
"""

import json
import pathlib
import sys
import time

import llguidance
import llguidance.numpy
import tiktoken
from llguidance import LLMatcher
from llguidance.tiktoken import lltokenizer_from_encoding
from tiktoken.load import load_tiktoken_bpe

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def llama3(path):
    """The encoding of a Llama 3 tokenizer.model; special tokens follow the ranks."""
    ranks = load_tiktoken_bpe(path)
    special = {f"<|special_{i}|>": len(ranks) + i for i in range(256)}
    return tiktoken.Encoding("llama3", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special), len(ranks) + 1


def main(folder, tokenizer):
    encoding, eos = llama3(tokenizer)
    vocabulary = lltokenizer_from_encoding(encoding, eos_token=eos)
    mask = llguidance.numpy.allocate_token_bitmask(1, vocabulary.vocab_size)
    masks, compiles = [], []
    result = {"llguidance": llguidance.__version__, "schemas": 0, "compiled": 0, "invalid_accepted": 0, "valid_refused": 0}
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        file = json.loads(path.read_text())
        result["schemas"] += 1
        start = time.perf_counter_ns()
        try:
            grammar = LLMatcher.grammar_from_json_schema(json.dumps(file["schema"]))
            first = LLMatcher(vocabulary, grammar, log_level=0)
            failed = first.is_error()
        except ValueError:
            failed = True
        compiles.append((time.perf_counter_ns() - start) / 1e6)
        if failed:
            continue
        result["compiled"] += 1
        for test in file["tests"]:
            text = json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False)
            taken = follow(first.deep_copy(), mask, encoding.encode(text, disallowed_special=()), masks)
            if taken and not test["valid"]:
                result["invalid_accepted"] += 1
            if not taken and test["valid"]:
                result["valid_refused"] += 1
    masks.sort()
    compiles.sort()
    result["mask_us"] = {"mean": sum(masks) / len(masks), "p99": masks[int(0.99 * (len(masks) - 1))]}
    result["compile_ms"] = {"p50": compiles[len(compiles) // 2], "p99": compiles[int(0.99 * (len(compiles) - 1))]}
    print(json.dumps(result))


def follow(matcher, mask, ids, us):
    """Whether the matcher takes the tokens and may end there; appends the microseconds of each mask to us."""
    for i in range(len(ids) + 1):
        start = time.perf_counter_ns()
        llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
        us.append((time.perf_counter_ns() - start) / 1e3)
        if i == len(ids):
            return matcher.is_accepting()
        if not matcher.consume_token(ids[i]):
            return False


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
