"""Trains the small tokenizers in this folder and writes what their libraries make of test strings.

Needs the Python packages tokenizers and sentencepiece: python generate.py
"""
import io, json, os, random
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders as D, models as M, normalizers as N, pre_tokenizers as P, processors as PP, trainers as T
from sentencepiece import sentencepiece_model_pb2

HERE = os.path.dirname(os.path.abspath(__file__))
random.seed(7)
CORPUS = ["""The quick brown fox jumps over the lazy dog, and the dog doesn't mind: it's asleep. They've counted 12345 sheep!
Ça déjà vu à l'été. Größe, Straße. Привет мир, как дела? Γειά σου Κόσμε! 你好世界，今天天气很好。これはテストです。한국어 텍스트
def main(argc):\n\tfor i in range(100):\n\t\tprint(f"{i:03d}")  # hello world, hello again\n    return 0\n\n
the model reads the tokens and the tokens are read by the model; HTTPServer getURL camelCase snake_case 3.14 1,000"""] * 30
FRAGMENTS = ["Hello", " world", " the", "THE", "it's", "IT'S", "''", "don't", " 123", "1234567", "½", " ", "  ", "   ", "\t", "\n",
    "\r\n", "\n\n", "\u00a0", "\u3000", "é", "e\u0301", "ﬁ", "ſ", "İ", "ß", "你好", "世界", "テスト", "한국어", "हिन्दी", "😀", "👍🏽", "👨‍👩‍👧", "…",
    "“x”", "—", "!!!", ";", "()", "##", "snake_case", "@#$%", "€", "\u200b", "\ufeff", "\x07", "\x85", "<|end|>", "<s>", "</s>", "<unk>",
    "<mask>", "[MASK]", "[CLS]", "<think>", "▁", "▁▁", "<0x41>", "camelCase", "aaaaaaa", "a-b", "1,000.5", "<sep>"]
