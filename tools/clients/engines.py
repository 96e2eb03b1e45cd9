"""Drives a real engine of another make through a gateway: alone, and with a kvasir beside it.

    pip install openai anthropic
    python tools/clients/engines.py path/to/kvasir --engine llama-server=http://127.0.0.1:8080 \\
        --start "llama-server -m kvasir-mini.gguf --alias kvasir-mini --port 8080 --metrics --jinja"

It starts the gateway, the kvasir and, with --start, the engine, which it also kills in the middle of streams and
starts again. What an engine cannot do is in CANNOT: the script fails if anything else fails, and if something there
works. All are to serve kvasir's own small model as kvasir-mini, and without reasoning:

    kvasir convert kvasir-mini kvasir-mini.gguf; kvasir convert kvasir-mini kvasir-mini --type bf16
    llama-server ... --chat-template-kwargs '{"enable_thinking": false}'
    ollama create kvasir-mini -f Modelfile      # FROM the GGUF, with a TEMPLATE of ChatML and tools; --health /api/version
    VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve ./kvasir-mini --served-model-name kvasir-mini --enable-auto-tool-choice \\
        --tool-call-parser hermes --structured-outputs-config '{"backend": "xgrammar", "disable_any_whitespace": true}' \\
        --enable-lora --kv-events-config '{"enable_kv_cache_events": true, "endpoint": "tcp://*:5557", ...}'
"""

import argparse
import collections
import http.client
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import anthropic
import openai

MODEL = "kvasir-mini"
QUESTION = [{"role": "user", "content": "What is a KV cache?"}]
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Get the weather of a city", "parameters": PARAMETERS}}
FACT = {"type": "object", "properties": {"capital": {"type": "string", "maxLength": 20}, "large": {"type": "boolean"}},
        "required": ["capital", "large"], "additionalProperties": False}
GREEDY = {"temperature": 0, "max_tokens": 1000, "ignore_eos": True}
LONG = {"prompt": "1 2 3 4 5 6 7 8 9 10", "max_tokens": 1500, "temperature": 1.5, "ignore_eos": True}

# What engines cannot do through a gateway, by their own words or by what they do.
NO_EVENTS = {"events": "publishes no KV events", "adapters": "loads none by path"}
CANNOT = {
    "llama-server": NO_EVENTS | {"embeddings": "has none where it was started for text",
                                 "responses_stream": "events have no output_index, without which OpenAI's client fails"},
    "ollama": NO_EVENTS | {"too_long": "cuts a long prompt in silence", "count_tokens": "has no such path", "load": "has no metrics"},
    "vllm": {"embeddings": "has none of a model that generates"},
}


