"""Follows KV events with pyzmq and msgspec, as a router made for vLLM would, and prints what the cache holds in the end.

usage: follow.py PUB REPLAY SNAPSHOT_URL LAST
It subscribes, asks for a replay of what it missed, and reads until batch LAST, or the snapshot if that is later. A second follower starts from the snapshot.
"""

import json
import sys
import urllib.request

import msgspec
import zmq


class Event(msgspec.Struct, array_like=True, tag=True):
    pass


class BlockStored(Event):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None


class BlockRemoved(Event):
    block_hashes: list[int]
    medium: str | None


class AllBlocksCleared(Event):
    pass


class Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


decode = msgspec.msgpack.Decoder(Batch).decode


def apply(known, batch):
    for e in batch.events:
        match e:
            case BlockStored():
                assert len(e.token_ids) == e.block_size * len(e.block_hashes)
                assert e.parent_block_hash is None or e.parent_block_hash in known, "a block without the one before it"
                known.update((h, e.token_ids) for h in e.block_hashes)
            case BlockRemoved():
                for h in e.block_hashes:
                    del known[h]
            case AllBlocksCleared():
                known.clear()


def main(pub, replay, url, last):
    last = int(last)
    context = zmq.Context()
    sub = context.socket(zmq.SUB)
    sub.connect(pub)
    sub.setsockopt_string(zmq.SUBSCRIBE, "kv")
    sub.setsockopt(zmq.RCVTIMEO, 20000)
    print("ready", flush=True)
    topic, seq, payload = sub.recv_multipart()
    assert topic == b"kv-test", topic
    first = int.from_bytes(seq, "big")

    dealer = context.socket(zmq.DEALER)
    dealer.connect(replay)
    dealer.setsockopt(zmq.RCVTIMEO, 20000)
    dealer.send_multipart([b"", (0).to_bytes(8, "big")])
    batches = {first: payload}
    while True:
        empty, seq, payload = dealer.recv_multipart()
        n = int.from_bytes(seq, "big", signed=True)
        if n == -1:
            assert payload == b""
            break
        assert n not in batches or batches[n] == payload
        batches[n] = payload

    with urllib.request.urlopen(url) as answer:
        start = int(answer.headers["Kvasir-Kv-Next"])
        last = max(last, start - 1)
        newcomer = {}
        apply(newcomer, decode(answer.read()))
    while max(batches) < last:
        _, seq, payload = sub.recv_multipart()
        batches[int.from_bytes(seq, "big")] = payload
    assert sorted(batches) == list(range(last + 1)), sorted(batches)
    known = {}
    for n, payload in sorted(batches.items()):
        apply(known, decode(payload))
        if n >= start:
            apply(newcomer, decode(payload))
    assert known == newcomer, "the snapshot and what came after it differ from the whole story"
    print(json.dumps({"missed": first, "blocks": sorted(f"{h:016x}" for h in known)}))


main(*sys.argv[1:])
