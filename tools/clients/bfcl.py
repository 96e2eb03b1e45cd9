"""Asks a server for the calls of the Berkeley Function-Calling Leaderboard's questions, and checks that every call
parses and validates against its tool's schema.

    python tools/clients/bfcl.py --base-url http://127.0.0.1:8000/v1 --dir $KVASIR_REFERENCE/schemas/bfcl

Needs the packages openai and jsonschema. Prints how many calls were right as well: the names and arguments that the
leaderboard accepts; a small model has few.
"""

import argparse
import json
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import openai

TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}


def schema(s):
    """Returns the leaderboard's dialect of a schema as JSON Schema."""
    if isinstance(s, list):
        return [schema(x) for x in s]
    if not isinstance(s, dict):
        return s
    out = {k: schema(v) if k != "properties" else {n: schema(p) for n, p in v.items()} for k, v in s.items()}
    if isinstance(out.get("type"), str) and out["type"] in TYPES:
        out["type"] = TYPES[out["type"]]
        if out["type"] is None:
            del out["type"]
    out.pop("default", None)
    if out.get("type") == "object" and "properties" in out:
        out["additionalProperties"] = False
    return out


def tools_of(case):
    out = []
    for f in case["function"]:
        out.append({"type": "function", "function": {"name": f["name"], "description": f.get("description", ""),
                                                     "parameters": schema(f["parameters"]), "strict": True}})
    return out


def collect(stream):
    """Adds up the deltas of a stream to calls and a finish reason."""
    calls, finish = [], None
    for chunk in stream:
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            for d in choice.delta.tool_calls or []:
                if d.index == len(calls):
                    calls.append([d.function.name, ""])
                calls[d.index][1] += d.function.arguments or ""
    return calls, finish


def ask(client, model, case, choice, parallel, max_tokens, stream):
    tools = tools_of(case)
    made = client.chat.completions.create(model=model, messages=case["question"][0], tools=tools, tool_choice=choice,
                                          parallel_tool_calls=parallel, temperature=0, max_tokens=max_tokens, stream=stream)
    if stream:
        calls, finish = collect(made)
    else:
        one = made.choices[0]
        calls, finish = [[c.function.name, c.function.arguments] for c in one.message.tool_calls or []], one.finish_reason
    known = {t["function"]["name"]: t["function"]["parameters"] for t in tools}
    for i, (name, arguments) in enumerate(calls):
        if finish == "length" and i == len(calls) - 1:
            return calls, "cut"
        try:
            jsonschema.validate(json.loads(arguments), known[name])
        except Exception as e:
            return calls, f"{case['id']}: {name} {arguments!r}: {str(e).splitlines()[0]}"
    if choice == "required" and not calls:
        return calls, "cut" if finish == "length" else f"{case['id']}: no call, {finish}"
    return calls, None


def right(calls, accepted):
    """Reports whether calls are what the leaderboard accepts, in any order."""
    rest = list(accepted)
    for name, arguments in calls:
        got = json.loads(arguments)
        for want in rest:
            if list(want) == [name] and all(got.get(k, "") in v for k, v in want[name].items()) and set(got) <= set(want[name]):
                rest.remove(want)
                break
        else:
            return False
    return not rest


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--base-url", default="http://127.0.0.1:8000/v1")
    p.add_argument("--dir", required=True, type=pathlib.Path)
    p.add_argument("--limit", type=int, default=0, help="questions of each file; 0 is all")
    p.add_argument("--max-tokens", type=int, default=512)
    args = p.parse_args()
    client = openai.OpenAI(base_url=args.base_url, api_key="none", timeout=600)
    model = client.models.list().data[0].id
    failed = False
    for kind in ["simple_python", "multiple", "parallel"]:
        cases = [json.loads(line) for line in open(args.dir / f"BFCL_v4_{kind}.json")]
        answers = {a["id"]: a["ground_truth"] for a in map(json.loads, open(args.dir / f"possible_answer/BFCL_v4_{kind}.json"))}
        cases = cases[: args.limit or None]
        for choice in ["required", "auto"]:
            def one(item):
                i, case = item
                try:
                    return case, ask(client, model, case, choice, kind == "parallel", args.max_tokens, i % 2 == 1)
                except openai.APIStatusError as e:
                    return case, ([], f"{case['id']}: {e}")
            with ThreadPoolExecutor(8) as pool:
                done = list(pool.map(one, enumerate(cases)))
            bad = [e for _, (_, e) in done if e and e != "cut"]
            cut = sum(e == "cut" for _, (_, e) in done)
            called = sum(bool(calls) for _, (calls, _) in done)
            good = sum(e is None and bool(calls) and right(calls, answers.get(case["id"], [])) for case, (calls, e) in done)
            print(f"{kind}, {choice}: {len(cases)} questions, {called} with calls, {len(bad)} invalid, {cut} cut at the "
                  f"length limit, {good} right")
            for e in bad[:10]:
                print("  ", e)
            failed = failed or bool(bad)
    sys.exit(failed)


main()