class Cannot(Exception):
    """The engine says that it does not do this."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def port_of(url):
    return url.rsplit(":", 1)[1]


class Program:
    """A program that runs in a group of processes of its own."""

    def __init__(self, command, log, health):
        self.command, self.log, self.health = command, log, health
        self.start()

    def start(self):
        with open(self.log, "a") as out:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=out, start_new_session=True)
        for _ in range(3000):
            try:
                urllib.request.urlopen(self.health, timeout=2)
                return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        sys.exit(f"{self.command[0]} does not start; see {self.log}")

    def kill(self):
        for pid in self.members():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def members(self):
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                after = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(after[3]) == self.process.pid:
                found.append(int(stat.parent.name))
        return found

    def seconds(self):
        """Of processor time that its processes took."""
        ticks = 0
        for pid in self.members():
            try:
                after = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            ticks += int(after[11]) + int(after[12])
        return ticks / os.sysconf("SC_CLK_TCK")


class World:
    def __init__(self, args, folder):
        self.folder = folder
        self.kind, self.engine_url = args.engine.split("=", 1)
        self.engine = Program(shlex.split(args.start), folder / "engine.log", self.engine_url + args.health) if args.start else None
        port = free_port()
        self.kvasir_url = f"http://127.0.0.1:{port}"
        self.kvasir = Program([args.kvasir, "serve", "--port", str(port)], folder / "kvasir.log", self.kvasir_url + "/health")
        key = dict(line.split(": ", 1) for line in subprocess.check_output([args.kvasir, "gateway", "key", "create"], text=True).splitlines() if ": " in line)
        self.key = key["key"].strip()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        engine = {"url": self.engine_url, "cost": 1}
        if args.events:
            engine |= {"events": args.events, "events_replay": args.replay}
        lasts = {"url": self.kvasir_url, "cost": 2}
        self.first_url = f"http://localhost:{port_of(self.kvasir_url)}" # the same, with settings of its own
        firsts = {"url": self.first_url, "cost": 0}
        models = [
            {"name": "alone", "endpoints": [engine]},
            {"name": "both", "endpoints": [engine, lasts], "resume": True, "policy": {"cost": 1}},
            {"name": "back", "endpoints": [engine, firsts], "resume": True, "policy": {"cost": 1}},
            {"name": "wide", "endpoints": [engine], "fallbacks": ["kvasir"]},
            {"name": "kvasir", "endpoints": [lasts]},
        ]
        if args.adapter:
            models[0]["adapters"] = [{"name": "adapter", "path": args.adapter}]
        config = {"listen": f"127.0.0.1:{port}", "state": {"url": "memory:"}, "access_log": str(folder / "access.log"),
                  "keys": [{"name": "driver", "hash": key["hash"].strip(), "admin": True}],
                  "models": [m | {"upstream": MODEL} for m in models]}
        (folder / "fleet.yaml").write_text(json.dumps(config)) # which is YAML
        self.gateway = Program([args.kvasir, "gateway", "--config", str(folder / "fleet.yaml")], folder / "gateway.log", self.url + "/health")
        self.openai = openai.OpenAI(base_url=self.url + "/v1", api_key=self.key, max_retries=0, timeout=120)
        self.anthropic = anthropic.Anthropic(base_url=self.url, api_key=self.key, max_retries=0, timeout=120)
        self.adapter, self.events = args.adapter, args.events

    def close(self):
        for program in (self.gateway, self.kvasir, self.engine):
            if program:
                program.kill()

    def ask(self, method, path, body=None, headers=()):
        r = urllib.request.Request(self.url + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                   headers={"Authorization": "Bearer " + self.key, "Content-Type": "application/json"} | dict(headers))
        try:
            with urllib.request.urlopen(r, timeout=120) as res:
                return res.status, res.headers, res.read()
        except urllib.error.HTTPError as e:
            return e.code, e.headers, e.read()

    def fleet(self, url):
        """What the gateway knows of an endpoint."""
        _, _, said = self.ask("GET", "/gateway/fleet")
        return [e for m in json.loads(said)["models"] for e in m["endpoints"] if e["url"] == url][0]

    def stream(self, path, body):
        """Begins a stream; returns its connection and its answer."""
        c = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=120)
        c.request("POST", path, json.dumps(body | {"stream": True}), {"Authorization": "Bearer " + self.key, "Content-Type": "application/json",
                                                                       "X-Kvasir-Explain": "1"})
        return c, c.getresponse()

    def up(self, url, wanted=True):
        for _ in range(600):
            if self.fleet(url)["up"] == wanted:
                return
            time.sleep(0.1)
        raise AssertionError(f"the gateway says up={not wanted} of {url}")


def data_of(lines):
    for line in lines:
        if line.startswith(b"data: "):
            yield line[6:].strip()


def text_of(events):
    return "".join((c.get("delta") or {}).get("content") or c.get("text") or "" for e in events for c in e.get("choices", []))


def chat(w):
    done = w.openai.chat.completions.create(model="alone", messages=QUESTION, temperature=0, max_tokens=24)
    assert done.choices[0].message.content and done.choices[0].finish_reason in ("stop", "length"), done
    assert 0 < done.usage.completion_tokens <= 24 and done.usage.prompt_tokens > 5, done.usage
    return done


def chat_stream(w):
    whole = chat(w).choices[0].message.content
    chunks = list(w.openai.chat.completions.create(model="alone", messages=QUESTION, temperature=0, max_tokens=24, stream=True,
                                                   stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole, (text, whole)
    assert chunks[-1].usage.completion_tokens > 0 and len({c.id for c in chunks}) == 1, chunks[-1]


def completion(w):
    done = w.openai.completions.create(model="alone", prompt="A KV cache", temperature=0, max_tokens=16)
    chunks = list(w.openai.completions.create(model="alone", prompt="A KV cache", temperature=0, max_tokens=16, stream=True))
    assert done.choices[0].text == "".join(c.choices[0].text for c in chunks if c.choices) != "", (done, chunks)


def tools(w):
    q = {"model": "alone", "messages": WEATHER, "tools": [TOOL], "temperature": 0, "max_tokens": 80}
    one = w.openai.chat.completions.create(**q).choices[0]
    assert one.finish_reason == "tool_calls" and json.loads(one.message.tool_calls[0].function.arguments) == {"city": "Paris"}, one
    parts = [c.choices[0] for c in w.openai.chat.completions.create(stream=True, **q) if c.choices]
    arguments = "".join(t.function.arguments or "" for p in parts for t in p.delta.tool_calls or [])
    assert json.loads(arguments) == {"city": "Paris"} and parts[-1].finish_reason == "tool_calls", parts
    call = one.message.tool_calls[0]
    answer = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 21, "sky": "clear"}'}
    two = w.openai.chat.completions.create(**q | {"messages": [*WEATHER, one.message, answer]}).choices[0]
    assert two.finish_reason == "stop" and two.message.content, two


def schema(w):
    form = {"type": "json_schema", "json_schema": {"name": "fact", "schema": FACT, "strict": True}}
    done = w.openai.chat.completions.create(model="alone", messages=QUESTION, response_format=form, temperature=0, max_tokens=200)
    got = json.loads(done.choices[0].message.content)
    assert isinstance(got["capital"], str) and isinstance(got["large"], bool) and len(got) == 2, got


def logprobs(w):
    done = w.openai.chat.completions.create(model="alone", messages=QUESTION, logprobs=True, top_logprobs=2, temperature=0, max_tokens=4)
    listed = done.choices[0].logprobs
    if listed is None:
        raise Cannot("no logprobs in the answer")
    assert 1 <= len(listed.content) <= 4 and len(listed.content[0].top_logprobs) == 2 and listed.content[0].logprob <= 0, listed


def embeddings(w):
    try:
        done = w.openai.embeddings.create(model="alone", input=["one", "two"])
    except (openai.BadRequestError, openai.NotFoundError, openai.InternalServerError) as e:
        raise Cannot(e) from e
    assert len(done.data) == 2 and len(done.data[0].embedding) > 10 and done.data[0].embedding != done.data[1].embedding


def errors(w):
    for path, body in (("/v1/chat/completions", {"messages": "none"}), ("/v1/completions", {"prompt": {"a": 1}}),
                       ("/v1/messages", {"messages": [{"role": "user", "content": 3}], "max_tokens": 4})):
        status, _, said = w.ask("POST", path, {"model": "alone"} | body)
        message = json.loads(said)["error"]["message"]
        assert 400 <= status < 500 and message, (path, status, said)
    assert w.fleet(w.engine_url)["up"], "bad requests harm the endpoint"


def too_long(w):
    """A prompt that is too long for the engine goes to a fallback, and alone is an error."""
    q = [{"role": "user", "content": "word " * 9000}]
    status, _, said = w.ask("POST", "/v1/chat/completions", {"model": "alone", "messages": q, "max_tokens": 4})
    if status == 200:
        raise Cannot("it cuts the prompt silently")
    assert status == 400 and json.loads(said)["error"]["message"], (status, said)
    before = w.fleet(w.kvasir_url)
    status, _, said = w.ask("POST", "/v1/chat/completions", {"model": "wide", "messages": q, "max_tokens": 4})
    assert before["up"] and status == 400, (status, said) # kvasir's context is as short
    last = json.loads((w.folder / "access.log").read_text().splitlines()[-1])
    assert last["model"] == "kvasir" and last["endpoint"] == w.kvasir_url, last


def messages(w):
    q = {"model": "alone", "max_tokens": 24, "messages": QUESTION, "extra_body": {"temperature": 0}}
    said = lambda m: "".join(b.text for b in m.content if b.type == "text")
    one = w.anthropic.messages.create(**q)
    assert one.type == "message" and said(one) and one.usage.output_tokens > 0 and one.usage.input_tokens > 0, one
    with w.anthropic.messages.stream(**q) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == said(one) == said(final) and final.usage.output_tokens == one.usage.output_tokens, (one, final)
    tool = {"name": "get_weather", "description": "Get the weather of a city", "input_schema": PARAMETERS}
    call = w.anthropic.messages.create(**q | {"messages": WEATHER, "max_tokens": 80}, tools=[tool])
    assert call.stop_reason == "tool_use" and call.content[-1].input == {"city": "Paris"}, call


def count_tokens(w):
    try:
        n = w.anthropic.messages.count_tokens(model="alone", messages=QUESTION).input_tokens
    except anthropic.NotFoundError as e:
        raise Cannot(e) from e
    assert n > 5, n


def responses(w):
    try:
        one = w.openai.responses.create(model="alone", input="What is a KV cache?", temperature=0, max_output_tokens=24, store=False)
    except openai.NotFoundError as e:
        raise Cannot(e) from e
    assert one.output_text and one.usage.output_tokens > 0, one


def responses_stream(w):
    one = w.openai.responses.create(model="alone", input="What is a KV cache?", temperature=0, max_output_tokens=24, store=False)
    raw = {"model": "alone", "input": "What is a KV cache?", "max_output_tokens": 4, "stream": True}
    added = [json.loads(d) for d in data_of(w.ask("POST", "/v1/responses", raw)[2].splitlines()) if b"output_item.added" in d]
    if any("output_index" not in e for e in added):
        raise Cannot("no output_index")
    with w.openai.responses.stream(model="alone", input="What is a KV cache?", temperature=0, max_output_tokens=24, store=False) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
    assert text == one.output_text, (text, one)


def usage(w):
    """What the gateway counted of a request is what the engine said, of a whole answer and of a stream."""
    def counted():
        _, _, said = w.ask("GET", "/gateway/usage?format=json")
        sums = collections.Counter()
        for row in json.loads(said)["usage"]:
            sums.update({k: row[k] for k in ("requests", "input_tokens", "output_tokens")})
        return sums
    before = counted()
    told = chat(w).usage
    time.sleep(0.3)
    one = counted()
    one.subtract(before)
    assert one == {"requests": 1, "input_tokens": told.prompt_tokens, "output_tokens": told.completion_tokens}, (one, told)
    q = {"model": "alone", "messages": QUESTION, "temperature": 0, "max_tokens": 24, "stream": True}
    w.ask("POST", "/v1/chat/completions", q | {"stream_options": {"include_usage": True}})
    time.sleep(0.3)
    two = counted()
    two.subtract(before)
    assert two["input_tokens"] == 2 * told.prompt_tokens and two["output_tokens"] == 2 * told.completion_tokens, (two, told)
    w.ask("POST", "/v1/chat/completions", q)
    time.sleep(0.3)
    three = counted()
    three.subtract(before)
    of_last = three["output_tokens"] - two["output_tokens"]
    assert of_last == told.completion_tokens, f"a stream without usage was charged {of_last} of {told.completion_tokens} tokens"


def load(w):
    """The engine's queue and memory, as its metrics tell the gateway while a request is under way."""
    c, res = w.stream("/v1/completions", LONG | {"model": "alone"})
    most = {}
    for _ in range(60):
        e = w.fleet(w.engine_url)
        most = {k: max(most.get(k, 0), e.get(k, 0)) for k in ("engine_running", "kv_use")}
        if most["engine_running"] and (most["kv_use"] or w.kind == "llama-server"):
            break
        time.sleep(0.1)
    c.sock.close()
    res.close()
    if not most["engine_running"]:
        raise Cannot("its metrics say nothing")
    assert most["kv_use"] or w.kind == "llama-server", most


