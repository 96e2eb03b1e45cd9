"""Held-out evaluation without transformers: exact match per family, with the weights of a GGUF in float32.

  evaluate.py cases OUT.json [N] [LIST.jsonl]   makes the cases
  evaluate.py GGUF CASES.json REPORT.txt        runs them
"""
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NEWFAMS = ["cmd", "combo", "flag", "cmdwhat", "alien", "unflag", "zhcmd", "far", "ood2", "tables", "weak"]


def make(out, n, listed):
    os.environ["HOLD_HAND"] = "0"
    os.environ["MIX"] = "E"
    import random

    import commands
    import eval as ev
    import faq
    import gen_data as g
    import more
    cases = []       # family, prompt, want, kind
    if listed:
        for line in open(listed):
            c = json.loads(line)
            cases.append(("list: " + c.get("group", "all"), ev.single(c["question"]), c["answer"], "parts"))
    for f in NEWFAMS:
        r = random.Random("third-" + f)
        for _ in range(n * 3 if f in ("cmd", "tables") else n):
            q, a, *_ = g.pair(r, f, True)
            cases.append((f + " (held out)", ev.single(q), a, "eq"))
    for c in commands.ENTRIES[:]:      # one case of each entry
        r = random.Random("each" + c[1])
        for _ in range(300):
            w, q, ask = r.choices(c[0], [x[0] for x in c[0]])[0]
            q = g.spin(r, q)
            if commands.heldout("k" + q, 10):
                break
        q = commands._style(r, q, ask, True)
        vals = {}
        cases.append(("each command entry", ev.single(commands.fill(r, q, vals)), commands.fill(r, c[1], vals), "eq"))
    for f in commands.FLAGS:
        cases.append(("each flag", ev.single(f"What does --{f} do?"), commands.flag_answer(f), "eq"))
    for a in range(1, 13):
        for b in range(1, 13):
            cases.append(("times table to 12", ev.single(f"What is {a} × {b}?" if (a + b) % 2 else f"{a} x {b}"), f"{a} * {b} = {a * b}.", "eq"))
    for a in range(1, 13):
        for b in range(2, 10):
            cases.append(("division table", ev.single(f"What is {a * b} / {b}?"), f"{a * b} / {b} = {a}.", "eq"))
    seen = {}
    for t, qs, a in faq.ENTRIES + faq.ZH:
        for q in qs:
            seen.setdefault(q, a)
            if seen[q] == a:
                cases.append(("every FAQ question", ev.single(q), a, "eq"))
    for qs, a in g.tasks.FACTS:
        for q in qs:
            cases.append(("every fact", ev.single(q), a, "eq"))
    for f in ev.FAMS:
        if f == "go_fim":
            continue
        try:
            cases += [(f, p, w, k) for p, w, k in ev.cases(f, n)]
        except Exception as e:
            print("family", f, repr(e), flush=True)
    json.dump(cases, open(out + ".tmp", "w"))
    os.rename(out + ".tmp", out)
    print(len(cases), "cases", flush=True)


