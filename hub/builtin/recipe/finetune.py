"""Trains the built-in model on (from its GGUF, with weights rounded to Q8_0 blocks in every step).

A Llama-style model, packed shards from gen_data.py, one GPU, bf16.

Documents are packed into rows of 2048 tokens and attention does not cross
document borders (variable-length FlashAttention). Matrices are trained with
Muon, the embedding and the norms with Adam. The schedule follows the clock:
`--seconds` of training, linear decay over the last part.
"""
import argparse
import glob
import inspect
import json
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {
    "main": dict(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=2, head_dim=64, intermediate_size=1280),
    "draft": dict(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=64, intermediate_size=768),
}
SEQ, VOCAB, THETA, EPS = int(os.environ.get("SEQ", "2048")), 8192, 10000.0, 1e-5

# ------------------------------------------------------------------ attention
ATTN = os.environ.get("ATTN", "varlen")
DEV = "cuda" if torch.cuda.is_available() else "cpu"
DT = torch.bfloat16 if DEV == "cuda" else torch.float32
QAT = os.environ.get("QAT", "1") == "1"


def q8(w):
    """w rounded to Q8_0 blocks of 32; gradients pass."""
    if not QAT:
        return w
    v = w.detach().float().reshape(-1, 32)
    d = v.abs().amax(1, keepdim=True) / 127
    q = torch.where(d > 0, torch.round(v / d.clamp(min=1e-20)), torch.zeros_like(v))
    y = (q * d.half().float()).reshape(w.shape)
    return w + (y - w).detach()


def pick_attention():
    """The first implementation that works here."""
    global ATTN
    for a in [ATTN, "varlen", "aten", "doc", "plain"]:
        ATTN = a
        try:
            q = torch.randn(SEQ, 8, 64, device=DEV, dtype=DT, requires_grad=True)
            k = torch.randn(SEQ, 2, 64, device=DEV, dtype=DT)
            cu = torch.full((32,), SEQ, dtype=torch.int32, device=DEV)
            cu[0], cu[1] = 0, SEQ // 3
            o = attention(q, k, k, cu)
            o.float().sum().backward()
            if not torch.isfinite(o.float()).all():
                raise ValueError("not finite")
            print("attention:", a, flush=True)
            return
        except Exception as e:
            print("attention", a, "does not work:", repr(e)[:300], flush=True)
    raise SystemExit("no attention works")



def attention(q, k, v, cu):
    """q [N, H, D], k and v [N, Hkv, D], cu: document borders. Returns [N, H, D]."""
    if ATTN == "varlen":
        from torch.nn.attention.varlen import varlen_attn
        g = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
        kw = dict(is_causal=True) if "is_causal" in inspect.signature(varlen_attn).parameters else dict(window_size=(-1, 0))
        return varlen_attn(q, k, v, cu, cu, SEQ, SEQ, **kw)
    if ATTN == "aten":
        g = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
        return torch.ops.aten._flash_attention_forward(q, k, v, cu, cu, SEQ, SEQ, 0.0, True, False)[0]
    if ATTN == "doc":               # a mask for document borders: slow, for small runs
        B = q.shape[0] // SEQ
        n = torch.arange(q.shape[0], device=q.device)
        doc = (n[:, None] >= cu[None]).sum(1).view(B, SEQ)
        m = (doc[:, :, None] == doc[:, None, :]) & torch.ones(SEQ, SEQ, dtype=torch.bool, device=q.device).tril()
        f = lambda t: t.view(B, SEQ, -1, t.shape[-1]).transpose(1, 2)
        o = F.scaled_dot_product_attention(f(q), f(k), f(v), attn_mask=m[:, None], enable_gqa=True)
        return o.transpose(1, 2).reshape(q.shape)
    B = q.shape[0] // SEQ           # plain causal attention over rows, without document borders
    f = lambda t: t.view(B, SEQ, -1, t.shape[-1]).transpose(1, 2)
    o = F.scaled_dot_product_attention(f(q), f(k), f(v), is_causal=True, enable_gqa=True)
    return o.transpose(1, 2).reshape(q.shape)


# ------------------------------------------------------------------ model (parameter names as in transformers)
class Linear(nn.Linear):
    def __init__(self, i, o):
        super().__init__(i, o, bias=False)

    def forward(self, x):
        return F.linear(x, q8(self.weight).to(x.dtype))


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + EPS) * self.weight).to(x.dtype)