def cancel(w):
    """A client that hangs up ends the request at the engine."""
    if not w.engine:
        raise Cannot("--start is needed to see it")
    time.sleep(1)
    idle = w.engine.seconds()
    time.sleep(0.8)
    idle = w.engine.seconds() - idle
    for path, body in (("/v1/completions", LONG), ("/v1/chat/completions", {k: v for k, v in LONG.items() if k != "prompt"} | {"messages": QUESTION})):
        c, res = w.stream(path, body | {"model": "alone"})
        lines = iter(res.readline, b"")
        for _, _ in zip(range(5), data_of(lines)):
            pass
        busy = w.engine.seconds()
        time.sleep(0.4)
        busy = w.engine.seconds() - busy
        res.close()
        c.close()
        time.sleep(1.5) # vLLM's worker polls for a second after its last request
        after = w.engine.seconds()
        time.sleep(0.8)
        after = w.engine.seconds() - after
        said = f"{path}: {busy:.2f} s of processor time in 0.4 s before, {after:.2f} s in 0.8 s later, {idle:.2f} s idle"
        assert busy > 0.04 and after < idle + busy / 4, said
    assert chat(w)


def broken(w, first, program, model, path, body):
    """Kills the first endpoint of a model in mid-stream. Returns the text, and what the stream ended with."""
    w.up(w.engine_url)
    w.up(w.kvasir_url)
    w.up(w.first_url)
    c, res = w.stream(path, body | {"model": model})
    assert first + "*" in res.headers["X-Kvasir-Explain"], res.headers["X-Kvasir-Explain"]
    lines, events = iter(res.readline, b""), []
    for data in data_of(lines):
        if data == b"[DONE]":
            events.append({"done": True})
            break
        events.append(json.loads(data))
        if len(events) == 8:
            program.kill()
    c.close()
    program.start()
    w.up(first)
    return events


