"""Names of KV blocks (docs/format/block-names.md) by another implementation: Python's hashlib and cbor2.

    python make_names.py > names.json
"""

import hashlib
import json

import cbor2


def digest(item):
    return hashlib.sha256(cbor2.dumps(item, canonical=True)).digest()


def chain(seed, size, tokens, model="", adapter="", adapterid="", long=False, salt=""):
    pairs = [("model", model), ("adapter", adapter), ("adapter-id", adapterid), ("rope", "long" if long else "")]
    keys = [text for pair in pairs if pair[1] for text in pair] + [salt] * (salt != "")
    parent, names = digest(seed), []
    for at in range(0, len(tokens) - size + 1, size):
        parent = digest((parent, tuple(tokens[at : at + size]), tuple(keys) if keys and at == 0 else None))
        names.append(parent.hex())
    return names


edges = [0, 23, 24, 255, 256, 65535, 65536, 2**31 - 1]
few = list(range(1, 13))
cases = [
    ("0", 4, list(range(1, 9)), {}),
    ("0", 4, edges, {}),
    ("", 2, [-1, -24, -25, -257], {}),
    ("1234", 16, [7 * i * i for i in range(48)], {}),
    ("0", 4, few, {"salt": "tenant"}),
    ("0", 4, few, {"adapter": "lora-1"}),
    ("0", 4, few, {"salt": "lora-1"}),
    ("0", 4, few, {"adapter": "lora-1", "adapterid": "ab" * 32, "salt": "ümlaut and a salt of more than 23 bytes"}),
    ("0", 4, few, {"model": "0123456789abcdef"}),
    ("0", 4, few, {"model": "0123456789abcdef", "long": True}),
    ("0", 4, few, {"model": "m", "adapter": "a", "adapterid": "i", "long": True, "salt": "s"}),
    ("0", 4, few, {"long": True}),
    ("0", 4, few, {"salt": "long"}),
    ("a seed longer than twenty-three bytes", 300, [150000 + i for i in range(600)], {}),
]
out = []
for seed, size, tokens, keys in cases:
    case = {"seed": seed, "block": size, "tokens": tokens} | keys
    out.append(json.dumps(case | {"names": chain(seed, size, tokens, **keys)}, ensure_ascii=False))
print("[\n" + ",\n".join(out) + "\n]")