TEXTS = ["", " ", "\n"] + ["".join(random.choices(FRAGMENTS, k=random.randint(1, 9))) for _ in range(27)]

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
    r""" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")


def save(name, t, plain=True):
    t = Tokenizer.from_str(t.to_str())
    cases = []
    for text in TEXTS:
        c = {"text": text, "ids": t.encode(text, add_special_tokens=False).ids, "special": t.encode(text).ids}
        if plain:
            t.encode_special_tokens = True
            c["plain"] = t.encode(text, add_special_tokens=False).ids
            t.encode_special_tokens = False
        if c["special"]:
            c["decoded"] = t.decode(c["special"], skip_special_tokens=False)
            c["skipped"] = t.decode(c["special"], skip_special_tokens=True) if c["ids"] else ""
        cases.append(c)
    write(name, {"tokenizer": json.loads(t.to_str()), "cases": cases})


def write(name, obj):
    with open(os.path.join(HERE, name + ".json"), "w") as f:
        json.dump(obj, f, ensure_ascii=False, separators=(",", ":"))


def split(pattern):
    return P.Split(Regex(pattern), "isolated")


def byte_level(name, *pre, norm=None, added=(), post=None, model=M.BPE(), size=330, decoder=D.ByteLevel()):
    t = Tokenizer(model)
    t.pre_tokenizer = pre[0] if len(pre) == 1 else P.Sequence(list(pre))
    t.decoder = decoder
    if norm:
        t.normalizer = norm
    suffix = {"end_of_word_suffix": model.end_of_word_suffix} if model.end_of_word_suffix else {}
    t.train_from_iterator(CORPUS, T.BpeTrainer(vocab_size=size, initial_alphabet=P.ByteLevel.alphabet(), special_tokens=["<|end|>", "<s>"],
        show_progress=False, **suffix))
    t.add_tokens(list(added))
    if post:
        t.post_processor = post
    save(name, t)


def sentencepiece_model(kind, corpus=CORPUS[0], **options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(sentence_iterator=iter(corpus.split("\n") * 20), model_writer=out, model_type=kind,
        minloglevel=2, hard_vocab_limit=False, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(out.getvalue())
    return out.getvalue(), proto


def save_model(name, data, texts=TEXTS):
    with open(os.path.join(HERE, name + ".model"), "wb") as f:
        f.write(data)
    sp = sentencepiece.SentencePieceProcessor(model_proto=data)
    write(name, {"cases": [{"text": x, "plain": sp.EncodeAsIds(x)} for x in texts]})


raw = P.ByteLevel(add_prefix_space=False, use_regex=False)
bos = PP.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
byte_level("gpt2", P.ByteLevel(add_prefix_space=True), added=[AddedToken("<mask>", lstrip=True, special=True, normalized=False)],
    post=PP.RobertaProcessing(("<|end|>", 0), ("<s>", 1)))
byte_level("llama3", split(LLAMA3), raw, model=M.BPE(ignore_merges=True), post=PP.Sequence([PP.ByteLevel(), bos]))
byte_level("o200k", split(O200K), raw, norm=N.NFC(), added=[AddedToken("<think>", rstrip=True, normalized=False)])
byte_level("deepseek", split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK3), raw, added=[AddedToken("  ", normalized=True)])
byte_level("falcon", P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False), P.Digits(False), split("[0-9][0-9][0-9]"))
byte_level("groups", split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(r"(?<=[a-z])(?=[A-Z])"), raw)
byte_level("clip", P.Sequence([P.Split(Regex(r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", True), P.ByteLevel(add_prefix_space=False)]),
    norm=N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]), size=600,
    model=M.BPE(unk_token="<|end|>", end_of_word_suffix="</w>"))

data, proto = sentencepiece_model("bpe", vocab_size=520, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
    user_defined_symbols=["<think>"])
save_model("spm-bpe", data)
vocab = {p.piece: i for i, p in enumerate(proto.pieces)}
merges = []
for p in proto.pieces:
    merges += [(p.piece[:i], p.piece[i:], p.score) for i in range(1, len(p.piece))
        if p.type == 1 and p.piece[:i] in vocab and p.piece[i:] in vocab]
merges.sort(key=lambda m: -m[2])
for name, norm, pre in [("llama2", N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), None),
        ("gemma", N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous")), ("mistral", None, P.Metaspace("▁", "first", False))]:
    t = Tokenizer(M.BPE(vocab, [(a, b) for a, b, _ in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if norm:
        t.normalizer = norm
    if pre:
        t.pre_tokenizer = pre
    t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()] + ([D.Strip(" ", 1, 0)] if name != "gemma" else []))
    t.add_special_tokens([AddedToken(x, normalized=False) for x in ("<unk>", "<s>", "</s>")])
    t.add_tokens([AddedToken("<mask>", normalized=True), AddedToken("camelCase", single_word=True, normalized=False)])
    t.post_processor = bos
    save(name, t)

rules = os.path.join(HERE, "rules.tsv")
with open(rules, "w") as f:
    f.write("FB01\t66 69\nA0\t20\n3000\t20\n9\t20\nD\t20\nA\t20\n65 301\tE9\n200B\t\n2026\t2E 2E 2E\n")
data, proto = sentencepiece_model("unigram", vocab_size=320, normalization_rule_tsv=rules, user_defined_symbols=["<sep>"])
os.remove(rules)
save_model("spm-unigram", data)

# User-defined symbols whose text other pieces spell with a greater score.
TOOLS = """the tool reads a text and the tool writes a text <to> ol> <x> < tool >
a b c d e f g h i j k l m n o p q r s t u v w x y z . , ! < >\ntools tool toolbox to too l ol <t ool>"""
data, _ = sentencepiece_model("unigram", TOOLS, vocab_size=90, normalization_rule_name="identity",
    user_defined_symbols=["<tool>", "</tool>", "tool", "ol>"])
parts = ["a", " ", "<tool>", "</tool>", "tool", "<to", "ol>", "b", "the", "  ", "t", "<", ">", "xyz", "é"]
save_model("spm-symbols", data, ["a <tool> b"] + ["".join(random.choices(parts, k=random.randint(1, 9))) for _ in range(200)])

for name, fallback in [("t5", False), ("unigram-bytes", True)]:
    pieces = [(p.piece, p.score) for p in proto.pieces] + ([("<0x%02X>" % b, -20.0) for b in range(256)] if fallback else [])
    t = Tokenizer(M.Unigram(pieces, unk_id=0, byte_fallback=fallback))
    t.normalizer = N.Sequence([N.Precompiled(proto.normalizer_spec.precompiled_charsmap), N.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = P.Metaspace("▁", "always")
    t.decoder = D.Sequence([D.ByteFallback(), D.Metaspace("▁", "always")]) if fallback else D.Metaspace("▁", "always")
    t.add_special_tokens([AddedToken(x, normalized=False) for x in ("<unk>", "<s>", "</s>")])
    t.post_processor = PP.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    save(name, t, plain=False)

for name, norm, pre in [("bert", N.BertNormalizer(), P.BertPreTokenizer()),
        ("words", N.Sequence([N.NFD(), N.StripAccents(), N.Strip()]), P.Sequence([P.Whitespace(), P.Punctuation("merged_with_next")]))]:
    t = Tokenizer(M.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
    t.normalizer, t.pre_tokenizer, t.decoder = norm, pre, D.WordPiece()
    t.train_from_iterator(CORPUS, T.WordPieceTrainer(vocab_size=350, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    t.post_processor = PP.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    t.add_tokens([AddedToken("Hello", single_word=True)])
    save(name, t)
t = Tokenizer(M.BPE(unk_token="<unk>", fuse_unk=True, end_of_word_suffix="</w>"))
t.pre_tokenizer, t.decoder = P.WhitespaceSplit(), D.BPEDecoder()
t.train_from_iterator([CORPUS[0][:300]], T.BpeTrainer(vocab_size=150, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False))
save("suffix", t)
t = Tokenizer(M.WordLevel(unk_token="[UNK]"))
t.pre_tokenizer = P.Sequence([P.CharDelimiterSplit("-"), P.Punctuation("merged_with_previous"), P.FixedLength(length=3)])
t.train_from_iterator(CORPUS, T.WordLevelTrainer(vocab_size=100, special_tokens=["[UNK]"], show_progress=False))
save("wordlevel", t)
