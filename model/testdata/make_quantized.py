"""Writes small random checkpoints with quantised linear weights to quantized/<name>, and what follows from them:

    config.json, model.safetensors   in the layout of GPTQ, AWQ, compressed-tensors or FP8
    golden.safetensors               ids_i and logits_i of transformers in float32 on the dequantised weights
    weights.json                     SHA-256 of the float32 bytes of each dequantised weight [out, in]

GPTQ, AWQ and FP8 are packed here, from their published layouts; compressed-tensors by its library.

    pip install torch transformers safetensors numpy compressed-tensors
    python make_quantized.py [name...]
"""

import hashlib
import json
import pathlib
import sys
import zlib

import numpy as np
import torch
import transformers
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent / "quantized"

LLAMA = dict(model_type="llama", hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
             vocab_size=48, num_hidden_layers=1)
WIDE = dict(LLAMA, hidden_size=128, intermediate_size=128)
ODD = dict(LLAMA, hidden_size=72, head_dim=20, intermediate_size=100)
QWEN2 = dict(LLAMA, model_type="qwen2")
MIXTRAL = dict(LLAMA, model_type="mixtral", num_local_experts=4, num_experts_per_tok=2)
WIDE_MIXTRAL = dict(MIXTRAL, hidden_size=256, intermediate_size=256, num_local_experts=3)
DEEPSEEK = dict(LLAMA, model_type="deepseek_v3", num_key_value_heads=4, q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=16,
                qk_nope_head_dim=16, v_head_dim=16, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, n_group=2,
                topk_group=2, first_k_dense_replace=0, moe_intermediate_size=32)
PHI3 = dict(LLAMA, model_type="phi3", pad_token_id=0)


def words(codes, bits):
    """Packs codes [n, m] along n into int32 [n·bits/32, m], from the lowest bit on."""
    bit = (codes[:, None, :].astype(np.uint32) >> np.arange(bits, dtype=np.uint32)[None, :, None]) & 1
    bit = bit.reshape(-1, 32, codes.shape[1])
    return torch.from_numpy((bit << np.arange(32, dtype=np.uint32)[None, :, None]).sum(1, dtype=np.uint32).view(np.int32))


def grouped(w, bits, size, sym, g_idx=None):
    """Quantises w [out, in]: codes [in, out], zeros and scales [groups, out] in the type of w."""
    n = w.shape[1]
    size = n if size == -1 else size
    if g_idx is None:
        g_idx = torch.arange(n) // size
    codes, zeros, scales = np.zeros((n, w.shape[0]), np.uint32), [], []
    for g in range(int(g_idx.max()) + 1):
        part = w[:, g_idx == g].float()
        low, high = part.min(1).values.clamp(max=0), part.max(1).values.clamp(min=0)
        if sym:
            high = torch.maximum(-low, high)
            low = -high
        scale = ((high - low) / (2**bits - 1)).to(w.dtype)
        zero = torch.full_like(low, 2 ** (bits - 1)) if sym else (-low / scale.float()).round().clamp(1, 2**bits - 1)
        code = (part / scale.float()[:, None] + zero[:, None]).round().clamp(0, 2**bits - 1)
        codes[(g_idx == g).numpy()] = code.T.numpy().astype(np.uint32)
        zeros.append(zero.numpy().astype(np.uint32))
        scales.append(scale)
    zeros, scales = np.stack(zeros), torch.stack(scales)
    values = (torch.from_numpy(codes.astype(np.float32)) - torch.from_numpy(zeros.astype(np.float32))[g_idx]) * scales.float()[g_idx]
    return codes, zeros, scales, values.T.contiguous()


def gptq(bits, size, sym=False, act=False, v2=False, idx=True):
    def pack(w, generator):
        g_idx = torch.arange(w.shape[1]) // (w.shape[1] if size == -1 else size)
        if act:
            g_idx = g_idx[torch.randperm(len(g_idx), generator=generator)]
        codes, zeros, scales, values = grouped(w, bits, size, sym, g_idx)
        out = dict(qweight=words(codes, bits), qzeros=words((zeros - (0 if v2 else 1)).T, bits).T.contiguous(), scales=scales)
        if idx:
            out["g_idx"] = g_idx.int()
        return out, values

    config = dict(quant_method="gptq", bits=bits, group_size=size, sym=sym, desc_act=act, damp_percent=0.01, lm_head=False)
    return config | (dict(checkpoint_format="gptq_v2") if v2 else {}), pack


def awq(size):
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def columns(codes):
        mixed = codes.reshape(codes.shape[0], -1, 8)[:, :, order].reshape(codes.shape)
        return words(mixed.T, 4).T.contiguous()

    def pack(w, _):
        codes, zeros, scales, values = grouped(w, 4, size, False)
        return dict(qweight=columns(codes), qzeros=columns(zeros), scales=scales), values

    return dict(quant_method="awq", bits=4, group_size=size, zero_point=True, version="gemm", modules_to_not_convert=["lm_head"]), pack


