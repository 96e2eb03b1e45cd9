"""Holds a server's answers to an API's own OpenAPI description: OpenAI's, Anthropic's or Ollama's.

    pip install jsonschema pyyaml
    kvasir serve --state /tmp/state &
    python tools/clients/openapi_check.py openapi.yaml --base-url http://127.0.0.1:8000 --docs docs/server.md

The description comes from github.com/openai/openai-openapi (openapi.yaml), github.com/ollama/ollama
(docs/openapi.yaml) or github.com/laszukdawid/anthropic-openapi-spec (hosted_spec.json). Every answer, and every event of
a stream, is validated. With --docs, every member of OpenAI's requests must be named in that page.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request

import jsonschema
import yaml

SAY = [{"role": "user", "content": "Say hi."}]
WEATHER = {"name": "get_weather", "description": "The weather of a city",
           "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
LINE = json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "a", "max_tokens": 2}})

# Requests: the method, the path as the description has it, the path's values, the body.
OPENAI = [
    ("POST", "/chat/completions", {}, {"messages": SAY, "max_tokens": 8, "logprobs": True, "top_logprobs": 2, "n": 2}),
    ("POST", "/chat/completions", {}, {"messages": SAY, "max_tokens": 8, "stream": True, "logprobs": True,
                                       "stream_options": {"include_usage": True}}),
    ("POST", "/chat/completions", {}, {"messages": ASK, "max_tokens": 60, "tools": [{"type": "function", "function": WEATHER}],
                                       "tool_choice": "required"}),
    ("POST", "/chat/completions", {}, {"messages": ASK, "max_tokens": 60, "tools": [{"type": "function", "function": WEATHER}],
                                       "tool_choice": "required", "stream": True}),
    ("POST", "/chat/completions", {}, {"messages": []}),
    ("POST", "/completions", {}, {"prompt": "Once", "max_tokens": 8, "logprobs": 2, "echo": True}),
    ("POST", "/completions", {}, {"prompt": "Once", "max_tokens": 8, "stream": True}),
    ("POST", "/embeddings", {}, {"input": ["a", "b"]}),
    ("GET", "/models", {}, None),
    ("GET", "/models/{model}", {"model": "MODEL"}, None),
    ("POST", "/responses", {}, {"input": "Say hi.", "max_output_tokens": 20, "instructions": "Be brief."}),
    ("POST", "/responses", {}, {"input": "Say hi.", "max_output_tokens": 20, "stream": True,
                                "include": ["message.output_text.logprobs"], "top_logprobs": 2}),
    ("POST", "/responses", {}, {"input": ASK, "max_output_tokens": 60, "stream": True, "tool_choice": "required",
                                "tools": [{"type": "function", "strict": False, **WEATHER}]}),
    ("GET", "/responses/{response_id}", {"response_id": "resp"}, None),
    ("GET", "/responses/{response_id}/input_items", {"response_id": "resp"}, None),
    ("POST", "/files", {}, LINE.encode()),
    ("GET", "/files", {}, None),
    ("GET", "/files/{file_id}", {"file_id": "file"}, None),
    ("POST", "/batches", {}, {"input_file_id": "file", "endpoint": "/v1/completions", "completion_window": "24h"}),
    ("GET", "/batches/{batch_id}", {"batch_id": "batch"}, None),
    ("GET", "/batches", {}, None),
    ("DELETE", "/files/{file_id}", {"file_id": "file"}, None),
    ("POST", "/embeddings", {}, {"input": [1, 2], "encoding_format": "base64", "dimensions": 1}),
    ("POST", "/responses", {}, {"input": "Say hi.", "background": True, "max_output_tokens": 200, "previous_response_id": "resp"}),
    ("POST", "/responses/{response_id}/cancel", {"response_id": "resp"}, None),
    ("DELETE", "/responses/{response_id}", {"response_id": "resp"}, None),
    ("GET", "/responses/{response_id}", {"response_id": "resp"}, None),
    ("POST", "/batches", {}, {"input_file_id": "file", "endpoint": "/v1/completions", "completion_window": "24h"}),
    ("POST", "/files", {}, LINE.encode()),
    ("POST", "/batches", {}, {"input_file_id": "file", "endpoint": "/v1/completions", "completion_window": "24h"}),
    ("POST", "/batches/{batch_id}/cancel", {"batch_id": "batch"}, None),
]
ANTHROPIC = [
    ("POST", "/v1/messages", {}, {"model": "MODEL", "max_tokens": 8, "messages": SAY}),
    ("POST", "/v1/messages", {}, {"model": "MODEL", "max_tokens": 8, "messages": SAY, "stream": True}),
    ("POST", "/v1/messages", {}, {"model": "MODEL", "max_tokens": 60, "messages": ASK, "tool_choice": {"type": "any"}, "tools": [
        {"name": "get_weather", "input_schema": WEATHER["parameters"]}]}),
    ("POST", "/v1/messages", {}, {"model": "MODEL", "max_tokens": 60, "messages": ASK, "tool_choice": {"type": "any"}, "tools": [
        {"name": "get_weather", "input_schema": WEATHER["parameters"]}], "stream": True}),
    ("POST", "/v1/messages", {}, {"model": "MODEL", "max_tokens": 8, "messages": []}),
    ("POST", "/v1/messages", {}, {"model": "none", "max_tokens": 8, "messages": SAY}),
    ("POST", "/v1/messages/count_tokens", {}, {"model": "MODEL", "messages": SAY}),
]
OLLAMA = [
    ("POST", "/api/generate", {}, {"model": "MODEL", "prompt": "Say hi.", "options": {"num_predict": 8}, "logprobs": True, "top_logprobs": 2}),
    ("POST", "/api/generate", {}, {"model": "MODEL", "prompt": "Say hi.", "options": {"num_predict": 8}, "stream": False}),
    ("POST", "/api/chat", {}, {"model": "MODEL", "messages": SAY, "options": {"num_predict": 8}}),
    ("POST", "/api/chat", {}, {"model": "MODEL", "messages": ASK, "tools": [{"type": "function", "function": WEATHER}], "stream": False,
                               "options": {"num_predict": 60}}),
    ("POST", "/api/embed", {}, {"model": "MODEL", "input": ["a", "b"]}),
    ("GET", "/api/tags", {}, None),
    ("GET", "/api/ps", {}, None),
    ("POST", "/api/show", {}, {"model": "MODEL"}),
    ("GET", "/api/version", {}, None),
]

def filled(v):
    """Fills in what is null with OpenAI's own server and every client, though the description does not say so: what the
    first token of a prompt has, and why a completion has ended before it has."""
    for choice in v.get("choices", []) if v.get("object") == "text_completion" else []:
        choice["finish_reason"] = choice["finish_reason"] or "stop"
        logs = choice["logprobs"]
        if logs and logs["token_logprobs"][0] is None:
            logs["token_logprobs"][0], logs["top_logprobs"][0] = 0, {}
    return v


def send(url, method, body):
    """Returns the status, the type and the body of an answer."""
    headers = {"Content-Type": "application/json"}
    if isinstance(body, bytes):
        headers["Content-Type"] = "multipart/form-data; boundary=XX"
        body = (b'--XX\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--XX\r\nContent-Disposition: form-data; '
                b'name="file"; filename="in.jsonl"\r\n\r\n' + body + b"\r\n--XX--\r\n")
    elif body is not None:
        body = json.dumps(body).encode()
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, answer.headers["Content-Type"].split(";")[0], answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.headers["Content-Type"].split(";")[0], e.read().decode()


def values(kind, text):
    """Splits an answer into its JSON values."""
    if kind == "text/event-stream":
        data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        return [json.loads(d) for d in data if d != "[DONE]"]
    if kind == "application/x-ndjson":
        return [json.loads(line) for line in text.splitlines()]
    return [json.loads(text)]


def shape(spec, path, method, status, kind):
    """Returns the schema of an answer."""
    answers = spec["paths"][path][method.lower()]["responses"]
    if status >= 400:
        known = next((k for k in (str(status), "default", "4XX") if k in answers), None)
        if known is None:
            return spec["components"]["schemas"]["ErrorResponse"]
        answer = answers[known]
    else:
        answer = answers[str(status)]
    if "content" not in answer:
        return {}
    content = answer["content"]
    return content.get(kind, content.get("application/json"))["schema"]


def event(spec, v):
    """Returns the schema of an event of a stream with several kinds of them: the one of its type."""
    if v["type"] == "ping":
        return {}
    for name, s in spec["components"]["schemas"].items():
        if name.endswith("Event") and "Beta" not in name and s.get("properties", {}).get("type", {}).get("enum") == [v["type"]]:
            return s
    return {"not": {}, "description": "no event of this type"}


def discriminate(node):
    """Turns what OpenAPI has beside JSON Schema into that: nullable, and a choice by a discriminator."""
    if isinstance(node, dict):
        for v in list(node.values()):
            discriminate(v)
        if node.get("type", "") is None:  # as one schema of Anthropic's has it
            del node["type"]
        if node.pop("nullable", False):
            inner = dict(node)
            node.clear()
            node["anyOf"] = [inner, {"type": "null"}]
        if "discriminator" in node and "oneOf" in node:
            node["anyOf"] = node.pop("oneOf")
    elif isinstance(node, list):
        for v in node:
            discriminate(v)


def members(spec, schema):
    """Returns the names of an object's members."""
    if "$ref" in schema:
        return members(spec, spec["components"]["schemas"][schema["$ref"].split("/")[-1]])
    names = set(schema.get("properties", {}))
    for part in schema.get("allOf", []) + schema.get("anyOf", []):
        names |= members(spec, part)
    return names


