"""Writes small PyTorch checkpoints of both layouts, with the same tensors as safetensors, and pickles that ask for more.

    pip install torch safetensors numpy
    python make_torch.py
"""

import collections
import json
import os
import pathlib

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent / "torch"


def tensors():
    g = torch.Generator().manual_seed(3)
    base = torch.randn(6, 8, generator=g)
    state = collections.OrderedDict(
        f32=base,
        tied=base,
        bf16=torch.randn(3, 5, generator=g).bfloat16(),
        f16=torch.randn(4, generator=g).half(),
        f64=torch.randn(2, 2, generator=g).double(),
        i64=torch.arange(5) - 2,
        i32=torch.arange(6, dtype=torch.int32).reshape(2, 3),
        i16=torch.tensor([-3, 4], dtype=torch.int16),
        i8=torch.tensor([-128, 127], dtype=torch.int8),
        u8=torch.tensor([[0], [255]], dtype=torch.uint8),
        bool=torch.tensor([True, False, True]),
        scalar=torch.tensor(2.5),
        empty=torch.zeros(0, 4),
        rows=base[2:5],
        turned=base.T,
        strided=base[::2, 1::3],
        wide=torch.randn(4, 3, 2, generator=g).permute(2, 0, 1),
        parameter=torch.nn.Parameter(torch.randn(3, generator=g)),
    )
    state._metadata = collections.OrderedDict({"": dict(version=1)})
    return state


class Evil:
    def __reduce__(self):
        return os.system, ("echo this must never run",)


class Loud:
    def __init__(self):
        self.x = 1


def main():
    HERE.mkdir(exist_ok=True)
    state = tensors()
    legacy = dict(state)
    state["f8"] = torch.randn(3, 4).to(torch.float8_e4m3fn)
    save_file({k: v.detach().clone().contiguous() for k, v in state.items()}, HERE / "want.safetensors")
    torch.save(state, HERE / "zip.bin")
    torch.save(legacy, HERE / "legacy.bin", _use_new_zipfile_serialization=False)
    torch.save({"x": torch.ones(2), "y": Evil()}, HERE / "evil_zip.bin")
    torch.save({"x": torch.ones(2), "y": Evil()}, HERE / "evil_legacy.bin", _use_new_zipfile_serialization=False)
    torch.save({"x": torch.ones(2), "y": Loud()}, HERE / "evil_object.bin")
    torch.save({"x": torch.ones(2), "epoch": 3}, HERE / "epoch.bin")
    shards = HERE / "shards"
    shards.mkdir(exist_ok=True)
    names = {"f32": 1, "bf16": 2, "f16": 2}
    for i in (1, 2):
        torch.save({k: state[k] for k, n in names.items() if n == i}, shards / f"pytorch_model-{i:05}-of-00002.bin")
    index = {"metadata": {}, "weight_map": {k: f"pytorch_model-{i:05}-of-00002.bin" for k, i in names.items()}}
    (shards / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=1) + "\n")


main()