def fp8(rows, cols):
    def pack(w, _):
        o, i = w.shape
        scale = torch.zeros((o + rows - 1) // rows, (i + cols - 1) // cols)
        for a in range(scale.shape[0]):
            for b in range(scale.shape[1]):
                scale[a, b] = w[a * rows:(a + 1) * rows, b * cols:(b + 1) * cols].float().abs().max() / 448
        full = scale.repeat_interleave(rows, 0)[:o].repeat_interleave(cols, 1)[:, :i]
        q = (w.float() / full).to(torch.float8_e4m3fn)
        return dict(weight=q, weight_scale_inv=scale), q.float() * full

    return dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[rows, cols]), pack


def compressed(form, acts=None, act=False, **args):
    args = QuantizationArgs(**args)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, input_activations=acts and QuantizationArgs(**acts), format=form)
    compressor = BaseCompressor.get_value_from_registry(form)

    def pack(w, generator):
        o, i = w.shape
        strategy = str(getattr(args.strategy, "value", args.strategy))
        size = args.group_size if strategy == "group" else i
        g_idx = torch.arange(i) // size
        if act:
            g_idx = g_idx[torch.randperm(i, generator=generator)]
        state = dict(weight=w)
        if args.type == "float":
            top = 448.0
            most = w.float().abs().amax() if strategy == "tensor" else w.float().abs().amax(1, keepdim=True)
            state["weight_scale"] = (most / top).reshape(-1, 1)[: o, :1].to(w.dtype)
            if strategy == "tensor":
                state["weight_scale"] = state["weight_scale"].reshape(1)
        else:
            _, zeros, scales, _ = grouped(w, args.num_bits, size, args.symmetric, g_idx)
            state["weight_scale"] = scales.T.contiguous()
            if not args.symmetric:
                state["weight_zero_point"] = torch.from_numpy(zeros.T.astype(np.int64) - 2 ** (args.num_bits - 1)).to(torch.int8)
        if act:  # newer versions of the library no longer write this
            codes, _, _, values = grouped(w, args.num_bits, size, args.symmetric, g_idx)
            shape = torch.tensor(w.shape)
            packed = dict(weight_packed=words(codes, args.num_bits).T.contiguous(), weight_shape=shape, weight_g_idx=g_idx.int())
            return packed | dict(weight_scale=state["weight_scale"]), values
        packed = compressor.compress(state, scheme)
        return {k: v for k, v in packed.items() if v is not None}, unpacked(packed, scheme, compressor)

    dumped = json.loads(scheme.model_dump_json())
    if act:
        dumped["weights"]["actorder"] = "group"
    config = dict(quant_method="compressed-tensors", format=form, quantization_status="compressed", ignore=["lm_head"],
                  kv_cache_scheme=None, global_compression_ratio=None,
                  config_groups=dict(group_0=dumped))
    return config, pack


def unpacked(packed, scheme, compressor):
    state = {k: v.float() if k == "weight_scale" else v for k, v in packed.items() if v is not None}
    return compressor.decompress(state, scheme)["weight"].float().contiguous()


INT8_TOKEN = dict(num_bits=8, type="int", strategy="token", dynamic=True)
FP8_TOKEN = dict(num_bits=8, type="float", strategy="token", dynamic=True)
FP8_STATIC = dict(num_bits=8, type="float", strategy="tensor", dynamic=False)
F16, BF16 = torch.float16, torch.bfloat16

CASES = {
    "gptq2": (LLAMA, F16, gptq(2, 32)),
    "gptq3_v2": (LLAMA, BF16, gptq(3, -1, v2=True)),
    "gptq4_act": (LLAMA, F16, gptq(4, 32, act=True)),
    "gptq4_128": (WIDE, F16, gptq(4, 128, sym=True, idx=False)),
    "gptq8_qwen2": (QWEN2, BF16, gptq(8, 64, act=True)),
    "gptq4_phi3": (PHI3, F16, gptq(4, 32)),
    "gptq4_mixtral": (MIXTRAL, F16, gptq(4, 32)),
    "gptq4_deepseek": (DEEPSEEK, F16, gptq(4, 32, act=True)),
    "fp8_deepseek": (DEEPSEEK, BF16, fp8(32, 16)),
    "gptq4_mixtral_act": (MIXTRAL, F16, gptq(4, 32, act=True)),
    "awq": (LLAMA, F16, awq(32)),
    "awq_qwen2": (QWEN2, F16, awq(-1)),
    "fp8_blocks": (ODD, BF16, fp8(32, 48)),
    "fp8_mixtral": (MIXTRAL, BF16, fp8(16, 128)),
    "fp8_mixtral_wide": (WIDE_MIXTRAL, BF16, fp8(128, 128)),
    "ct_w8a8": (LLAMA, BF16, compressed("int-quantized", INT8_TOKEN, num_bits=8, type="int", strategy="channel", symmetric=True)),
    "ct_w8_asym": (WIDE, BF16,
                   compressed("int-quantized", INT8_TOKEN, num_bits=8, type="int", strategy="channel", symmetric=False)),
    "ct_w4a16": (LLAMA, BF16, compressed("pack-quantized", num_bits=4, type="int", strategy="group", group_size=32, symmetric=True)),
    "ct_w4_asym": (LLAMA, BF16, compressed("pack-quantized", num_bits=4, type="int", strategy="group", group_size=32, symmetric=False)),
    "ct_w4_act": (LLAMA, BF16,
                  compressed("pack-quantized", num_bits=4, type="int", strategy="group", group_size=32, symmetric=True, act=True)),
    "ct_w3": (LLAMA, BF16, compressed("pack-quantized", num_bits=3, type="int", strategy="channel", symmetric=False)),
    "ct_fp8": (ODD, BF16, compressed("float-quantized", FP8_TOKEN, num_bits=8, type="float", strategy="channel", symmetric=True)),
    "ct_fp8_tensor": (ODD, BF16, compressed("float-quantized", FP8_STATIC, num_bits=8, type="float", strategy="tensor", symmetric=True)),
}


