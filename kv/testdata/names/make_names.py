"""Names of KV blocks (docs/format/block-names.md) by another implementation: Python's hashlib and cbor2.

    python make_names.py > names.json
"""

import hashlib
import json

import cbor2


def digest(item):
    return hashlib.sha256(cbor2.dumps(item, canonical=True)).digest()


def chain(seed, size, tokens, adapter, salt):
    parent, names = digest(seed), []
    for at in range(0, len(tokens) - size + 1, size):
        keys = [k for k in (adapter, salt if at == 0 else "") if k]
        parent = digest((parent, tuple(tokens[at : at + size]), tuple(keys) or None))
        names.append(parent.hex())
    return names


edges = [0, 23, 24, 255, 256, 65535, 65536, 2**31 - 1]
cases = [
    ("0", 4, list(range(1, 9)), "", ""),
    ("0", 4, edges, "", ""),
    ("", 2, [-1, -24, -25, -257], "", ""),
    ("1234", 16, [7 * i * i for i in range(48)], "", ""),
    ("0", 4, list(range(1, 13)), "", "tenant"),
    ("0", 4, list(range(1, 13)), "lora-1", ""),
    ("0", 4, list(range(1, 13)), "lora-1", "ümlaut and a salt of more than 23 bytes"),
    ("a seed longer than twenty-three bytes", 300, [150000 + i for i in range(600)], "", ""),
]
out = []
for seed, size, tokens, adapter, salt in cases:
    case = {"seed": seed, "block": size, "tokens": tokens, "adapter": adapter, "salt": salt}
    out.append(json.dumps(case | {"names": chain(seed, size, tokens, adapter, salt)}, ensure_ascii=False))
print("[\n" + ",\n".join(out) + "\n]")
