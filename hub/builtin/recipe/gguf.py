"""Reads the weights of the built-in model's GGUF (Q8_0), and writes the same file with other weights."""
import struct

import numpy as np

HEADS, KV = 8, 2
NAMES = [("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("attn_norm", "input_layernorm"), ("ffn_norm", "post_attention_layernorm"), ("attn_q", "self_attn.q_proj"), ("attn_k", "self_attn.k_proj"), ("attn_v", "self_attn.v_proj"), ("attn_output", "self_attn.o_proj"), ("ffn_gate", "mlp.gate_proj"), ("ffn_up", "mlp.up_proj"), ("ffn_down", "mlp.down_proj"), ("blk.", "model.layers.")]
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def hf_name(n):
    base = n[:-len(".weight")]
    pre, _, last = base.rpartition(".")
    d = dict(NAMES)
    return (pre.replace("blk.", "model.layers.") + "." if pre else "") + d[last] + ".weight"


def layout(b):
    """{name: (shape, type, offset, bytes)} of a GGUF's tensors; the shape as in numpy."""
    magic, ver, nt, nkv = struct.unpack_from("<4sIQQ", b)
    assert magic == b"GGUF", magic
    p, align = 24, 32

    def string(p):
        n, = struct.unpack_from("<Q", b, p)
        return b[p + 8:p + 8 + n].decode("utf-8", "replace"), p + 8 + n

    def value(t, p):
        if t == 8:
            return string(p)
        if t == 9:
            et, n = struct.unpack_from("<IQ", b, p)
            p += 12
            if et in SIZES:
                return None, p + SIZES[et] * n
            for _ in range(n):
                _, p = value(et, p)
            return None, p
        v = int.from_bytes(b[p:p + SIZES[t]], "little")
        return v, p + SIZES[t]
    for _ in range(nkv):
        k, p = string(p)
        t, = struct.unpack_from("<I", b, p)
        v, p = value(t, p + 4)
        if k == "general.alignment":
            align = v
    ts = []
    for _ in range(nt):
        n, p = string(p)
        nd, = struct.unpack_from("<I", b, p)
        dims = struct.unpack_from(f"<{nd}Q", b, p + 4)
        typ, off = struct.unpack_from("<IQ", b, p + 4 + 8 * nd)
        p += 4 + 8 * nd + 12
        ts.append((n, dims[::-1], typ, off))
    base = (p + align - 1) // align * align
    out = {}
    for n, shape, typ, off in ts:
        cnt = int(np.prod(shape))
        assert typ in (0, 1, 8), (n, typ)
        out[n] = (shape, typ, base + off, {0: cnt * 4, 1: cnt * 2, 8: cnt // 32 * 34}[typ])
    return out


def swap(w, heads, back):
    """Rows of rotated heads: halves (as transformers has them) <-> neighbours (as GGUF has them)."""
    n, i = w.shape
    half = n // heads // 2
    if back:
        return w.reshape(heads, half, 2, i).transpose(0, 2, 1, 3).reshape(n, i)
    return w.reshape(heads, 2, half, i).transpose(0, 2, 1, 3).reshape(n, i)


def permuted(n, w, back):
    return swap(w, HEADS, back) if ".attn_q." in n else swap(w, KV, back) if ".attn_k." in n else w


def values(b, tensor):
    """The values of a tensor of layout(b), as float32."""
    shape, typ, off, size = tensor
    if typ < 8:
        return np.frombuffer(b, (np.float32, np.float16)[typ], int(np.prod(shape)), off).reshape(shape).astype(np.float32)
    blk = np.frombuffer(b, np.dtype([("d", "<f2"), ("q", "i1", 32)]), size // 34, off)
    return (blk["d"].astype(np.float32)[:, None] * blk["q"].astype(np.float32)).reshape(shape)


def load(path):
    """{transformers' name: float32 array}"""
    b = open(path, "rb").read()
    out = {}
    for n, t in layout(b).items():
        w = values(b, t)
        out[hf_name(n)] = np.ascontiguousarray(permuted(n, w, True)) if w.ndim == 2 else w
    return out


def encode(w):
    v = w.astype(np.float32).reshape(-1, 32)
    d = np.abs(v).max(1) / np.float32(127)
    q = np.zeros_like(v)
    np.divide(v, d[:, None], out=q, where=d[:, None] > 0)
    q = np.sign(q) * np.floor(np.abs(q) + np.float32(.5))
    blk = np.zeros(len(v), np.dtype([("d", "<f2"), ("q", "i1", 32)]))
    blk["d"], blk["q"] = d.astype(np.float16), np.clip(q, -127, 127).astype(np.int8)
    return blk.tobytes()


def write(src, dst, sd):
    """Writes src with the weights sd (transformers' names) to dst."""
    b = bytearray(open(src, "rb").read())
    for n, (shape, typ, off, size) in layout(bytes(b)).items():
        w = np.asarray(sd[hf_name(n)], np.float32)
        assert w.shape == tuple(shape), (n, w.shape, shape)
        w = permuted(n, w, False) if w.ndim == 2 else w
        data = w.astype(np.float32).tobytes() if typ == 0 else encode(np.ascontiguousarray(w))
        assert len(data) == size, n
        b[off:off + size] = data
    open(dst, "wb").write(b)


if __name__ == "__main__":
    import sys
    sd = load(sys.argv[1])
    print(len(sd), sum(w.size for w in sd.values()))
    write(sys.argv[1], "again.gguf", sd)
    a, b = open(sys.argv[1], "rb").read(), open("again.gguf", "rb").read()
    print("bytes that differ after a round trip:", sum(x != y for x, y in zip(a, b)), "of", len(a))