def linear(name):
    return name.endswith(("proj.weight", "proj_with_mqa.weight", "q_a_proj.weight")) or ".experts." in name and name.endswith(".weight")


def stored_names(name, count, mixtral):
    """Returns how a checkpoint calls a tensor of a model: the names of each expert's, or its own."""
    if not mixtral:
        folder, (gate, up, down) = "mlp.experts.", ("gate_proj", "up_proj", "down_proj")
    else:
        folder, (gate, up, down) = "block_sparse_moe.experts.", ("w1", "w3", "w2")
    stem, _, kind = name.partition("mlp.experts.")
    if kind == "gate_up_proj":
        return [[f"{stem}{folder}{e}.{k}.weight" for k in (gate, up)] for e in range(count)]
    if kind == "down_proj":
        return [[f"{stem}{folder}{e}.{down}.weight"] for e in range(count)]
    return name.replace("mlp.gate.", "block_sparse_moe.gate.") if mixtral else name


def split_experts(state, mixtral):
    """Takes stacked experts apart, as checkpoints have them."""
    out = {}
    for name, v in state.items():
        stored = stored_names(name, v.shape[0] if v.dim() else 0, mixtral)
        if isinstance(stored, str):
            out[stored] = v
            continue
        for e, parts in enumerate(stored):
            out |= dict(zip(parts, v[e].chunk(len(parts))))
    return out


def join_experts(values, shapes, mixtral):
    """Undoes split_experts."""
    out = {}
    for name, shape in shapes.items():
        stored = stored_names(name, shape[0] if shape else 0, mixtral)
        if isinstance(stored, str):
            out[name] = values[stored]
        else:
            out[name] = torch.stack([torch.cat([values[part] for part in parts]) for parts in stored])
    return out


@torch.no_grad()
def make(name, seed):
    shape, dtype, (quantization, pack) = CASES[name]
    folder, generator = HERE / name, torch.Generator().manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(bos_token_id=1, eos_token_id=2, hidden_act="silu", max_position_embeddings=256, rms_norm_eps=1e-6,
                  rope_theta=10000.0, tie_word_embeddings=False, torch_dtype=str(dtype).removeprefix("torch.")) | shape
    plain = transformers.AutoConfig.for_model(**config)
    model = transformers.AutoModelForCausalLM.from_config(plain, attn_implementation="eager").float().eval()
    shapes = {k: v.shape for k, v in model.state_dict().items()}
    tensors, values, sums, mixtral = {}, {}, {}, shape["model_type"] == "mixtral"
    for key, v in split_experts(model.state_dict(), mixtral).items():
        noise = torch.randn(v.shape, generator=generator)
        v = (noise * 1.2 * v.shape[1] ** -0.5 if v.dim() == 2 else noise * 0.3 + (0 if key.endswith("bias") else 1)).to(dtype)
        if not linear(key):
            tensors[key], values[key] = v, v.float()
            continue
        stem = key.removesuffix("weight")
        parts, values[key] = pack(v, generator)
        tensors |= {stem + k: p.contiguous() for k, p in parts.items()}
        sums[key.removesuffix(".weight")] = hashlib.sha256(values[key].numpy().tobytes()).hexdigest()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    model.load_state_dict(join_experts(values, shapes, mixtral))
    golden = {}
    for i, length in enumerate([7, 30]):
        ids = torch.randint(0, plain.vocab_size, (length,), generator=generator)
        golden |= {f"ids_{i}": ids.int(), f"logits_{i}": model(ids[None]).logits[0].contiguous()}
    save_file(golden, folder / "golden.safetensors", metadata={"source": f"transformers {transformers.__version__} float32 cpu"})
    arch = type(model).__name__
    text = json.dumps(config | dict(architectures=[arch], quantization_config=quantization), indent=2, sort_keys=True)
    (folder / "config.json").write_text(text + "\n")
    (folder / "weights.json").write_text(json.dumps(sums, indent=1, sort_keys=True) + "\n")
    print(name, sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KB")


for name in sys.argv[1:] or CASES:
    make(name, zlib.crc32(name.encode()))