class Attn(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, hd = c["hidden_size"], c["head_dim"]
        self.h, self.kv, self.hd = c["num_attention_heads"], c["num_key_value_heads"], hd
        self.q_proj, self.k_proj, self.v_proj = Linear(d, self.h * hd), Linear(d, self.kv * hd), Linear(d, self.kv * hd)
        self.o_proj = Linear(self.h * hd, d)

    def forward(self, x, cos, sin, cu):
        N = x.shape[0]
        q, k, v = self.q_proj(x).view(N, self.h, self.hd), self.k_proj(x).view(N, self.kv, self.hd), self.v_proj(x).view(N, self.kv, self.hd)

        def rot(t):
            a, b = t.float().chunk(2, -1)
            return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(t.dtype)
        return self.o_proj(attention(rot(q), rot(k), v, cu).reshape(N, -1))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, m = c["hidden_size"], c["intermediate_size"]
        self.gate_proj, self.up_proj, self.down_proj = Linear(d, m), Linear(d, m), Linear(m, d)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn, self.mlp = Attn(c), MLP(c)
        self.input_layernorm, self.post_attention_layernorm = Norm(c["hidden_size"]), Norm(c["hidden_size"])

    def forward(self, x, cos, sin, cu):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, cu)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, c["hidden_size"])
        self.layers = nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        self.norm = Norm(c["hidden_size"])


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.model = Body(c)
        hd = c["head_dim"]
        t = torch.arange(SEQ).float()[:, None] * (1.0 / THETA ** (torch.arange(0, hd, 2).float() / hd))[None]
        self.register_buffer("cos", t.cos(), persistent=False)
        self.register_buffer("sin", t.sin(), persistent=False)
        L = c["num_hidden_layers"]
        for n, p in self.named_parameters():
            if p.dim() == 2:
                std = 0.02 if "embed" in n else p.shape[1] ** -0.5 * (0.5 / math.sqrt(L) if n.endswith(("o_proj.weight", "down_proj.weight")) else 0.6)
                nn.init.normal_(p, std=std)

    def logits(self, ids, pos, cu):
        emb = q8(self.model.embed_tokens.weight)
        x = F.embedding(ids, emb).to(DT)
        cos, sin = self.cos[pos][:, None], self.sin[pos][:, None]
        for b in self.model.layers:
            x = b(x, cos, sin, cu)
        return F.linear(self.model.norm(x), emb.to(DT))

    def forward(self, ids, pos, cu, labels, w):
        ce = F.cross_entropy(self.logits(ids, pos, cu).float(), labels, reduction="none")
        return (ce * w).sum() / w.sum(), (ce * (w > .5)).sum() / (w > .5).sum()


class Distill(nn.Module):
    """Student loss: KL to the teacher plus a little cross-entropy."""

    def __init__(self, student, teacher, alpha=.8):
        super().__init__()
        self.s, self.t, self.alpha = student, [teacher], alpha

    def forward(self, ids, pos, cu, labels, w):
        with torch.no_grad():
            p = self.t[0].logits(ids, pos, cu).float().softmax(-1)
        lp = self.s.logits(ids, pos, cu).float().log_softmax(-1)
        ce = -lp.gather(-1, labels[:, None])[:, 0]
        kl = -(p * lp).sum(-1)
        loss = self.alpha * kl + (1 - self.alpha) * ce
        return (loss * w).sum() / w.sum(), (ce * (w > .5)).sum() / (w > .5).sum()


def load_gguf(path):
    import gguf
    m = Llama(SIZES["main"])
    m.load_state_dict({k: torch.from_numpy(v) for k, v in gguf.load(path).items()})
    return m


def load_hf(path, size):
    from safetensors.torch import load_file
    m = Llama(SIZES[size])
    sd = load_file(path + "/model.safetensors")
    sd = {k: v.float() for k, v in sd.items() if k != "lm_head.weight"}
    m.load_state_dict(sd)
    return m


