"""Writes batches.json and others.json: batches as msgspec encodes the structures of vLLM and SGLang. Needs msgspec."""

import json
import msgspec


class Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list
    data_parallel_rank: int | None = None


class Event(msgspec.Struct, array_like=True, tag=True):
    pass


class BlockStored(Event):
    block_hashes: list
    parent_block_hash: bytes | int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None


class BlockRemoved(Event):
    block_hashes: list
    medium: str | None
    group_idx: int | None = None


class AllBlocksCleared(Event):
    pass


def name(n):
    return bytes((n * 7 + i) % 256 for i in range(32))


def low(h):
    return int.from_bytes(h, "big") & ((1 << 64) - 1)


def cases(h):
    tokens = [0, 127, 128, 255, 256, 65535, 65536, 200000]
    pirate = ("model", "m", "adapter", "pirate", "adapter-id", "ab" * 32, "rope", "long", "s" * 300)

    def stored(n, parent=None, tokens=tokens, lora=None, keys=None, window=None):
        return BlockStored([h(name(n))], parent and h(name(parent)), tokens, 8, None, "GPU", lora, keys and [keys],
                           1 if window else 0, "sliding_window" if window else "full_attention", window)

    return {
        "plain": [stored(1), stored(2, 1, tokens[::-1]), BlockRemoved([h(name(1))], "GPU", 0), AllBlocksCleared()],
        "salt": [stored(3, keys=("s" * 40,))],
        "adapter": [stored(3, lora="pirate", keys=pirate), stored(4, 3, lora="pirate")],
        "groups": [stored(5), stored(5, window=1024), BlockRemoved([h(name(5))], "GPU", 1)],
        "many": [BlockRemoved([h(name(i))], "GPU", 0) for i in range(20)],
    }


out = {}
for kind, h in (("bytes", lambda b: b), ("int", low)):
    for case, events in cases(h).items():
        out[f"{kind}/{case}"] = msgspec.msgpack.encode(Batch(1700000000.25, events, 0)).hex()
with open("batches.json", "w") as f:
    json.dump(out, f, indent=1)
    f.write("\n")


# What engines sent before and after, and SGLang sends: fewer fields, several blocks in an event, maps, other memory.
class ShortStored(Event, tag="BlockStored"):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None = None


class ShortRemoved(Event, tag="BlockRemoved"):
    block_hashes: list[int]


class MapStored(msgspec.Struct, tag="BlockStored"):
    block_hashes: list
    parent_block_hash: bytes | int | None
    token_ids: list[int]
    block_size: int
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list | None = None
    something_new: dict | None = None


class MapCleared(msgspec.Struct, tag="AllBlocksCleared"):
    pass


class Unknown(Event):
    anything: list


class OldBatch(msgspec.Struct, array_like=True):
    ts: float
    events: list


two = list(range(100, 116))
others = {
    "vllm 0.9": OldBatch(1.5, [ShortStored([-5, 2**63], None, two, 8, None), ShortRemoved([-5])]),
    "sglang": Batch(1.5, [ShortStored([7, 8], 6, two, 8, None, "GPU"), ShortStored([9], 8, two[:8], 8, None, "CPU_PINNED")], 3),
    "vllm images": Batch(1.5, [BlockStored([name(1), name(2)], None, two, 8, None, "GPU", "pirate",
                                           [("pirate", ("image-hash", 3), "salt"), ("pirate",)])]),
    "vllm maps": Batch(1.5, [MapStored([name(1)], name(2), two[:8], 8, "GPU", None, [None], {"a": [1.5, True, None]}),
                             Unknown([1, {"x": b"y"}]), MapCleared()]),
}
with open("others.json", "w") as f:
    json.dump({k: msgspec.msgpack.encode(b).hex() for k, b in others.items()}, f, indent=1)
    f.write("\n")