def kill(w, path, body, resumed, back):
    if not w.engine:
        raise Cannot("--start is needed for it")
    first, program, model = (w.first_url, w.kvasir, "back") if back else (w.engine_url, w.engine, "both")
    whole = w.ask("POST", path, body | {"model": model})[2]
    whole = text_of([{"choices": [{"text": c.get("text") or c["message"]["content"]} for c in json.loads(whole)["choices"]]}])
    events = broken(w, first, program, model, path, body)
    text = text_of(events)
    if not resumed:
        assert "error" in events[-1] and not any("done" in e for e in events), events[-2:]
        return
    assert events[-1] == {"done": True}, events[-1]
    assert len({e["id"] for e in events if "id" in e}) == 1
    shared = len(os.path.commonprefix([text, whole]))
    assert shared >= min(len(whole), 40), f"{text!r} and {whole!r} part at {shared}"
    if text != whole:
        print(f"      of {len(whole)} characters, the first {shared} are those of an unbroken answer")


def kill_completion(w):
    kill(w, "/v1/completions", {"prompt": "A KV cache is", **GREEDY}, True, False)


def kill_chat(w):
    kill(w, "/v1/chat/completions", {"messages": QUESTION, **GREEDY}, True, False)


def kill_back_completion(w):
    kill(w, "/v1/completions", {"prompt": "A KV cache is", **GREEDY}, w.kind != "ollama", True)