def save_hf(model, path):
    from safetensors.torch import save_file
    os.makedirs(path, exist_ok=True)
    sd = {k: v.detach().to(torch.bfloat16).cpu().contiguous() for k, v in model.state_dict().items()}
    save_file(sd, path + "/model.safetensors", metadata={"format": "pt"})
    cfg = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=VOCAB, **model.c, hidden_act="silu", max_position_embeddings=SEQ, rms_norm_eps=EPS, rope_theta=THETA, rope_scaling=None, attention_bias=False, mlp_bias=False,
               attention_dropout=0.0, tie_word_embeddings=True, bos_token_id=0, eos_token_id=2, pad_token_id=0, initializer_range=0.02, use_cache=True, pretraining_tp=1, torch_dtype="bfloat16")
    json.dump(cfg, open(path + "/config.json", "w"), indent=2)


# ------------------------------------------------------------------ Muon + Adam
def newton_schulz(G):
    X = G.to(DT)
    tr = X.shape[-2] > X.shape[-1]
    if tr:
        X = X.mT
    X = X / (X.float().norm(dim=(-2, -1), keepdim=True) + 1e-7).to(DT)
    for a, b, c in ((4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)):
        A = X @ X.mT
        X = a * X + (b * A + c * A @ A) @ X
    return X.mT if tr else X


NS = [newton_schulz]


class Optim:
    def __init__(self, model, lr, wd=0.05):
        self.lr, self.wd = lr, wd
        self.groups = {}
        other = []
        for n, p in model.named_parameters():
            if p.dim() == 2 and "embed" not in n:
                self.groups.setdefault(tuple(p.shape), []).append(p)
            else:
                other.append(p)
        self.mom = {s: torch.zeros(len(ps), *s, device=DEV) for s, ps in self.groups.items()}
        self.adam = torch.optim.AdamW(other, lr=lr, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=DEV == 'cuda')
        self.params = list(model.parameters())

    @torch.no_grad()
    def step(self, scale):
        lr = self.lr * scale
        torch.nn.utils.clip_grad_norm_(self.params, 1.0, foreach=True)
        for s, ps in self.groups.items():
            g = torch.stack([p.grad for p in ps])
            m = self.mom[s]
            m.lerp_(g, 0.05)
            u = NS[0](g.lerp(m, 0.95)).float()
            torch._foreach_mul_(ps, 1 - lr * self.wd)
            torch._foreach_add_(ps, list(u.unbind(0)), alpha=-lr * 0.2 * math.sqrt(max(s)))
        for g in self.adam.param_groups:
            g["lr"] = lr
        self.adam.step()
        for p in self.params:
            p.grad = None


# ------------------------------------------------------------------ data
class Loader:
    def __init__(self, path, bs):
        self.path, self.bs, self.seen, self.cache, self.rows = path, bs, set(), {"A": [], "B": []}, {"A": [], "B": []}
        self.fresh = self.reused = 0

    def shard(self, kind):
        while True:
            new = [f for f in glob.glob(f"{self.path}/{kind}-*.npy") if f not in self.seen and not f.endswith(".tmp.npy")]
            if new:
                f = random.choice(new)
                self.seen.add(f)
                try:
                    a = np.load(f)
                    os.unlink(f)
                except (OSError, ValueError) as e:
                    print("shard", f, e, flush=True)
                    continue
                self.cache[kind].append(a)
                self.fresh += 1
                return a
            if self.cache[kind]:
                self.reused += 1
                return random.choice(self.cache[kind])
            if kind == "B" and self.cache["A"]:
                return self.shard("A")
            time.sleep(.2)

    def batch(self, kind):
        q = self.rows[kind]
        while len(q) < self.bs * 4:
            q.extend(list(self.shard(kind)))
            random.shuffle(q)
        raw = np.stack([q.pop() for _ in range(self.bs)]).astype(np.int32).reshape(-1)
        st = np.flatnonzero((raw >> 13) & 1)
        cap = self.bs * (48 if len(st) < self.bs * 48 else 160)      # fixed sizes, so that nothing is compiled again
        cu = np.full(cap, len(raw), np.int32)
        cu[:len(st)] = st
        dev = lambda x: torch.from_numpy(x).pin_memory().to(DEV, non_blocking=True) if DEV == "cuda" else torch.from_numpy(x)
        raw, cu = dev(raw), dev(cu)
        ids, start, lev = (raw & 0x1FFF).long(), ((raw >> 13) & 1).bool(), (raw >> 14) & 3
        labels = ids.roll(-1)
        nl = lev.roll(-1)
        w = ((nl == 2).float() + 0.1 * (nl == 1).float()) * (~start.roll(-1)).float()
        idx = torch.arange(raw.numel(), device=DEV)
        pos = idx - torch.where(start, idx, 0).cummax(0).values
        return ids, pos, cu, labels, w