def untold(spec, page):
    """Returns the members of requests that a page does not name."""
    text = open(page).read()
    return [f"{name} of {path}" for path in ("/chat/completions", "/completions", "/responses", "/embeddings")
            for name in sorted(members(spec, spec["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]))
            if f"`{name}" not in text]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("spec")
    p.add_argument("--base-url", default="http://127.0.0.1:8000")
    p.add_argument("--docs", help="the page that tells of all members of OpenAI's requests")
    args = p.parse_args()
    with open(args.spec) as f:
        spec = json.load(f) if args.spec.endswith(".json") else yaml.safe_load(f)
    missing = untold(spec, args.docs) if args.docs else []
    discriminate(spec)
    requests, base = OPENAI, args.base_url + "/v1"
    for path, others in ("/api/chat", OLLAMA), ("/v1/messages", ANTHROPIC):
        if path in spec["paths"]:
            requests, base = others, args.base_url
    model = json.loads(send(args.base_url + "/v1/models", "GET", None)[2])["data"][0]["id"]
    known, wrong, checked = {"MODEL": model}, 0, 0
    for method, path, names, body in requests:
        url = path
        for name, value in names.items():
            url = url.replace("{" + name + "}", known.get(value, value))
        if isinstance(body, dict):
            body = {k: known.get(v, v) if isinstance(v, str) else v for k, v in body.items()}
        status, kind, text = send(base + url, method, body)
        bad = []
        for v in values(kind, text):
            checked += 1
            wanted = event(spec, v) if path in ("/responses", "/v1/messages") and kind == "text/event-stream" else shape(spec, path, method, status, kind)
            schema = {"$ref": "#/wanted", "wanted": wanted, "components": spec["components"]}
            error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(filled(v)))
            if error:
                bad.append(f"{error.json_path}: {error.message[:300]}\n    {json.dumps(v)[:300]}")
            if isinstance(v, dict) and "id" in v:
                for prefix, name in (("resp_", "resp"), ("file-", "file"), ("batch_", "batch")):
                    if str(v["id"]).startswith(prefix):
                        known[name] = v["id"]
        print("ok   " if not bad else "WRONG", method, path, status, kind)
        for line in bad[:2]:
            print("   ", line)
        wrong += bool(bad)
    print(f"{checked} values, {wrong} requests with wrong answers")
    if missing:
        print("not in the page:", ", ".join(missing))
    sys.exit(wrong > 0 or bool(missing))


main()