def check(got, want, kind):
    got = got.strip()
    if kind == "parts":       # a list of parts that must be there; a part that is a list is a choice
        return all(any(x.lower() in got.lower() for x in (p if isinstance(p, list) else [p])) for p in want)
    if kind == "eq":
        return got == want.strip()
    if kind == "contains":
        return want in got and len(got) > 150
    if kind == "afterthink":
        return "<think>" in got and got.split("</think>")[-1].strip() == want
    if kind == "json":
        try:
            return json.loads(got) == json.loads(want)
        except ValueError:
            return False
    f = lambda s: [json.loads(x) for x in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", s, re.S)]
    try:
        return f(got) == f(want)
    except ValueError:
        return False


class Gen:
    def __init__(self, path):
        import gguf
        import torch
        self.t = torch
        self.dev = "cuda" if torch.cuda.is_available() else "cpu"
        self.w = {k: torch.from_numpy(v).to(self.dev) for k, v in gguf.load(path).items()}
        th = torch.arange(2304).float()[:, None] * (1.0 / 10000.0 ** (torch.arange(0, 64, 2).float() / 64))[None]
        self.cos, self.sin = th.cos().to(self.dev), th.sin().to(self.dev)

    def norm(self, x, n):
        return x * self.t.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.w[n + ".weight"]

    def step(self, ids, pos, cache, at, mask):
        """ids [B, T]; writes keys and values at `at`; logits of the last position."""
        torch, w = self.t, self.w
        F = torch.nn.functional
        B, T = ids.shape
        x = w["model.embed_tokens.weight"][ids]
        c, s = self.cos[pos][:, :, None], self.sin[pos][:, :, None]

        def rot(t):
            a, b = t.chunk(2, -1)
            return torch.cat((a * c - b * s, b * c + a * s), -1)
        for i in range(8):
            p = f"model.layers.{i}."
            h = self.norm(x, p + "input_layernorm")
            q = rot((h @ w[p + "self_attn.q_proj.weight"].T).view(B, T, 8, 64)).transpose(1, 2)
            k = rot((h @ w[p + "self_attn.k_proj.weight"].T).view(B, T, 2, 64)).transpose(1, 2)
            v = (h @ w[p + "self_attn.v_proj.weight"].T).view(B, T, 2, 64).transpose(1, 2)
            ck, cv = cache[i]
            ck[:, :, at:at + T], cv[:, :, at:at + T] = k, v
            o = F.scaled_dot_product_attention(q, ck[:, :, :at + T], cv[:, :, :at + T], attn_mask=mask, enable_gqa=True)
            x = x + o.transpose(1, 2).reshape(B, T, 512) @ w[p + "self_attn.o_proj.weight"].T
            h = self.norm(x, p + "post_attention_layernorm")
            x = x + (F.silu(h @ w[p + "mlp.gate_proj.weight"].T) * (h @ w[p + "mlp.up_proj.weight"].T)) @ w[p + "mlp.down_proj.weight"].T
        return self.norm(x[:, -1], "model.norm") @ w["model.embed_tokens.weight"].T

    def batch(self, prompts, max_new):
        torch = self.t
        m, B = max(map(len, prompts)), len(prompts)
        ids = torch.zeros(B, m, dtype=torch.long)
        pad = torch.tensor([m - len(p) for p in prompts])
        for i, p in enumerate(prompts):
            ids[i, m - len(p):] = torch.tensor(p)
        ids, pad = ids.to(self.dev), pad.to(self.dev)
        n = m + max_new
        cache = [(torch.zeros(B, 2, n, 64, device=self.dev), torch.zeros(B, 2, n, 64, device=self.dev)) for _ in range(8)]
        pos = (torch.arange(m, device=self.dev)[None] - pad[:, None]).clamp(min=0)
        real = torch.arange(n, device=self.dev)[None] >= pad[:, None]
        tri = torch.ones(m, m, dtype=torch.bool, device=self.dev).tril()
        own = torch.eye(m, dtype=torch.bool, device=self.dev)       # pads see themselves, so that no row is empty
        mask = ((tri[None] & real[:, None, :m]) | own[None])[:, None]
        out = torch.zeros(B, max_new, dtype=torch.long, device=self.dev)
        done = torch.zeros(B, dtype=torch.bool, device=self.dev)
        lg, at = self.step(ids, pos, cache, 0, mask), m
        for j in range(max_new):
            nx = torch.where(done, torch.zeros_like(done, dtype=torch.long), lg.argmax(-1))
            out[:, j] = nx
            done |= (nx == 0) | (nx == 2)
            if j % 8 == 7 and bool(done.all()) or j == max_new - 1:
                break
            lg = self.step(nx[:, None], (at - pad)[:, None], cache, at, real[:, None, None, :at + 1])
            at += 1
        res = []
        for row in out.tolist():
            e = next((i for i, t in enumerate(row) if t in (0, 2)), len(row))
            res.append(row[:e])
        return res


def main(path, cases, report, end=0, limit=0):
    import torch
    from tokenizers import Tokenizer
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    t0 = time.time()
    tok = Tokenizer.from_file(os.environ.get("TOKENIZER", "tokenizer.json"))
    cs = json.load(open(cases))
    if limit:
        import random
        random.Random(1).shuffle(cs)
        cs = cs[:limit]
    g = Gen(path)
    enc = [e.ids for e in tok.encode_batch([c[1] for c in cs], add_special_tokens=False)]
    got = [None] * len(cs)
    first = [i for i, c in enumerate(cs) if len(enc[i]) <= 400]
    groups = [sorted([i for i in first if cs[i][0].startswith("list")], key=lambda i: len(enc[i])), sorted([i for i in first if not cs[i][0].startswith("list")], key=lambda i: len(enc[i])), sorted([i for i in range(len(cs)) if len(enc[i]) > 400], key=lambda i: len(enc[i]))]
    bs0 = 512 if g.dev == "cuda" else 32
    with torch.no_grad():
        for grp in groups:
            k = 0
            while k < len(grp):
                if end and time.time() > end:
                    print("evaluation stopped by the clock", flush=True)
                    break
                bs = bs0 if len(enc[grp[k]]) <= 400 else bs0 // 8
                idx = grp[k:k + bs]
                k += bs
                for i, o in zip(idx, g.batch([enc[i] for i in idx], 260 if len(enc[idx[0]]) <= 400 else 120)):
                    got[i] = tok.decode(o, skip_special_tokens=False)
    fams, bad = {}, []
    for c, x in zip(cs, got):
        if x is None:
            continue
        ok = check(x, c[2], c[3])
        a, b = fams.get(c[0], (0, 0))
        fams[c[0]] = (a + ok, b + 1)
        if not ok:
            bad.append(dict(family=c[0], prompt=c[1][-300:], want=c[2], got=x[:400]))
    lines = [f"{f:32s} {100 * a / b:6.1f}%  {a}/{b}" for f, (a, b) in fams.items()]
    lines.append(f"{len([x for x in got if x is not None])} of {len(cs)} cases in {time.time() - t0:.1f}s")
    print("\n".join(lines), flush=True)
    with open(report, "w") as f:
        f.write("\n".join(lines) + "\n\n" + "\n".join(json.dumps(b, ensure_ascii=False) for b in bad) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "cases":
        make(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 60, sys.argv[4] if len(sys.argv) > 4 else None)
    else:
        main(sys.argv[1], sys.argv[2], sys.argv[3], 0, int(sys.argv[4]) if len(sys.argv) > 4 else 0)