def kill_back_chat(w):
    kill(w, "/v1/chat/completions", {"messages": QUESTION, **GREEDY}, w.kind != "ollama", True)


def kill_alone(w):
    """With no other endpoint the client gets an event with an error; the engine takes requests again when it is back."""
    if not w.engine:
        raise Cannot("--start is needed for it")
    events = broken(w, w.engine_url, w.engine, "alone", "/v1/chat/completions", {"messages": QUESTION, **GREEDY})
    assert "error" in events[-1], events[-1]
    chat(w)


def events(w):
    """A prompt that was sent before is found in the engine's own KV events."""
    if not w.events:
        raise Cannot("publishes none")
    q = {"model": "both", "messages": [{"role": "user", "content": "Tell me of caches. " * 60}], "max_tokens": 4, "temperature": 0}
    why = ""
    for _ in range(3):
        _, headers, _ = w.ask("POST", "/v1/chat/completions", q, {"X-Kvasir-Explain": "1"})
        why = headers.get("X-Kvasir-Explain", "")
        time.sleep(0.5)
    mine = [part for part in why.split("; ") if part.startswith(w.engine_url)][0]
    held, of = mine.rsplit("(", 1)[1].split(", ")[1].split(" of ")
    assert 0 < int(held) <= int(of.split()[0]), why
    assert w.fleet(w.engine_url).get("kv_blocks", 1), w.fleet(w.engine_url)


