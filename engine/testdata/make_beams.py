"""Writes beams.json: what transformers' generate finds with beams, for a checkpoint of the model package.

    python make_beams.py ../../model/testdata/goldens
"""

import itertools
import json
import sys

import torch
import transformers

out = []
for name in ["llama", "qwen3"]:
    model = transformers.AutoModelForCausalLM.from_pretrained(f"{sys.argv[1]}/{name}", dtype=torch.float32).eval()
    vocab = model.config.vocab_size
    settings = itertools.product([(2, 1), (4, 3), (7, 40)], [1.0, 0.0, -0.5, 2.0], [False, True, "never"])
    for n, ((width, stops), penalty, early) in enumerate(settings):
        prompt = [1 + (n * 53 + i * i * 11 + i) % (vocab - 1) for i in range(1 + n * 7 % 40)]
        eos = [(i * 37 + 2) % vocab for i in range(stops)]
        length = 8 + n % 20
        with torch.no_grad():
            found = model.generate(
                torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), num_beams=width,
                num_return_sequences=width, do_sample=False, max_new_tokens=length, length_penalty=penalty, early_stopping=early,
                eos_token_id=eos, pad_token_id=vocab - 1, output_scores=True, return_dict_in_generate=True)
        answers = []
        for ids, beams in zip(found.sequences.tolist(), found.beam_indices.tolist()):
            answers.append(ids[len(prompt):][:sum(b >= 0 for b in beams)])
        out.append({
            "model": name, "prompt": prompt, "stops": eos, "width": width, "max_tokens": length, "length_penalty": penalty,
            "early_stopping": json.dumps(early).strip('"'), "answers": answers, "scores": [round(s, 5) for s in found.sequences_scores.tolist()]})
with open("beams.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(o) for o in out) + "\n]\n")
