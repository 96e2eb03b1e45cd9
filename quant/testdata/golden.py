"""Writes golden.txt: blocks and values of every codec, by the published reference implementations.

Needs: pip install numpy gguf ml_dtypes. Each line of golden.txt is "decode" or "encode", a type, the stored bytes and
the float32 values, both in hexadecimal, little-endian.
"""

import sys

import ml_dtypes
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

rng = np.random.default_rng(20260101)
out = open(sys.argv[1], "w")


def emit(verb, name, stored, values):
    out.write(f"{verb} {name} {stored.tobytes().hex()} {values.astype('<f4').tobytes().hex()}\n")


# The places of half-precision scales in a block: random bytes there could be NaN.
scales = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}
for name, places in scales.items():
    qtype = GGMLQuantizationType[name]
    values, size = GGML_QUANT_SIZES[qtype]
    blocks = 2 if values == 256 else 4
    stored = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
    for at in places:
        stored[:, at : at + 2] = rng.normal(0, 1, blocks).astype("<f2").view(np.uint8).reshape(blocks, 2)
    emit("decode", name, stored, quants.dequantize(stored.reshape(1, -1), qtype))

inputs = np.concatenate([
    rng.normal(0, 1, (3, 32)), rng.normal(0, 1e-6, (2, 32)), rng.uniform(0, 500, (2, 32)), np.zeros((1, 32)),
    np.arange(-16, 16).reshape(1, 32), np.arange(32).reshape(1, 32) / 2 - 127, np.full((1, 32), -3.25),
    np.where(np.arange(32) % 2, 1e-44, -1e-41).reshape(1, 32), np.where(np.arange(32) == 5, 127, 0.5).reshape(1, 32),
    np.where(np.arange(32) == 9, -127, np.arange(32) - 15.5).reshape(1, 32),
]).astype(np.float32)
for name in ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]:
    for row in inputs:
        if name != "Q8_0" and 0 < abs(row).max() < 1e-38:
            continue  # the inverse of the scale overflows, and what the reference then stores depends on the machine
        emit("encode", name, quants.quantize(row.reshape(1, -1), GGMLQuantizationType[name]), row)

floats = np.concatenate([
    rng.integers(0, 2**32, 200, dtype=np.uint32).view(np.float32), rng.normal(0, 1, 50), rng.normal(0, 100, 50),
    rng.normal(0, 1e-5, 50), [0.0, -0.0, np.inf, -np.inf, 65504, 65519.996, 65520, 2**-24, 2**-25, 1.5 * 2**-25, 2**-14,
    2**-14 - 2**-26, 448, 464, 464.0001, 480, 57344, 61439.9, 61440, 2**-10, 1.5 * 2**-10, 2**-17, 2**-18, 1 + 2**-8,
    1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11, 1.0625, 1.1875, 1.125, 1.375, 3.4028235e38],
]).astype(np.float32)
floats = floats[~np.isnan(floats)]
for name, dtype in {"F16": np.float16, "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn,
                    "F8_E5M2": ml_dtypes.float8_e5m2, "F64": np.float64}.items():
    with np.errstate(over="ignore"):
        stored = floats.astype(dtype)
    emit("encode", name, stored, floats)
    finite = stored[~np.isnan(stored.astype(np.float32))]
    emit("decode", name, finite, finite.astype(np.float32))
for name, dtype in {"F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
                    "F8_E8M0": ml_dtypes.float8_e8m0fnu}.items():
    every = np.arange(256, dtype=np.uint8).view(dtype)
    emit("decode", name, every, every.astype(np.float32))
