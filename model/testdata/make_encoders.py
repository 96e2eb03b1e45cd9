"""Writes small random-weight encoders, with what transformers computes from them, to encoders/<name> beside this file.

Those of BERT come with a tokenizer, and with texts.json: texts, or pairs of texts, with the mean of the final hidden states, or
the score, that transformers gives. golden.safetensors holds, for some sequences i:

    ids_i     int32, token ids
    types_i   int32, token types, where the model has more than one
    hidden_i  float32, the final hidden states
    logits_i  float32, of the classes, where the model classifies

    pip install torch transformers safetensors
    python make_encoders.py
"""

import json
import pathlib

import tokenizers
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent / "encoders"
SMALL = dict(hidden_size=48, num_attention_heads=3, intermediate_size=80, num_hidden_layers=3, vocab_size=97,
             max_position_embeddings=330)
CASES = {
    "bert": ("BertModel", torch.float32, dict(SMALL, num_hidden_layers=2)),
    "bert_classes": ("BertForSequenceClassification", torch.float16, dict(SMALL, hidden_act="gelu_new", num_labels=1)),
    "roberta": ("RobertaModel", torch.bfloat16, dict(SMALL, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5)),
    "xlm_roberta_classes": ("XLMRobertaForSequenceClassification", torch.bfloat16,
                            dict(SMALL, pad_token_id=1, type_vocab_size=1, hidden_act="relu", num_labels=3)),
}


TEXTS = ["Hello, World!", "a", "The cat sat on the mat; nobody asked why? 42", "ääh 東 xyzzy"]


def write_tokenizer(folder, size):
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + c for c in letters), *",.;!?0123456789", "the", "cat",
             "##llo", "he", "world", "##at", "on", "sat"]
    words += [f"[unused{i}]" for i in range(size - len(words))]
    tok = tokenizers.Tokenizer(tokenizers.models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tok.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tok.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tok.decoder = tokenizers.decoders.WordPiece()
    tok.add_special_tokens(words[:5])
    tok.save(str(folder / "tokenizer.json"))
    return tok


def write_texts(folder, model, tok, pairs):
    out = []
    for i, text in enumerate(TEXTS):
        one = tok.encode(text, TEXTS[i - 1]) if pairs else tok.encode(text)
        got = model(torch.tensor([one.ids]), token_type_ids=torch.tensor([one.type_ids]))
        entry = dict(text=text, ids=one.ids)
        if pairs:
            entry |= dict(pair=TEXTS[i - 1], types=one.type_ids, score=got.logits[0, 0].sigmoid().item())
        else:
            entry |= dict(vector=got.last_hidden_state[0].mean(0).tolist())
        out.append(entry)
    (folder / "texts.json").write_text(json.dumps(out, ensure_ascii=False) + "\n")
    if not pairs:
        (folder / "modules.json").write_text(json.dumps([
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]) + "\n")
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(
            {"word_embedding_dimension": 48, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}) + "\n")


@torch.no_grad()
def main():
    for i, (name, (kind, dtype, options)) in enumerate(CASES.items()):
        generator = torch.Generator().manual_seed(2000 + i)
        cls = getattr(transformers, kind)
        model = cls(cls.config_class(**options)).eval()
        for key, value in model.state_dict().items():
            if not value.is_floating_point():
                continue
            noise = torch.randn(value.shape, generator=generator)
            if value.dim() == 2:
                noise *= 1.2 * value.shape[1] ** -0.5
            else:
                noise = noise * 0.3 + (0 if key.endswith("bias") else 1)
            value.copy_(noise.to(dtype))
        folder = HERE / name
        folder.mkdir(parents=True, exist_ok=True)
        model.to(dtype).save_pretrained(folder)
        model = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        config, out = model.config, {}
        for n, length in enumerate([1, 7, 65, 300]):
            ids = torch.randint(5, config.vocab_size, (1, length), generator=generator)
            types = (torch.arange(length) * 3 > length).long()[None] * (config.type_vocab_size - 1)
            got = model(ids, token_type_ids=types, output_hidden_states=True)
            out[f"ids_{n}"] = ids[0].to(torch.int32)
            if config.type_vocab_size > 1:
                out[f"types_{n}"] = types[0].to(torch.int32)
            rows = slice(None) if length < 100 else slice(-8, None)
            out[f"hidden_{n}"] = got.hidden_states[-1][0, rows].contiguous()
            if "ForSequence" in kind:
                out[f"logits_{n}"] = got.logits[0].contiguous()
        if name.startswith("bert"):
            write_texts(folder, model, write_tokenizer(folder, config.vocab_size), "classes" in name)
        save_file(out, folder / "golden.safetensors",
                  metadata={"source": f"transformers {transformers.__version__} torch {torch.__version__} eager float32 cpu"})


main()