def adapters(w):
    if not w.adapter:
        raise Cannot("no --adapter")
    one = w.openai.chat.completions.create(model="adapter", messages=QUESTION, temperature=0, max_tokens=24)
    assert one.choices[0].message.content and one.model == "adapter", one


def batch_of_requests(w):
    """Many at once, streams and others, of which some hang up, all come to their ends."""
    from concurrent.futures import ThreadPoolExecutor

    def one(i):
        if i % 4 == 3:
            c, res = w.stream("/v1/completions", LONG | {"model": "both"})
            res.readline()
            res.close()
            c.close()
            return True
        status, _, said = w.ask("POST", "/v1/chat/completions", {"model": "both", "messages": QUESTION, "max_tokens": 16, "stream": i % 2 == 0})
        return status == 200 and (i % 2 == 1 or said.rstrip().endswith(b"data: [DONE]"))
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(one, range(48)))


CHECKS = [chat, chat_stream, completion, tools, schema, logprobs, embeddings, errors, too_long, messages, count_tokens, responses,
          responses_stream,           usage, load, cancel, batch_of_requests, events, adapters, kill_alone, kill_completion, kill_chat, kill_back_completion, kill_back_chat]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kvasir")
    p.add_argument("--engine", required=True, metavar="KIND=URL")
    p.add_argument("--start", help="the command that starts the engine")
    p.add_argument("--health", default="/health", help="a page that is there when the engine is ready")
    p.add_argument("--events")
    p.add_argument("--replay", default="")
    p.add_argument("--adapter", help="a folder with a LoRA adapter")
    p.add_argument("--only", nargs="*", help="the names of checks")
    args = p.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="engines-"))
    w, wrong = World(args, folder), 0
    try:
        w.up(w.engine_url)
        for check in CHECKS:
            if args.only and check.__name__ not in args.only:
                continue
            expected = CANNOT.get(w.kind, {}).get(check.__name__)
            began = time.time()
            try:
                check(w)
                said = "ok" if not expected else "works, but CANNOT says that it does not"
                wrong += bool(expected)
            except Cannot as e:
                said = f"cannot: {e}"
                wrong += not expected
            except Exception as e: # whatever a client raises
                said = f"FAILED: {type(e).__name__}: {e}"
                wrong += 1
            print(f"{check.__name__:22} {time.time() - began:5.1f} s  {said:.600}", flush=True)
    finally:
        w.close()
    print(f"logs: {folder}")
    sys.exit(f"{wrong} of the checks went otherwise than expected" if wrong else 0)


if __name__ == "__main__":
    main()