def save(model, src, dst):
    import gguf
    gguf.write(src, dst, {k: v.detach().float().cpu().numpy() for k, v in model.state_dict().items()})


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="data")
    ap.add_argument("--gguf", required=True, help="the model to begin with")
    ap.add_argument("--out", required=True, help="the GGUF to write")
    ap.add_argument("--end", type=float, required=True, help="clock time (seconds since 1970) at which training ends")
    ap.add_argument("--steps", type=int, default=1 << 30)
    ap.add_argument("--lr", type=float, default=1.2e-3)
    ap.add_argument("--bs", type=int, default=64)
    ap.add_argument("--wd", type=float, default=.1)
    ap.add_argument("--warmup", type=int, default=60)
    ap.add_argument("--log", type=int, default=50)
    ap.add_argument("--cases")
    ap.add_argument("--report", default="report.txt")
    ap.add_argument("--eval-end", type=float, default=0)
    a = ap.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    torch.set_float32_matmul_precision("high")
    print("torch", torch.__version__, DEV, torch.cuda.get_device_name() if DEV == "cuda" else "", flush=True)
    pick_attention()
    model = load_gguf(a.gguf).to(DEV)
    comp = os.environ.get("COMPILE", "1") == "1" and DEV == "cuda"
    opt = Optim(model, a.lr, a.wd)
    ld = Loader(a.data, a.bs)
    t0 = time.time()
    nxt = ld.batch("A")
    print(f"first batch after {time.time() - t0:.1f}s", flush=True)
    step_fn = model
    if comp:
        plain = newton_schulz
        global ATTN
        for ATTN in dict.fromkeys([ATTN, "aten"]):
            try:
                step_fn, NS[0] = torch.compile(model, dynamic=False), torch.compile(newton_schulz, dynamic=False)
                loss, full = step_fn(*nxt)
                loss.backward()
                for s, ps in opt.groups.items():      # compiled before the first step, so that a failure changes nothing
                    NS[0](torch.stack([p.grad for p in ps]))
                torch.cuda.synchronize()
                print(f"compiled with {ATTN} after {time.time() - t0:.1f}s, first loss {full.item():.4f}", flush=True)
                break
            except Exception as e:
                print("torch.compile does not work:", repr(e)[:500], flush=True)
                step_fn, NS[0] = model, plain
                torch._dynamo.reset()
        for p in opt.params:
            p.grad = None
        if step_fn is model:
            pick_attention()
    step, tok, acc, t_start, mid = 0, 0, [], time.time(), False
    span = max(1.0, a.end - t_start)
    print(f"training for {span:.0f}s", flush=True)
    while True:
        prog = max((time.time() - t_start) / span, step / a.steps)
        if prog >= 1:
            break
        scale = min(1.0, (step + 1) / a.warmup, max(0.0, 1 - prog))
        loss, full = step_fn(*nxt)
        loss.backward()
        opt.step(scale)
        acc.append(full.detach())
        if step % 8 == 7 and DEV == "cuda":
            torch.cuda.synchronize()      # so that the clock is that of the steps done
        nxt = ld.batch("A")
        step += 1
        tok += a.bs * SEQ
        if step % a.log == 0:
            l = torch.stack(acc).mean().item()
            acc = []
            print(f"step {step} prog {prog:.3f} loss {l:.4f} lr {scale * a.lr:.2e} tok/s {tok / (time.time() - t_start) / 1e6:.3f}M fresh {ld.fresh} reused {ld.reused}", flush=True)
            if not math.isfinite(l):
                raise SystemExit("the loss is not finite")
        if prog > .6 and not mid:
            mid = True
            save(model, a.gguf, a.out + ".mid")
            print("saved the middle", flush=True)
    dt = time.time() - t_start
    print(f"done: {step} steps, {tok / 1e6:.1f}M tokens, {tok / dt / 1e6:.3f}M tok/s, shards fresh {ld.fresh} reused {ld.reused}", flush=True)
    save(model, a.gguf, a.out)
    print("saved", a.out, flush=True)
    if a.cases:
        import evaluate
        evaluate.main(a.out, a.cases, a.report, a.eval_end)


if __name__ == "__main__":
    main()
