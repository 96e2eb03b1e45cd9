"""Questions about kvasir's own commands, flags and documentation, and about arithmetic and its limits.

`C(questions, answer)`: spintax with slots. A question that begins with "@" is a verb phrase, which takes many
beginnings ("How do I ...?", "I want to ..."). The answers about flags and commands come from docs/reference.md, so
they say what the program says.
"""
import json
import os

import more
import tasks
from words import *

HERE = os.path.dirname(os.path.abspath(__file__))

# ---------------------------------------------------------------- what the reference says


def reference(path=None):
    """commands: name -> dict(about, usage, examples); flags: name -> [(command, value, default, text)]."""
    text = open(path or os.path.join(HERE, "../../../docs/reference.md")).read()
    cmds, flags = {}, {}
    for sec in text.split("\n## ")[1:]:
        head, _, body = sec.partition("\n")
        name = head.strip()
        paras = [p for p in body.strip().split("\n\n")]
        about = paras[0].replace("\n", " ").strip()
        usage = next((p.strip() for p in paras[1:] if p.startswith("    kvasir")), "")
        ex = body.split("Examples:")[-1] if "Examples:" in body else ""
        examples = [l.strip() for l in ex.splitlines() if l.startswith("    ")]
        cmds[name] = dict(about=about, usage=usage, examples=examples)
        for it in re.split(r"\n- ", body.split("Examples:")[0])[1:]:
            it = re.split(r"\n\n", it)[0].replace("\n", " ")
            m = re.match(r"`((?:-\w, )?--([\w-]+)(?:=([^`]*))?)`: (.*)", re.sub(r"\s+", " ", it))
            if m:
                val = m.group(3) or ""
                flags.setdefault(m.group(2), []).append((name, val, m.group(4).strip()))
    return cmds, flags


CMDS, FLAGS = reference()
ORDER = ["kvasir serve", "kvasir run", "kvasir batch", "kvasir gateway serve", "kvasir bench load", "kvasir quantize"]


def flag_answer(name, cmd=None):
    rows = FLAGS[name]
    row = next((x for x in rows if x[0] == cmd), None) or sorted(rows, key=lambda x: ORDER.index(x[0]) if x[0] in ORDER else 9)[0]
    c, val, text = row
    d = re.fullmatch(r'"?([^A-Z"][^"]*|[0-9].*)"?', val) if val and (val[0] in '"0123456789' or val[0].islower()) else None
    say = f"`--{name}{'=' + val if val and not d else ''}` of `{c}`: {text}"
    if d and val.strip('"') not in ("",) and not val.isupper():
        say += f" The default is {val.strip(chr(34))}."
    return say


# ---------------------------------------------------------------- slots
OWN = "Qwen meta-llama mistralai google microsoft unsloth bartowski ggml-org HuggingFaceTB allenai ibm-granite openai deepseek-ai tiiuae".split()
KNOWN_M = ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B-GGUF:Q8_0", "Qwen/Qwen2.5-7B-Instruct", "meta-llama/Llama-3.2-1B-Instruct", "meta-llama/Llama-3.1-8B", "mistralai/Mistral-7B-v0.3", "google/gemma-3-4b-it", "microsoft/Phi-3-mini", "openai/gpt-oss-20b", "HuggingFaceTB/SmolLM3-3B", "allenai/OLMo-2-7B"]


def slot_m(r):
    u = r.random()
    if u < .35:
        return r.choice(KNOWN_M)
    if u < .55:
        n = r.choice(OWN) if r.random() < .6 else fake_word(r)
        b = cap(fake_word(r)) if r.random() < .6 else r.choice(["Llama", "Qwen", "Gemma", "Mistral", "Phi", "Granite"])
        return f"{n}/{b}-{r.choice([1, 2, 3, 4, 7, 8, 13, 14, 32, 70])}B" + r.choice(["", "", "-Instruct", "-GGUF:Q8_0", "-GGUF:Q4_K_M"])
    if u < .8:
        return r.choice(["./", "./", "/models/", "models/", "~/", ""]) + r.choice([fake_word(r), r.choice(WORDS), "model", "llama", "qwen", "mistral", r.choice(WORDS) + "-" + str(r.randint(1, 70)) + "b"]) + ".gguf"
    return r.choice(["./", "./", "/models/", "~/"]) + r.choice([fake_word(r), r.choice(WORDS), "model", "llama", "base"])


def slot_hub(r):
    while True:
        m = slot_m(r)
        if "/" in m and m[0] not in "./~" and not m.startswith("models/") and not m.endswith(".gguf"):
            return m


def slot_file(r, ext):
    return r.choice(["", "", "./"]) + r.choice([fake_word(r), r.choice(WORDS), r.choice(["in", "out", "requests", "model", "data", "text", "test", "fleet", "config", "models", "keys"])]) + ext


def slot_port(r):
    return str(r.choice([9000, 9000, 8080, 9001, 8001, 5000, 3000, 1234, 7777, 8888, 80, 443, 4000, 6000, 10000, 11434]) if r.random() < .4 else r.randint(1000, 65535))


SLOTS = {
    "port": slot_port, "m": slot_m, "m2": slot_m, "hub": slot_hub,
    "host": lambda r: r.choice(["0.0.0.0", "127.0.0.1"]) if r.random() < .3 else f"{r.choice(['192.168', '10.0', '172.16', '10.1'])}.{r.randint(0, 255)}.{r.randint(1, 254)}",
    "peer": lambda r: f"{r.choice(['192.168', '10.0', '172.16', '10.1'])}.{r.randint(0, 255)}.{r.randint(1, 254)}" + (":" + slot_port(r) if r.random() < .3 else ""),
    "key": lambda r: r.choice(["secret", "my-key", "abc123", "secret-secret-secret", "test", "sk-" + rand_code(r, 6), fake_word(r), rand_code(r, r.randint(5, 10))]),
    "url": lambda r: f"http://{r.choice(['10.0.0.7', '127.0.0.1', 'localhost', '192.168.1.' + str(r.randint(2, 99)), r.choice(WORDS)])}:{slot_port(r)}",
    "n": lambda r: str(r.choice([1, 2, 4, 8, 16, 32, 64, 128, 256]) if r.random() < .6 else r.randint(2, 300)),
    "th": lambda r: str(r.randint(1, 64)), "ctx": lambda r: str(r.choice([512, 1024, 2048, 4096, 8192, 16384, 32768, 131072])),
    "size": lambda r: str(r.choice([1, 2, 4, 8, 12, 16, 24, 32, 64])) + "G" if r.random() < .8 else str(r.choice([256, 512, 768])) + "M",
    "kvt": lambda r: r.choice(["f32", "f16", "bf16", "q8_0", "q4_0", "f8_e4m3"]), "qt": lambda r: r.choice("q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k_s q3_k_m q3_k_l q4_k_s q4_k_m q5_k_s q5_k_m q6_k iq4_nl iq4_xs mxfp4".split()),
    "ms": lambda r: str(r.choice([5, 10, 20, 25, 30, 40, 60, 80, 100, 150, 200])), "min": lambda r: str(r.choice([1, 2, 5, 10, 15, 20, 30, 45, 60, 90])),
    "sec": lambda r: str(r.choice([1, 2, 3, 5, 10, 15, 20, 30, 60, 90, 120])), "temp": lambda r: r.choice(["0", "0.1", "0.2", "0.3", "0.5", "0.6", "0.7", "0.8", "0.9", "1", "1.2", "1.5"]),
    "gguf": lambda r: slot_file(r, ".gguf"), "gguf2": lambda r: slot_file(r, ".gguf"), "dir": lambda r: "./" + r.choice([fake_word(r), r.choice(WORDS), "model", "out"]), "jin": lambda r: slot_file(r, ".jsonl"), "jout": lambda r: slot_file(r, ".jsonl"),
    "yaml": lambda r: slot_file(r, ".yaml"), "txt": lambda r: slot_file(r, ".txt"), "pem": lambda r: slot_file(r, ".pem"), "pem2": lambda r: slot_file(r, ".pem"),
    "name": lambda r: r.choice([fake_word(r), r.choice(WORDS), "small", "large", "gpt-4o", "gpt-4o-mini", "default", "my-model", "chat"]), "ad": lambda r: r.choice(["pirate", "sql", "json", fake_word(r), r.choice(WORDS)]), "lora": lambda r: r.choice(["./lora-", "./", "./adapters/"]) + r.choice([fake_word(r), r.choice(WORDS), "pirate", "sql"]),
    "pol": lambda r: r.choice(["fcfs", "priority", "shortest-prompt", "vtc", "edf"]), "prof": lambda r: r.choice(["chat", "throughput", "long-context", "latency"]), "sh": lambda r: r.choice(["bash", "zsh", "fish"]), "seed": lambda r: str(r.randint(0, 9999)),
    "path": lambda r: "./" + r.choice([fake_word(r), r.choice(WORDS), "state", "cache", "data", "adapters"]), "shape": lambda r: r.choice(["125m", "0.5b", "1.1b", "3b", "8b", "14b", "32b", "70b"]), "share": lambda r: r.choice(["0.5", "0.6", "0.7", "0.75", "0.8", "0.85", "0.95"]),
    "sock": lambda r: r.choice(["/tmp/", "/run/", "./"]) + r.choice(["kvasir", fake_word(r), r.choice(WORDS)]) + ".sock", "pfx": lambda r: "/" + r.choice(["llm", "ai", "api", fake_word(r), r.choice(WORDS)]), "org": lambda r: f"https://{r.choice([fake_word(r), r.choice(WORDS), 'example'])}.{r.choice(['com', 'org', 'io', 'dev'])}",
}

_BEG = ("[How do I|How do I|How do I|How can I|How can I|How do you|How would I|How should I|How does one|How could I|How can one|What do I type to|What must I type to|What should I run to|What do I run to|Which command do I use to|What is the command to|What's the command to|What command should I use to|Which command lets me|Which command can|"
        "Can you tell me how to|Could you tell me how to|Could you show me how to|Do you know how to|Is there a way to|Is it possible to|Can I|What is the way to|What is the best way to|What is the easiest way to|I want to know how to]")
_SAY = "[I want to|I would like to|I'd like to|I need to|I am trying to|I'm trying to|Tell me how to|Show me how to|Please tell me how to|Explain how to|Help me|Help me to|Give me the command to|Show me the command to|How to|how to|command to|Let me|I have to|We want to|Teach me how to|I don't know how to]"
_VAR = {"SRV": "[the server|the server|kvasir|a server|the kvasir server|my server|the API server|the API|kvasir serve]", "START": "[start|run|launch|open|bring up|boot|fire up|begin|spin up|get]", "SV": "[the server|kvasir|my server|it|kvasir serve]", "IT": "[the server|kvasir|it|my server]", "MD": "[the model|a model|my model|my LLM|an LLM]", "CHG": "[change|set|choose|pick|configure|specify|select|adjust]", "LIM": "[limit|restrict|cap|bound|set|lower]", "WF": "[Which|What] [flag|option|setting|switch|parameter]"}


def _v(s):
    return re.sub(r"\$([A-Z]+)", lambda m: _VAR[m.group(1)], s)


ENTRIES = []


def C(qs, a, th="The user asks about kvasir's commands. I name the command."):
    out = []
    for q in qs:
        q = _v(q)
        if q.startswith("@"):
            out += [(3, _BEG + " " + q[1:], True), (1.6, _SAY + " " + q[1:], False), (.5, q[1:], False)]
        else:
            out.append((1, q, None))
    ENTRIES.append((out, a, th))


# ---------------------------------------------------------------- serve
C(["@$START $SRV on port {port}", "@$START $SRV [at|with|using|under] port {port}", "@[serve|listen] on port {port}", "@serve [the model|a model|the API|models|kvasir-mini|an LLM|requests] on port {port}", "@[make|have|let|get] $IT [to |][listen|run|serve|answer] on port {port}", "@[use|choose|pick|take|set] port {port}[ for $SRV| instead of 8000|]", "@change the port to {port}", "@[set|change|switch] the [server's |][port|port number] [to|as] {port}", "@[run|host|expose|bind] $SRV on [another port, {port}|{port}|port number {port}]", "@$START $SRV [so that|so] it [listens on|uses|answers on] port {port}",
   "[start|run|serve] [the server|kvasir|a server|server|] on port {port}", "[kvasir|server|serve|kvasir serve] on port {port}", "port {port}[ please|]", "[I want|I need] [the server|kvasir|it] on port {port}", "kvasir serve port {port}", "[Can|Could|Does|Will] [the server|kvasir] [run|listen|work] on port {port}", "$START $SRV on port {port}[ please|, please|]", "Please $START $SRV on port {port}", "[My|The] port 8000 is [taken|in use|busy], [can I use|how do I use|I want] {port}", "[Why not|Can I use|May I use] port {port}"],
  "Run `kvasir serve --port {port}`. The API is then at http://127.0.0.1:{port}/v1.")
C(["@[change|set|choose|configure|select|specify|pick] [the|a|another|a different] port", "@[change|set|choose|configure] the [server's port|port of the server|port number|listening port|port of kvasir]", "@[run|start] $SRV on [another|a different|some other|a free] port", "@use [another|a different] port", "$WF [sets|changes|chooses|is for] the port", "[Port|The port|Port 8000] is [already |][in use|taken|busy|occupied]", "address already in use", "[What|Which] is the [flag|option] for the port", "[something else|another program] uses port 8000", "[change|set] [the |]port"],
  "Use `--port`: `kvasir serve --port 9000` listens on port 9000. The default is 8000, and 0 is any free port.")
C(["[What|Which] port does [kvasir|the server|kvasir serve|it] [use|listen on|run on|serve on][ by default|]", "[What is|what's] the [default port|standard port|port][ of kvasir| of the server| by default|]", "[On which|which|on what] port [is the server|does the server listen|is kvasir|does kvasir run]", "default port", "[What is|What's] the [default |][address|URL|base URL] of [the server|kvasir|the API]", "Where does [the server|kvasir serve|kvasir] [listen|answer][ by default|]", "[Which|What] [address|URL|base URL] does [the server|kvasir|the API] [use|have|listen on]", "What base_url [do I use|should I use|must I set]", "Where is the API"],
  "The server listens on 127.0.0.1, port 8000. The OpenAI API is at http://127.0.0.1:8000/v1.")
C(["@$START $SRV", "@$START [the|a|an|my] [kvasir|OpenAI|OpenAI-compatible|inference|LLM|model|HTTP] [server|API server]", "@serve [the built-in model|kvasir-mini]", "@start serving", "@[use|run] kvasir as a server", "[start|run|launch] [the server|kvasir|server]", "kvasir server", "@get [the API|an API|an OpenAI API] [up|running|up and running]", "How does the server start", "What starts the server", "[Which|What] command starts [the server|a server|kvasir|the API]", "@get started with [the server|serving]", "@[begin|get started] with kvasir serve", "How is the server started", "@serve"],
  "Run `kvasir serve`. It serves the built-in model; the API is at http://127.0.0.1:8000/v1 and a page to chat on at http://127.0.0.1:8000.")
C(["@serve {m}", "@serve [the model|the file|the folder] {m}", "@$START $SRV with [the model |][model |]{m}", "@[run|start|launch] a server for {m}", "@[deploy|host|expose] {m}", "@[load|use] {m} [in|with|on] the server", "serve {m}", "[start|run] [the server|kvasir serve] with {m}", "@[put|offer|make] {m} [behind an API|available over HTTP|available as an API]", "kvasir serve with {m}", "I want [the server|kvasir] to serve {m}"],
  "Run `kvasir serve {m}`. The API is then at http://127.0.0.1:8000/v1.")
C(["@[serve|deploy|host|run|start|load] [a model|an LLM|my model|a language model|my own LLM|my own model|another model|a larger model]", "@set up an LLM server", "[where do I start|how do I start] with LLM serving", "@[serve|run|load] [a model|my own model] with kvasir", "@[serve|load|use] a [GGUF file|GGUF|local file|folder|model file|safetensors model|model from disk|model of my own]", "@serve a model [from|of] [Hugging Face|the hub|the Hugging Face Hub]", "@use [another|a different|a bigger|a better] model"],
  "Name it: `kvasir serve Qwen/Qwen3-0.6B`, `kvasir serve ./model.gguf` or `kvasir serve ./folder`. `kvasir run` takes the same names.")
C(["@serve {m} [on|at] port {port}", "@$START $SRV with {m} on port {port}", "@[run|host|deploy] {m} on port {port}", "serve {m} on port {port}", "@serve [the model|the file] {m} [using|on|at] port {port}", "@[run|start] a server for {m} on port {port}"],
  "Run `kvasir serve {m} --port {port}`. The API is then at http://127.0.0.1:{port}/v1.")
C(["@serve {m} and {m2}", "@serve [two models|both|the models] {m} and {m2}", "@[run|start|serve] {m} and {m2} [in one server|together|at the same time|at once]", "@$START $SRV with {m} and {m2}"],
  "Run `kvasir serve {m} {m2}`. Requests choose one with the field `model`.")
C(["@serve [two|several|many|multiple|more] models", "@serve [two|several|more than one|multiple] models [at once|together|in one server|with one server]", "Can [kvasir|one server] serve [two|several|many|multiple] models", "[several|multiple|many] models"],
  "Name them all: `kvasir serve ./a.gguf ./b` serves both, and requests choose one with the field `model`. `kvasir serve --on-demand` loads the models of the local cache when a request names them.")
C(["@[listen|serve|run the server|start the server|bind] on [all addresses|all interfaces|every address|0.0.0.0|the whole network]", "@[make|let] $IT [reachable|available|visible|accessible] [from other machines|on the network|from outside|in my network|to others|from another computer]", "@[expose|open] [the server|kvasir] to [the network|other machines|my network]", "@reach [the server|kvasir] from [another machine|another computer|my phone|outside]", "[why can I not|why can't I] [reach|connect to] the server from another [machine|computer]", "@share [the server|my server] with [others|other people|my team]", "@connect from another [machine|computer]"],
  "Run `kvasir serve --host 0.0.0.0 --api-key secret`. 0.0.0.0 is all addresses, and the key keeps strangers out.")
C(["@$START $SRV on [host|address|the address|IP|the host] {host}", "@[listen|bind|serve] on {host}", "@[set|change] the [host|address] to {host}", "@bind $SV to {host}", "kvasir serve on host {host}", "serve on {host}", "@use {host} as the [host|address]"],
  "Run `kvasir serve --host {host}`. The API is then at http://{host}:8000/v1.")
C(["@$START $SRV on {host} port {port}", "@[listen|serve|run the server] on {host}:{port}", "@$START $SRV on host {host} and port {port}", "@bind [the server|kvasir] to {host}:{port}"],
  "Run `kvasir serve --host {host} --port {port}`. The API is then at http://{host}:{port}/v1.")
C(["@$CHG [the|another|a different] [host|address|listen address|IP address|bind address]", "$WF [sets|changes|chooses|is for] the [host|address|listen address]", "[What|Which] is the [flag|option] for the host", "@set the [host|address] [of the server|of kvasir|that the server listens on]"],
  "Use `--host`: `kvasir serve --host 0.0.0.0` listens on all addresses. The default is 127.0.0.1.")
C(["@[set|use|add|require|configure|give|define|create] an API key", "@[protect|secure|lock] [the server|my server|the API|kvasir][ with a key| with a password| with an API key|]", "@[require|ask for|demand|need] [a key|an API key|a password|a token] [from clients|for requests|]", "@[add|set up|enable|turn on] [authentication|API keys|auth]", "$WF [sets|is for|takes] [the API key|API keys|a key for clients]", "[What|Which] is the [flag|option] for [the API key|API keys]", "@keep strangers [out|away]", "@[put|set] a password on [the server|the API]", "Does [kvasir|the server] [support|have] [API keys|authentication|passwords]", "@$START $SRV with [an API key|a key|authentication]"],
  "Use `--api-key`: `kvasir serve --api-key secret`. Requests must then bring the header `Authorization: Bearer secret`. Keys in a file go with `--api-key-file`.")
C(["@[set|use] [the API key|the key|API key] {key}", "@$START $SRV with [the |an |][API key|key] {key}", "@[require|demand|set] the [API |]key {key}", "@[protect|secure] [the server|the API] with [the key|the API key|the password] {key}", "kvasir serve with [API key|key] {key}", "@set the API key to {key}"],
  "Run `kvasir serve --api-key {key}`. Requests must then bring the header `Authorization: Bearer {key}`.")
C(["@[use|give|read|keep|put|store|load] [API keys|keys|many keys|several keys] [in|from] a file", "@[have|use|set|allow] [several|many|different|multiple] API keys", "@give [each user|every user|each client|users] [a key|an API key|its own key|a key of their own]", "@[hide|keep] [the key|keys] [from ps|off the command line|out of the command line]", "[What is|what does] [a key file|the API key file|the file of API keys] [for|look like|contain]", "@limit [a key|an API key|one key]", "[Can|May] a key have [limits|a name]"],
  "Use `--api-key-file FILE`: a JSON object to a line with `name` and `key` (at least 16 characters), and if wanted `max_requests`, `models`, `group` and `priorities`. SIGHUP reads the file again.")
C(["@[set|use|give|add|define] an admin key", "What is [the|an] admin key[ for|]", "What does the admin key [do|open|allow|protect]", "$WF sets the admin key", "@[set|require] a key for [administrators|admins|admin routes]", "[What|Which] is the [flag|option] for the admin key", "Who may [load adapters|reset the cache|unload models]", "[When|why] do I need an admin key", "@$START $SRV with an admin key", "@protect the [admin routes|routes for administrators]"],
  "Use `--admin-key`: `kvasir serve --admin-key KEY`. That key opens the routes that show or change the prefix cache, models and adapters; it does not ask models.")
C(["@$START $SRV with [the |an |]admin key {key}", "@set the admin key to {key}", "@[set|use] [the |]admin key {key}", "kvasir serve with admin key {key}"],
  "Run `kvasir serve --admin-key {key}`. The key opens the routes that show or change the prefix cache, models and adapters.")
C(["@[use|enable|set up|turn on|configure|add|serve with|serve over] [TLS|HTTPS|https|SSL|tls|encryption|a certificate]", "@[give|pass|set] [a certificate|the certificate|a TLS certificate][ and a key|]", "@[serve|offer|run] the API over [HTTPS|TLS|https]", "Does [kvasir|the server] [support|have|speak|do] [TLS|HTTPS|SSL]", "$WF [is for|are for|sets|enables] [TLS|HTTPS|the certificate|the TLS certificate]", "@encrypt [connections|the traffic|traffic]", "@$START $SRV with [TLS|HTTPS|SSL]", "[TLS|https|certificates]?"],
  "Run `kvasir serve --tls-cert cert.pem --tls-key key.pem`. Both are PEM files, and SIGHUP reads them again.")
C(["@use the certificate {pem} [and|with] the key {pem2}", "@serve [TLS|HTTPS] with {pem} and {pem2}", "@$START $SRV with the certificate {pem} and the key {pem2}"],
  "Run `kvasir serve --tls-cert {pem} --tls-key {pem2}`. SIGHUP reads both files again.")
C(["@[renew|replace|reload|change] [the certificate|certificates|keys|the API keys] [without a restart|while the server runs|without restarting]", "What does SIGHUP do", "[When|how] are [keys|certificates] read again", "@reload [keys|API keys|the key file]"],
  "Send the process SIGHUP: `kvasir serve` then reads `--api-key-file`, `--tls-cert` and `--tls-key` again, and a gateway its configuration.")
C(["@$LIM [the number of |][sequences|concurrent sequences|parallel requests|concurrent requests|requests at once|requests computed at once]", "@$CHG [how many requests run at once|how many sequences are computed at once|the batch size|the largest batch|the maximum batch size]", "$WF [limits|sets] [the number of sequences|the batch size|how many sequences run at once|concurrent sequences]", "@raise the [batch size|number of sequences|number of parallel requests] of [the server|kvasir]", "[How many|What number of] [sequences|requests] [are computed|run] at once", "How many requests can [kvasir|the server] [handle|run|compute] [at once|in parallel]"],
  "Use `--max-seqs`: `kvasir serve --max-seqs 128` computes up to 128 sequences at once. The default is 64, on a GPU 256, or what `--profile` says.")
C(["@$LIM [the number of sequences|sequences|the batch size|parallel requests] to {n}", "@$START $SRV with [at most |up to |max |]{n} [sequences|parallel requests|sequences at once]", "@[set|use] a [batch size|maximum batch] of {n}", "@[allow|compute|run] {n} [sequences|requests] at once", "@set max-seqs to {n}", "@set --max-seqs to {n}"],
  "Run `kvasir serve --max-seqs {n}`. Up to {n} sequences are then computed at once.")
C(["@$CHG [the type of the KV cache|the KV cache type|the KV type|the data type of the KV cache|the precision of the KV cache]", "@[quantize|quantise|compress|shrink] the KV cache[ of the server| in kvasir|]", "@make the KV cache [smaller|use less memory]", "[Which|What] [types|KV types] can the KV cache have", "$WF [sets|changes|is for] [the type of the KV cache|the KV cache type|the KV type]", "[Which|What] KV [cache |]types [are there|does kvasir have|does kvasir support|can I use]", "@store the KV cache in [8 bits|fewer bits|less memory]"],
  "Use `--kv-type` with f32, f16, bf16, q8_0 or q4_0, on a GPU also f8_e4m3: `kvasir serve --kv-type q8_0`. The default is auto, that is bf16 where the device has it.")
C(["@[use|set|get] [a |the |]{kvt} KV cache", "@set the [KV type|KV cache type|type of the KV cache] to {kvt}", "@$START $SRV with [a |]{kvt} KV cache", "@[store|keep] the KV cache [as|in] {kvt}", "kvasir serve with [a |]{kvt} [KV cache|cache]"],
  "Run `kvasir serve --kv-type {kvt}`. The KV cache then holds {kvt} numbers.")
C(["@$CHG [the memory of the KV cache|the size of the KV cache|how much memory the KV cache takes|the KV cache size]", "@$LIM the [memory|size] of the KV cache", "@give the KV cache [more|less] memory", "$WF [sets|limits|changes] [the memory of the KV cache|the size of the KV cache]", "How much memory does the KV cache [take|use|get] [by default|in kvasir|]"],
  "Use `--kv-bytes`: `kvasir serve --kv-bytes 8G`. By default the KV cache gets half of the memory that is free, or on a GPU what `--gpu-memory` leaves.")
C(["@[give|allow] the KV cache {size}[ of memory|]", "@[use|set|reserve] {size} for the KV cache", "@limit the KV cache to {size}", "@$START $SRV with {size} of KV cache"],
  "Run `kvasir serve --kv-bytes {size}`. The KV cache then gets {size} of memory.")
C(["@$CHG [how long a step may take|the step target|the time of a step|the longest step]", "What is the step target", "@[keep|make] tokens [coming evenly|come evenly|steady|even]", "$WF [limits|sets] [the time of a step|how long a step takes]", "@stop [long prompts|prefill] from [delaying|blocking] [other users|decode|others|answers]"],
  "Use `--step-target`: `kvasir serve --step-target 50ms` says how long a step may take while anyone decodes, so that tokens come evenly. The default is 50ms; 0 is any time.")
C(["@set the step target to {ms} [ms|milliseconds]", "@[limit|cap] [a step|steps] [to|at] {ms} [ms|milliseconds]", "@[use|set] a step target of {ms} [ms|milliseconds]", "@$START $SRV with a step target of {ms} [ms|milliseconds]"],
  "Run `kvasir serve --step-target {ms}ms`.")
C(["@$CHG [the context|the context length|the context size|the context window|the maximum context|the longest context|the max length]", "@$LIM the [context|context length|number of tokens of a request]", "$WF [sets|limits|is for] the [context|context length|context window]", "@serve [a longer|a shorter|a smaller|a larger] context"],
  "Use `--context`: `kvasir serve --context 8192` allows 8192 tokens of prompt and answer together. The default is what the model was made for, or what fits.")
C(["@[set|limit|change] the [context|context length|context window|context size] to {ctx}[ tokens|]", "@$START $SRV with [a context of {ctx} tokens|a {ctx} token context|{ctx} tokens of context]", "@use a context [length |window |size |]of {ctx}[ tokens|]", "@serve {ctx} tokens of context"],
  "Run `kvasir serve --context {ctx}`. Prompt and answer together may then have {ctx} tokens.")
C(["@$CHG [the device|a device|which device is used|what it computes on|where the model runs]", "@[choose|pick] between [the CPU and the GPU|CPU and GPU]", "$WF [chooses|sets|selects|is for] the device", "[Which|What] devices can [--device take|I choose|kvasir use]", "@use a [certain|specific|particular|second] GPU", "@run on the second GPU"],
  "Use `--device` with auto, cpu, cuda or cuda:N: `kvasir serve --device cuda`. `kvasir devices` lists what is there; auto is the best.")
C(["@[run|compute|serve|work] on the CPU[ only|]", "@[force|use|choose] the CPU", "@[not use|turn off|disable|avoid] the GPU", "@$START $SRV [on the CPU|without the GPU|without a GPU]", "@run [a model|the model|kvasir] [on the CPU|on the processor|without a GPU]", "CPU only[ please|]", "@[serve|run] on the processor"],
  "Use `--device cpu`: `kvasir serve --device cpu`, or `kvasir run --device cpu`. It is used by itself where there is no GPU.")
C(["@[run|compute|serve|work] on [the GPU|a GPU|my GPU|CUDA|an NVIDIA GPU]", "@use [the GPU|my GPU|a GPU|CUDA|my graphics card|an NVIDIA GPU]", "@$START $SRV on [the GPU|a GPU|CUDA]", "@run [a model|the model|kvasir] on [the GPU|a GPU|my graphics card]", "@make [kvasir|it] use [the GPU|my GPU]", "@[enable|turn on|activate] [the GPU|CUDA|GPU support]", "@force [a GPU|my GPU|CUDA|kvasir to use the GPU|kvasir onto the GPU|it to use a GPU]", "@insist on [the GPU|a GPU|my GPU]", "@[make sure|be sure] that the GPU is used"],
  "A GPU that kvasir can use is used by itself. `--device cuda` insists on it: `kvasir serve --device cuda`. `kvasir devices` says what is there.")
C(["@use {th} threads", "@$START $SRV with {th} threads", "@[limit|set] [the threads|the number of threads|compute threads|threads] to {th}", "@run with {th} threads"],
  "Run `kvasir serve --threads {th}`.")
C(["@$CHG [the number of threads|how many threads are used|threads|the threads|how many cores are used]", "$WF [sets|limits] [the threads|the number of threads]", "How many threads does [kvasir|the server] use", "@use [more|fewer|all] [threads|cores]"],
  "Use `--threads`: `kvasir serve --threads 8`. The default 0 is one thread for each core that the process may use.")
C(["@$CHG [the name of the model|the served model name|the name of a served model|what the model is called]", "@rename [the model|a model|a served model]", "@give [the model|a model] another name", "@serve [the model|a model] under another name", "$WF [renames|names] the model", "@change the model name"],
  "Use `--served-model-name`: `kvasir serve ./model.gguf --served-model-name small`. `--alias NAME=MODEL` adds a second name.")
C(["@serve {m} [as|under the name] {name}", "@[call|name] {m} {name}", "@serve {m} with the name {name}", "@rename {m} to {name}[ for clients|]"],
  "Run `kvasir serve {m} --served-model-name {name}`. Requests then give `{name}` as model.")
C(["@[add|use|serve|load|start with] [a LoRA|a LoRA adapter|an adapter|LoRA adapters|adapters]", "@serve [a model|a base model] with [adapters|a LoRA|an adapter]", "$WF [loads|adds|is for] [an adapter|a LoRA adapter|adapters]", "@$START $SRV with [a LoRA adapter|an adapter|adapters]", "Does [kvasir|the server] [support|have] [LoRA|adapters|LoRA adapters]", "@apply a LoRA"],
  "Use `--adapter NAME=PATH`: `kvasir serve ./base --adapter pirate=./lora-pirate`. Requests choose it by giving its name as `model`.")
C(["@serve {m} with the adapter {lora} as {ad}", "@[add|load|use] the adapter {lora} [as|under the name] {ad}[ to {m}| for {m}]", "@serve the LoRA {lora} as {ad} on {m}"],
  "Run `kvasir serve {m} --adapter {ad}={lora}`. Requests choose it with `\"model\": \"{ad}\"`.")
C(["@[load|unload|add|remove] [an adapter|adapters|LoRA adapters|a LoRA] [at run time|while serving|while the server runs|without a restart|over HTTP]", "What is --adapter-root for", "@change adapters [at run time|while the server runs]"],
  "Start with `kvasir serve --adapter-root DIR --admin-key KEY`. Then `POST /v1/load_lora_adapter` and `/v1/unload_lora_adapter` load and unload adapters from inside that folder.")
C(["@[load|serve] models [on demand|when they are needed|when a request names them|only when needed]", "What is [on demand|on-demand loading|model loading on demand|serving on demand]", "@serve [all models|every model|the models] of [the cache|the local cache|my cache]", "@[enable|use|turn on] on-demand [loading|models|serving]", "@serve more models than fit [in memory|into memory]", "$WF loads models on demand"],
  "Run `kvasir serve --on-demand`, or `kvasir serve` without a model: a model of the local cache is loaded when a request names it, and leaves `--keep-alive` after its last request.")
C(["@[use|serve|load|give] [a models file|a file of models|the models of a file|models from a YAML file|a YAML file of models]", "What is [--models|a models file] for", "@serve the models in {yaml}", "@list models in a file"],
  "Run `kvasir serve --models FILE`: a YAML file that maps names to models with options of their own. A model is loaded when a request names it.")
C(["@$CHG [how long a model stays in memory|the keep-alive|the keep alive time|how long models stay loaded]", "@[keep|hold] [a model|models|the model] in memory[ longer| for ever|]", "When does a model leave memory", "$WF [keeps|sets how long] a model [stays |]in memory", "How long does a model stay in memory"],
  "Use `--keep-alive`: `kvasir serve --on-demand --keep-alive 30m`. The default is 5 minutes after the last request; forever is until its memory is needed.")
C(["@keep [models|a model] in memory for {min} minutes", "@set the keep-alive to {min} minutes", "@[set|use] a keep-alive of {min} minutes"],
  "Run `kvasir serve --on-demand --keep-alive {min}m`.")
C(["@let requests [fetch|pull|download] models", "@[allow|permit] [pulling|downloads|requests to pull models|pulls]", "@[pull|download|fetch] models automatically", "$WF lets requests fetch models", "Can a request [download|pull|fetch] a model"],
  "Run `kvasir serve --allow-pull`: a request then fetches the model that it names from the hub, if it is not in the local cache.")
C(["@$CHG [the scheduling policy|the policy|the scheduler's policy|who comes first|the order of requests]", "[Which|What] [policies|scheduling policies|policies of scheduling] [are there|does kvasir have|can I choose]", "$WF [sets|chooses|is for] [the policy|the scheduling policy|who comes first]", "@[share the server fairly|schedule fairly|give each key a fair share]", "@serve requests by priority"],
  "Use `--policy` with fcfs, priority, shortest-prompt, vtc (a fair share for each key) or edf (earliest deadline): `kvasir serve --policy vtc`.")
C(["@use the [policy|scheduling policy] {pol}", "@set the policy to {pol}", "@$START $SRV with [the policy {pol}|{pol} scheduling|the {pol} policy]", "@schedule with {pol}"],
  "Run `kvasir serve --policy {pol}`.")
C(["@$CHG [the profile|a profile|the kind of use|a preset]", "[Which|What] profiles [are there|does kvasir have|can I choose]", "What is [a profile|--profile for]", "@tune [the scheduler|the server|kvasir] for [throughput|latency|chat|long contexts|long prompts]", "$WF sets the profile"],
  "Use `--profile` with chat, throughput, long-context or latency: `kvasir serve --profile throughput`. It sets the scheduler for a kind of use; what is set beside it wins.")
C(["@use the profile {prof}", "@set the profile to {prof}", "@$START $SRV with the [profile {prof}|{prof} profile]"],
  "Run `kvasir serve --profile {prof}`.")
C(["@[turn off|disable|switch off|not use] [the prefix cache|prefix caching]", "@serve without [the prefix cache|prefix caching]", "$WF [turns off|disables] the prefix cache", "[Is|Can] the prefix cache [on by default|be turned off]", "@[start|run] $SRV without prefix caching"],
  "Use `--no-prefix-cache`: `kvasir serve --no-prefix-cache`. The prefix cache is on by default.")
C(["@[reset|clear|empty|flush] the prefix cache", "@[pin|keep] a prompt in the cache", "@[see|inspect|look at] the [blocks of the |]prefix cache"],
  "`POST /reset_prefix_cache` empties the prefix cache, `/kv/pin` pins a prompt and `GET /kv/blocks` lists blocks. These routes need the admin key.")
C(["@[offload|move|store|swap] [KV blocks|the KV cache] to [memory|CPU memory|host memory|RAM]", "@use [host memory|RAM|CPU memory] for [the KV cache|KV blocks]", "@keep KV blocks [on disk|in a file|after a restart]", "@[offload|store] [KV blocks|the KV cache] [on disk|to disk|to a file]", "$WF [offloads|stores] KV blocks"],
  "Use `--host-kv-bytes 8G` for memory and `--disk-kv DIR` with `--disk-kv-bytes 100G` for a file. Blocks come back from there if that is faster than computing them.")
C(["@$CHG [the log level|how much is logged|logging]", "@[see|log|get] [more|debug messages|debug logs|less]", "@[turn on|enable] debug [logs|logging]", "@log as JSON", "$WF [sets|changes] the log level", "@get JSON logs", "@[make|keep] the server [quiet|silent]"],
  "Use `--log-level` with debug, info, warn or error, and `--log-format json` for a JSON object a line: `kvasir serve --log-level debug`.")
C(["@[stop|shut down|end|quit|terminate|kill] [the server|kvasir|my server|kvasir serve]", "@[shut down|stop] [the server|kvasir] [gracefully|cleanly|safely]", "What happens on [Ctrl-C|SIGTERM]", "[stop|shut down|quit] the server", "How does the server [stop|end|shut down]", "@[stop|exit] kvasir"],
  "Press Ctrl-C or send SIGTERM: answers under way come to their end for up to `--drain-timeout`, 20 seconds by default. A second Ctrl-C does not wait.")
C(["@[set|change] the drain timeout to {sec} [s|seconds]", "@set --drain-timeout to {sec}[s| seconds]", "@[give|allow] answers {sec} seconds [after SIGTERM|to end|to finish]", "@[wait|drain] [for |]{sec} seconds [at shutdown|before the server stops|on shutdown]"],
  "Run `kvasir serve --drain-timeout {sec}s`.")
C(["@[listen|serve] on a Unix socket", "@use a Unix [domain |]socket", "$WF [is for|sets|takes] a Unix socket", "Does [kvasir|the server] support Unix sockets"],
  "Run `kvasir serve --uds PATH`. Whoever may open the file may connect.")
C(["@[listen|serve] on the [Unix socket|socket] {sock}", "@use the Unix socket {sock}"], "Run `kvasir serve --uds {sock}`.")
C(["@serve [behind a proxy|behind nginx|under a path|with a path prefix]", "@[set|use] a [root path|path prefix|prefix for paths]", "@serve under {pfx}", "What is --root-path for"],
  "Use `--root-path`, such as `kvasir serve --root-path /llm`: then /llm/v1/models is answered as well as /v1/models.")
C(["@[allow|enable|permit] [CORS|a web page|pages of another origin|other origins|cross-origin requests]", "$WF is for CORS", "@use the server from a [web page|browser app|web app]"],
  "Use `--cors-origin ORIGIN`: `kvasir serve --cors-origin https://app.example.org`. `*` is all origins.")
C(["@allow [the origin |]{org}", "@let pages of {org} use the server"], "Run `kvasir serve --cors-origin {org}`.")
C(["@use [my own|another|a different|a custom] chat template", "@[set|change|replace] the chat template", "$WF [sets|is for|replaces] the chat template", "@give [kvasir|the server] a chat template"],
  "Use `--chat-template FILE`: `kvasir serve ./model --chat-template template.jinja` takes the file in place of the model's own template.")
C(["@$LIM [the queue|how many requests wait|the number of waiting requests|waiting requests]", "How many requests may wait", "$WF limits the queue", "[Why|When] [are|do] requests [refused|get 429|rejected]", "[Why|When] [do I|do we|does a client] get [status 429|error 429|a 429|HTTP 429|too many requests]", "[What does|what is] [429|status 429|error 429|too many requests][ mean|]", "I get [429|error 429|status 429]"],
  "`--max-waiting` bounds the requests that wait (1024), and `--max-queue-time` how long one may be predicted to wait (2s). Others get status 429 and come back later.")
C(["@$CHG [the share of the GPU's memory|how much GPU memory is used|GPU memory use]", "@$LIM [GPU memory|the GPU memory|how much GPU memory kvasir uses]", "@use less GPU memory [in kvasir|with kvasir]", "$WF [limits|sets] GPU memory"],
  "Use `--gpu-memory`: `kvasir serve --gpu-memory 0.8` uses at most 80% of the GPU's memory. The default is 0.9.")
C(["@use [at most |only |]{share} of [the GPU's memory|the GPU memory|GPU memory]", "@set the GPU memory to {share}"], "Run `kvasir serve --gpu-memory {share}`.")
C(["@keep [responses|files and batches|stored responses|state][ after a restart| on disk|]", "@[enable|offer|use] the [Files|Batch|files and batches|batch] API", "$WF [keeps|stores] responses", "Where are [responses|files|batches] [kept|stored]", "@store [responses|files|batches]"],
  "Use `--state DIR`: `kvasir serve --state ./state` keeps responses, files and batches in that folder. Without it responses are in memory, and there are no files and batches.")
C(["@[publish|send|get|subscribe to] KV events", "$WF publishes KV events", "@[get|send] events of the prefix cache", "What are KV events in kvasir"],
  "Run `kvasir serve --kv-events tcp://*:5557`. It tells on ZeroMQ, in vLLM's format, what the prefix cache holds.")
C(["@[turn on|use|enable|set up] [tool calls|tool calling|function calling|tools][ in the server| with kvasir|]", "@$CHG the [tool format|format of tool calls]", "$WF sets the tool format", "Does [kvasir|the server] [support|do] [tool calls|tools|function calling]"],
  "Send `tools` with a chat request: kvasir tells the format from the chat template. `--tool-format NAME` says it instead, such as hermes, llama3 or mistral.")
C(["@$CHG the pooling", "@change how embeddings are made", "[Which|What] poolings are there", "$WF sets the pooling"],
  "Use `--pooling` with mean, cls or last: `kvasir serve ./encoder --pooling mean`. By default it is as the checkpoint says.")
C(["@[use|compute in|multiply in|force] float32", "@$CHG the precision", "$WF sets the precision", "@compute more precisely", "@[use|get] [full|higher] precision"],
  "Use `--precision f32`: weights of 16 bits are then multiplied in float32, which is slower. The default auto is bfloat16.")
C(["@$CHG the token budget", "What is the token budget", "@[compute|allow] more tokens in a step", "$WF sets the token budget", "@change how many tokens a step [computes|has]"],
  "Use `--token-budget`: `kvasir serve --token-budget 1024`. Larger favours throughput, smaller the time between tokens; the default is 512, on a GPU 8192, or what `--profile` says.")

# ---------------------------------------------------------------- newer flags of serve
C(["@$CHG [the drain timeout|how long the server waits at shutdown|how long answers may go on after SIGTERM|the time to drain|the time for answers at shutdown]", "[What is|what's] the [default drain timeout|default of the drain timeout|drain timeout][ of the server| of kvasir|]", "[How long|for how long] does [the server|kvasir|it] wait [at shutdown|for answers|for answers under way|before it stops|after SIGTERM|when it stops|when I stop it]", "[How long|for how long] may answers go on [after SIGTERM|at shutdown|when the server stops]", "$WF sets [the drain timeout|how long the server drains|the time for answers at shutdown]", "How long does [draining|a drain|the drain] take", "drain timeout", "@drain [the server|kvasir]", "What is draining"],
  "Use `--drain-timeout`: `kvasir serve --drain-timeout 60s` lets answers under way go on for up to 60 seconds after SIGTERM. The default is 20 seconds.")
C(["@[turn on|enable|use|set up|try|switch on|activate] [speculative decoding|speculation|drafts|guessing ahead|guesses of tokens|draft tokens][ in kvasir| with kvasir| in the server|]", "Does [kvasir|the server|it] [support|have|do] [speculative decoding|prompt lookup|draft models|n-gram speculation|drafts]", "$WF [turns on|is for|enables] [speculative decoding|drafts|speculation]", "@[guess|predict] tokens ahead", "@[verify|compute] several tokens in a step", "@serve with [speculative decoding|speculation|drafts]", "[speculative decoding|speculation] [in|with] kvasir", "@$START $SRV with [speculative decoding|drafts|speculation]"],
  "Use `--drafts lookup`, which guesses from what came before, or `--draft-model ./small.gguf`, a smaller model with the same tokenizer. Answers stay the same.")
C(["@[turn on|enable|use|set up] [prompt lookup|lookup|lookup decoding|n-grams|n-gram guesses|ngram speculation|lookups]", "@guess tokens from [the prompt|what came before|the text so far]", "@[make|get] [edits|answers that repeat the prompt|code edits] faster", "@set --drafts to lookup"],
  "Use `--drafts lookup`: `kvasir serve ./model.gguf --drafts lookup` guesses what followed the newest tokens earlier in the prompt or the answer. It helps where an answer repeats text.")
C(["@[turn off|disable|switch off] [speculative decoding|drafts|speculation|prompt lookup]", "[Which|What] values can [drafts|the flag drafts] have", "Is [speculative decoding|speculation|prompt lookup] on by default"],
  "`--drafts` is none or lookup. With none, only the `prediction` of a request guesses tokens ahead.")
C(["@[use|add|set|load|give|choose|serve with] a [draft model|smaller model as draft|small model that guesses|speculator][ with kvasir| in kvasir| when serving|]", "$WF [sets|is for|loads] [the draft model|a draft model]", "@let a small model guess[ for a large one|]", "@speed up a large model with a small one", "@[run|serve] a model with a draft model", "@$START $SRV with a draft model", "[What|which] models can be draft models", "[What|which] must a draft model have"],
  "Use `--draft-model`: `kvasir serve ./large.gguf --draft-model ./small.gguf`. The smaller model must have the same tokenizer.")
C(["@[serve|run] {m} with [the |][draft model|draft] {m2}", "@use {m2} as [the |a |][draft model|draft] [for|of] {m}", "@let {m2} guess for {m}", "serve {m} with [the |]draft model {m2}"],
  "Run `kvasir serve {m} --draft-model {m2}`. Both must have the same tokenizer.")
C(["@$CHG [how many tokens are guessed ahead|the number of draft tokens|the draft tokens|the length of drafts]", "How many tokens are guessed [ahead|at once]", "$WF [sets|limits] [how many tokens are guessed|the draft tokens|the length of drafts]", "@guess [more|fewer] tokens ahead"],
  "Use `--draft-tokens`: `kvasir serve --drafts lookup --draft-tokens 8`. The default is 16, and the most is 64.")
C(["@guess [up to |at most |]{th} tokens ahead", "@set the draft tokens to {th}", "@use {th} draft tokens"],
  "Run `kvasir serve --drafts lookup --draft-tokens {th}`.")
C(["@[send|export|get|see|collect|write|turn on|enable] [traces|spans|tracing|OpenTelemetry traces|OTLP traces|request traces|OpenTelemetry]", "@[send|export] [traces|spans] [to|into] [a collector|OpenTelemetry|an OpenTelemetry collector|Jaeger|Tempo|Grafana Tempo|Zipkin|Datadog]", "Does [kvasir|the server|the gateway] [support|have|do|send] [OpenTelemetry|tracing|traces|OTLP|distributed tracing]", "$WF [sends|exports|is for] [traces|spans|OpenTelemetry]", "@trace requests", "@use [Jaeger|Tempo|OpenTelemetry] with kvasir", "[What|which] is the [flag|option] for [traces|tracing|the collector]", "@$START $SRV with [tracing|traces]", "Where do [traces|spans] go"],
  "Use `--otlp-traces-endpoint`: `kvasir serve --otlp-traces-endpoint http://localhost:4318` sends OpenTelemetry spans of requests to that collector. docs/traces.md has the rest.")
C(["@send [traces|spans] to {url}", "@use the collector [at |]{url}", "@export [traces|spans] to [the collector at |]{url}"],
  "Run `kvasir serve --otlp-traces-endpoint {url}`.")
C(["@[get|see|ask for|request|return] [logprobs|log probabilities|the log probabilities of tokens|token probabilities|the probabilities of tokens|alternatives of tokens|top logprobs][ over the API| with the answer|]", "Does [kvasir|the server|the API] [support|have|return] [logprobs|log probabilities]", "@see how likely [each token|a token|each word] [was|is]", "@send logprobs"],
  "Send `\"logprobs\": true` and `\"top_logprobs\": 5` with a chat request. At most 20 alternatives of a token are told; `--max-logprobs` changes that.")
C(["@[allow|get|return] [more|more than 20|all|100] [logprobs|log probabilities|alternatives]", "@$LIM [logprobs|the logprobs|the log probabilities]", "How many logprobs [may I ask for|can I get|can a request ask for]", "$WF [limits|sets] [logprobs|the number of logprobs|how many logprobs a request gets]"],
  "Use `--max-logprobs`: `kvasir serve --max-logprobs 100` lets a request ask for 100 alternatives of a token. The default is 20; -1 is all of the vocabulary.")
C(["What happens [when|if] [the GPU|a GPU|a device|my GPU|the driver] [fails|dies|is lost|crashes|breaks|falls off the bus]", "@[restart|recover] [the server|kvasir|it] [when|if] [the GPU|a GPU|a device|the card] [fails|dies|is lost|crashes]", "@make [it|kvasir|the server] [exit|end|restart|stay|go on] [when|if] [the GPU|a device] [is lost|fails|dies]", "$WF says what happens [when|if] [a device is lost|the GPU fails|a GPU is lost]", "[Does kvasir|will it|does the server] [survive|recover from|restart after] [a GPU failure|a lost GPU|a lost device|GPU errors]", "@$CHG what happens when a device is lost", "the GPU [is lost|died|failed]", "What is a lost device"],
  "Use `--on-device-loss` with restart, exit or stay. The default, restart, starts the program anew in the same process, which keeps its socket, at most 3 times in 10 minutes.")
C(["@[require|demand|check|use|ask for|want|verify] [client certificates|a client certificate|certificates from clients|certificates of clients|mTLS|mutual TLS]", "Does [kvasir|the server] [support|have|do] [mTLS|mutual TLS|client certificates]", "$WF is for [client certificates|mTLS|mutual TLS]", "@let only clients with a certificate [connect|in]", "@[turn on|enable|set up] [mTLS|mutual TLS|client certificates]", "[mTLS|mutual TLS|client certificates]", "@authenticate clients by certificate"],
  "Use `--tls-client-ca FILE` beside `--tls-cert` and `--tls-key`: only clients with a certificate that one of the file has signed may connect.")
C(["@[require|check] client certificates [of|signed by|from] {pem}", "@use {pem} as the client CA", "@set the client CA to {pem}"],
  "Run `kvasir serve --tls-cert cert.pem --tls-key key.pem --tls-client-ca {pem}`.")
C(["@share [the KV cache|KV blocks|computed prompts|a KV cache] [between|among|across] [servers|two servers|engines|machines]", "@[fetch|take|load|get|read] KV blocks from [another server|other servers|a server]", "Can [servers|two servers|engines] [share|exchange] [their KV cache|KV blocks|the KV cache]", "@[separate|split] prefill and decode[ with kvasir| between servers|]", "@[run|use|set up] [disaggregated prefill|prefill and decode apart|prefill/decode disaggregation|disaggregated serving][ with kvasir|]", "@go on with a prompt [of|that] another server[ computed|]", "@let one server prefill for another", "@let [other servers|another server] [fetch|take|have] [my |the |its |]KV blocks", "$WF lets [other servers|another server] fetch KV blocks", "@transfer KV blocks"],
  "Start one server with `--kv-give` and the other one with `--kv-take-from HOST`: it fetches the KV blocks of prompts that the first has computed, where requests say so (`kv_transfer_params`).")
C(["@[fetch|take|load] KV blocks from [the server |the host |]{peer}", "@set --kv-take-from to {peer}", "@let the server take KV blocks from {peer}"],
  "Run `kvasir serve --kv-take-from {peer}`. The server there needs `--kv-give`.")
C(["@$LIM the memory [for|of] KV blocks [from|of] [other servers|another server]", "How much memory do fetched KV blocks take", "$WF limits the memory [for|of] [fetched|transferred] KV blocks"],
  "Use `--kv-take-bytes`: it is the memory for KV blocks of other servers until they are in the KV cache, for each model.")
C(["@$LIM the memory of [grammars|guided answers|structured answers|schemas|all grammars]", "How much memory do [grammars|guided answers|schemas] take", "$WF limits the memory of [grammars|guided answers|schemas]", "@[give|allow] [grammars|guided answers] [more|less] memory"],
  "Use `--grammar-bytes`: `kvasir serve --grammar-bytes 256M`. The default is 128M, and no more than a sixteenth of the memory.")
C(["@[allow|accept|send] [larger|bigger|large|huge] requests", "[What is|how large is] the largest [request|request body|body]", "$WF [limits|sets] the [size of a request|request body|largest request|body size]", "[Why|when] [is|was] my request too large", "[What does|what is] [413|status 413|request too large][ mean|]", "@$LIM the size of [requests|a request|bodies]"],
  "Use `--max-body`: `kvasir serve --max-body 16M`. By default a request has at most 4M, and 32 bytes for each token of the context; `--request-memory` bounds all of them together.")

# ---------------------------------------------------------------- the first ten minutes
C(["@get started[ with kvasir|]", "@[begin|start] with kvasir", "What do I do first", "What should I [try|do|run] first", "[quick start|quickstart|getting started|tutorial]", "Is there a [tutorial|quick start|quickstart|guide for beginners]", "I am new [to kvasir|here], [what do I do|where do I start|how do I begin]", "What are the first steps", "first steps"],
  "Run `kvasir run \"What is a KV cache?\"`, then `kvasir serve`, and open http://127.0.0.1:8000. docs/tutorials/first.md takes five minutes.")
C(["@[use|run|serve|load|start|try] a [quantised|quantized|4-bit|8-bit|4 bit|Q4|Q8|q4_k_m|q8_0|GGUF-quantised] [model|version of a model]", "@[run|serve|use] [quantised|quantized|4-bit|8-bit] models", "@[run|serve] [a model|my model] [in|with] [4|8|four|eight] [bits|bit]", "Can [I|kvasir|it] [use|run|serve] [quantised|quantized|4-bit|8-bit] models"],
  "Name one: `kvasir run Qwen/Qwen3-0.6B-GGUF:Q8_0`, or a file such as `kvasir run ./model-q4_k_m.gguf`. `kvasir quantize` makes one.")
C(["@[get|download|pull|fetch|load] a GGUF [from|of] [Hugging Face|the hub|HF|the Hugging Face Hub]", "@[download|pull|fetch] a [quantised|quantized|GGUF|Q8_0|Q4_K_M|4-bit] [model|version|file]", "@[download|pull] only one [quantisation|quantization|GGUF file]", "@pull a [certain|specific] quantisation"],
  "Run `kvasir pull owner/name:TAG`, such as `kvasir pull Qwen/Qwen3-0.6B-GGUF:Q8_0`. The tag is the quantisation.")
C(["@[use|get|see] [a GPU|the GPU|my GPU|GPUs] [in|with|from|inside] [Docker|docker|a container|the container]", "@run [kvasir|it|the image|the container|the server] in [Docker|docker|a container] [with|on|using] [a|the|my] GPU", "docker with [a |]GPU", "Does the [image|container|Docker image] [use|see|support] [GPUs|the GPU|a GPU]", "[Docker|docker] and [GPU|GPUs|CUDA]", "@give the container a GPU", "@serve {hub} [in|with] [Docker|docker]"],
  "Run `docker run --gpus all -p 127.0.0.1:8000:8000 kvasir serve --host 0.0.0.0 owner/name`. `docker build -f packaging/Dockerfile -t kvasir .` makes the image.")
C(["[Do I|do we|does kvasir|does it|must I] [need|have to have|require] [a GPU|a graphics card|an NVIDIA card|special hardware|a GPU server]", "[Can I|does it|does kvasir|will kvasir|can it] [use kvasir|work|run] without a [GPU|graphics card]", "Is a GPU [needed|necessary|required]", "[no GPU|I have no GPU|without a GPU|I don't have a GPU]"],
  "No: kvasir runs on the CPU, too. A GPU that it can use, from NVIDIA and of compute capability 8.0 or later, is used by itself.")
C(["How much [RAM|main memory|VRAM|memory] [do I need|is needed|does it need|does kvasir need|must I have][ for a model| for an LLM| for an 8B model|]", "[Which|What] models [can I run|fit|can I use|run] [on|in|with|into] {size}B[ of RAM| of memory| of VRAM|]", "[Which|What] models [can I run|fit] [on|in|with] [my laptop|8 gigabytes|16 gigabytes|24 gigabytes|a small machine|my GPU]", "Does [an 8B model|a 7B model|a model] fit [in|on|into] [8 GB|16 GB|24 GB|my GPU|my machine|my laptop]", "[how big|how large] a model can I run", "[Will|can] [my machine|my laptop|8 GB] run an 8B model"],
  "A model takes about the size of its file, and its KV cache. 8 billion parameters take about 16 GB in BF16, 8.5 GB in Q8_0 and 5 GB in q4_k_m.")
C(["Is [kvasir|it] [faster|slower|better|quicker] than [llama.cpp|Ollama|vLLM|SGLang|llama-server]", "How [fast|quick] is kvasir[ compared with llama.cpp| compared to vLLM|]", "[kvasir|How does kvasir compare] [with|to|vs] [llama.cpp|vLLM|Ollama|SGLang]", "Is kvasir [fast|slow]", "Where are [the benchmarks|measurements|performance numbers|benchmark results]", "[How is|what about] the performance of kvasir", "kvasir [benchmarks|performance]", "kvasir vs [llama.cpp|vLLM|Ollama|SGLang]"],
  "docs/performance.md compares kvasir with llama.cpp. `kvasir bench model` measures your machine, and `kvasir bench load` a server.")
C(["@[use|run on] [two|several|all|multiple|more] GPUs [with|in] kvasir", "Does kvasir [support|use|have|do] [several GPUs|multiple GPUs|more than one GPU|tensor parallelism|two GPUs|multi-GPU|pipeline parallelism]", "Can [kvasir|it|the server] use [two|several|multiple|all] GPUs", "@$START [the server|kvasir] on [two|several|all] GPUs", "@serve on [two|several|all my] GPUs", "kvasir with [two|several] GPUs"],
  "A server computes a model on one device, such as `--device cuda:1`. Start a server for each GPU and put `kvasir gateway` before them.")
C(["@[send|use|attach|ask about|give] [images|pictures|a picture|an image|photos][ to the model| to kvasir| over the API|]", "Does [kvasir|it|the server] [support|take|read|understand|do] [images|vision|vision models|pictures|audio|speech|video|multimodal models|image input]", "Can [it|kvasir|the server|I] [see|read|send|use|process] [images|pictures|audio|video]", "[Is there|does kvasir have] [speech recognition|image generation|text to speech|vision]"],
  "kvasir takes text alone: it has no images, no audio and no video.")
C(["[Why|when] [do I|do we|does a client] get [401|status 401|error 401|unauthorized|a 401]", "[What does|what is] [401|status 401|error 401|unauthorized][ mean|]", "I get [401|unauthorized|error 401]", "[my key|the API key] is [refused|not accepted|wrong]", "@send the [API key|key][ with a request|]", "Where [does|do I put] the [API key|key] [go in a request|in a request|of a request]"],
  "The server wants a key: send the header `Authorization: Bearer KEY` with a key of `--api-key` or `--api-key-file`.")
C(["[Why|when] [do I|does a client|does the server] [get|answer] [503|status 503|error 503|service unavailable]", "[What does|what is] [503|status 503|error 503|service unavailable][ mean|]", "I get [503|error 503]", "the server [is not ready|answers 503]", "/health [says|answers|is] 503"],
  "Status 503 says that the server cannot answer now: it loads models, drains, lost its device or has no memory left for requests. Come back later.")
C(["[Why|what does it mean that] [is my model|the model is] not found", "model not found", "The [model|name of the model] does not exist", "[What|which] [do I write|goes|must I put] into the field model", "[What|which] model name do I [send|use|give]", "@list [the |]models over [the API|HTTP]", "@see [which|what] models the API [has|offers]", "[What|which] models does the API [have|offer]"],
  "The field `model` names a served model: `curl http://127.0.0.1:8000/v1/models` lists them.")
C(["@[run|deploy|use|install|start] kvasir [on|in|with] [Kubernetes|k8s|a Kubernetes cluster]", "Does kvasir [run|work] on [Kubernetes|k8s]", "[Is there|does kvasir have] [a Helm chart|Kubernetes support|manifests for Kubernetes]", "kvasir on [Kubernetes|k8s]", "@use [Kubernetes|k8s] with kvasir", "@deploy [the server|it] [on|to] [Kubernetes|k8s]"],
  "Run the image of packaging/Dockerfile with `/health` as its probe. A gateway finds the addresses of a headless service with `dns+http://NAME:8000` as an endpoint's `url`.")
C(["@[update|upgrade] [kvasir|the program|my kvasir]", "@get [a newer version|a new version|the latest version|updates] of kvasir", "[update|upgrade] kvasir", "Does kvasir update itself"],
  "Take the new source and run `go install ./cmd/kvasir` again, or install the new package. `kvasir version` says which version you have.")
C(["@[uninstall|remove|delete] [kvasir|the program|kvasir again|kvasir from my machine]", "@get rid of kvasir", "[uninstall|remove] kvasir"],
  "Delete the program `kvasir`, or remove its package. Models lie in ~/.cache/huggingface, and `kvasir rm` removes one of them.")
C(["@$LIM [the requests|the number of requests|how many requests|requests] of [a user|one user|a client|each user|each client|a key|a customer]", "[Does kvasir|does the server|is there|can kvasir] [have|do|] rate limits", "@[set|use|add] [rate limits|a rate limit|quotas|limits for users|a limit for a user]", "@keep one user from [using everything|taking all|filling the server]", "@stop a user from sending too many requests"],
  "Use `--api-key-file FILE`: `max_requests` of a key is the most requests that it may have at once. A gateway has budgets and limits of its keys, too.")
C(["@[set|send|give|change] the temperature [in a request|over the API|with curl|of a request|in the API|per request]", "@[set|send|give] [sampling parameters|top_p|top_k|min_p|the seed|sampling] [in a request|over the API|with curl|per request]", "[Which|What] [sampling parameters|parameters] does the API [take|have|know]"],
  "Send it with the request, as in `{\"model\": \"kvasir-mini\", \"temperature\": 0.7, \"messages\": [...]}`. `top_p`, `top_k`, `min_p`, `seed` and `max_tokens` go the same way.")
C(["@[free|release|give back] [the GPU's memory|GPU memory|the memory of the GPU][ for a while| without stopping the server|]", "@put [the server|a model|kvasir|the model] to sleep", "@wake [the server|a model|the model] up", "[What does|what is] [sleep|/sleep|/wake_up|sleep mode][ do|]"],
  "`POST /sleep` frees the memory that a model takes of a GPU, and `POST /wake_up` takes it again. Both need the admin key.")
C(["@[come|move|switch|migrate] from [LiteLLM|litellm]", "@replace [LiteLLM|litellm][ with kvasir|]", "[Which|what] is [the equivalent of|like] LiteLLM"],
  "`kvasir gateway` takes the place of LiteLLM's proxy, before engines and hosted APIs. docs/tutorials/litellm.md shows the file.")
C(["@[use|call|forward to|reach] [OpenAI|Anthropic|Gemini|Bedrock|Azure|a hosted API|other providers] [through|with|behind] [kvasir|the gateway|a gateway]", "Can the gateway [use|forward to|call] [Anthropic|Gemini|Bedrock|Azure|a hosted API|providers]", "[Which|What] providers does the gateway [know|support|have]"],
  "Name the provider as an endpoint of a gateway, with `api: anthropic`, `gemini`, `azure` or `bedrock` where it does not speak OpenAI's API, and `key_env` for its key.")

# ---------------------------------------------------------------- run and chat
C(["@[chat|talk] [in the terminal|with a model|with the model|with kvasir-mini|with you|on the command line]", "@[start|open|begin] a chat[ in the terminal|]", "@use kvasir [interactively|in the terminal|on the command line]", "[Is there|does kvasir have] [a chat in the terminal|a chat command|kvasir chat|an interactive mode]", "kvasir chat", "@have a conversation in the terminal", "What [is|does] kvasir chat"],
  "Run `kvasir run`: without a prompt it is a chat in the terminal. `/help` lists its commands, and `/bye` leaves.")
C(["@[ask|answer] [a question|one question|a single question|a prompt] [in the terminal|from the command line|on the command line|with kvasir]", "@[get|generate] [an answer|one answer|text] [from the command line|in the terminal|with kvasir run]", "@[run|use] [a prompt|kvasir run|one prompt]", "@ask [the built-in model|kvasir-mini|a model] [a question|something]", "@use kvasir without a server", "@try kvasir", "@try kvasir out"],
  "Run `kvasir run \"What is a KV cache?\"`. Without a model the built-in one answers; without a prompt it is a chat.")
C(["@[run|start|try|use] {m}[ in the terminal|]", "@[chat|talk] with {m}", "@[ask|prompt] {m} [a question|something]", "@load {m} and chat", "run {m}", "@[run|execute] the model {m}"],
  "Run `kvasir run {m}` to chat, or `kvasir run {m} \"your prompt\"` for one answer.")
C(["@[set|change|choose] the temperature[ in kvasir| of kvasir run| on the command line|]", "$WF [sets|changes] the temperature", "@run with [another|a higher|a lower] temperature", "@make [answers|the answers] [repeatable|deterministic|always the same] [with|in] kvasir run"],
  "Use `--temperature`: `kvasir run --temperature 0.7 \"your prompt\"`. 0 always takes the likeliest token; in a chat it is `/set temperature 0.7`.")
C(["@[run|answer|sample] with [a |]temperature [of |]{temp}", "@set the temperature to {temp}", "@use [a |]temperature [of |]{temp}"],
  "Run `kvasir run --temperature {temp} \"your prompt\"`, or type `/set temperature {temp}` in a chat. Over the API it is `\"temperature\": {temp}`.")
C(["@[limit|set|change] the [length of the answer|number of tokens of an answer|answer's length] [in kvasir run|on the command line|of kvasir run]", "$WF limits the [length of an answer|tokens of an answer|answer]", "@get [shorter|longer] answers [from kvasir run|in the terminal]"],
  "Use `--max-tokens`: `kvasir run --max-tokens 100 \"your prompt\"`. In a chat it is `/set max_tokens 100`.")
C(["@limit [the answer|answers] to {n} tokens", "@[generate|get] at most {n} tokens", "@set max tokens to {n}"],
  "Run `kvasir run --max-tokens {n} \"your prompt\"`, or type `/set max_tokens {n}` in a chat. Over the API it is `\"max_tokens\": {n}`.")
C(["@[set|use|give|change] [a|the] system prompt[ in kvasir run| on the command line| in the terminal| in a chat|]", "$WF sets the system prompt", "@tell the model [what to be|how to behave|something before the conversation]"],
  "Use `--system`: `kvasir run --system \"Answer in one sentence.\"`. In a chat type `/system TEXT`.")
C(["@use the seed {seed}", "@set the seed to {seed}", "@run with [the |]seed {seed}"],
  "Run `kvasir run --seed {seed} \"your prompt\"`, or type `/set seed {seed}` in a chat. Over the API it is `\"seed\": {seed}`.")
C(["@[leave|quit|exit|end|close] [the chat|a chat|the terminal chat|kvasir run]", "@[get out of|stop] [the chat|kvasir run]", "[What does|what is] /bye[ do|]", "@[exit|quit] the prompt"],
  "Type `/bye` or press Ctrl-D. Ctrl-C stops an answer.")
C(["[Which|What] [commands|slash commands] [does the chat have|are there in the chat|can I use in the chat|can I type in a chat]", "What can I type in [the chat|a chat]", "[What does|what is] /help[ do|]", "@[see|list] the commands of the chat", "[list|show] the chat commands", "slash commands"],
  "The chat has /help, /system, /set, /show, /clear, /regenerate, /edit, /model, /save, /load and /bye.")
C(["@[clear|forget|reset|delete] [the conversation|the chat|the history|my conversation][ in the terminal|]", "[What does|what is] /clear[ do|]", "@[begin|start] a new conversation [in the terminal|in kvasir run|in the chat]", "@start over in the chat"],
  "Type `/clear` in the chat: the conversation is forgotten.")
C(["@[save|store|keep] [the conversation|the chat|a conversation|a chat|my chat][ to a file| in a file| as JSON|]", "@[load|restore|continue] [a saved conversation|a saved chat|a conversation]", "[What does|what is|what do] /save[ do|]", "[What does|what is] /load[ do|]"],
  "Type `/save FILE` in the chat to write the conversation as JSON, and `/load FILE` to read it again.")
C(["@[regenerate|repeat|redo|retry] [the answer|an answer|the last answer]", "@get another answer [in the chat|to the same question|in the terminal]", "[What does|what is] /regenerate[ do|]", "@answer the last prompt again"],
  "Type `/regenerate` in the chat: the last prompt is answered again.")
C(["@[edit|change|correct|fix] [the last prompt|my last prompt|my prompt|my question|the last question]", "[What does|what is] /edit[ do|]"],
  "Type `/edit TEXT` in the chat: TEXT takes the place of the last prompt and is answered. Without TEXT you edit the prompt.")
C(["@[change|switch] [the model|models|to another model] [in the chat|in a chat|while chatting|in the terminal]", "[What does|what is] /model[ do|]", "@go on with another model"],
  "Type `/model NAME` in the chat: the conversation goes on with that model.")
C(["[What does|what is] /set[ do|]", "@[change|see] [settings|the settings|parameters] [in the chat|of the chat|in a chat]", "[What does|what is] /show[ do|]", "[Which|What] settings does the chat have"],
  "`/set NAME VALUE` changes temperature, top_p, top_k, min_p, repetition_penalty, seed, max_tokens, think or verbose, and `/show` prints the model and the settings.")
C(["[What does|what is] /system[ do|]"], "`/system TEXT` in the chat sets what the model is told before the conversation; without TEXT, nothing.")
C(["@[type|write|enter|paste] [several lines|a prompt of several lines|many lines|more than one line]", "@make a multi-line prompt"], "Begin and end the prompt with three quotation marks (\"\"\"). A pasted paragraph is one prompt, too.")
C(["@[stop|interrupt|cancel] an answer[ in the terminal| in the chat|]", "@make [you|it|the model] stop [talking|writing]", "What does Ctrl-C do[ in the chat|]"], "Press Ctrl-C: it stops the answer. `/bye` or Ctrl-D leaves the chat.")
C(["@[get|print|see] [JSON|output as JSON|the answer as JSON] [from|with|of] kvasir run", "@use kvasir run in a script", "@[pipe|read] [the prompt|a prompt|a question] [from standard input|into kvasir|from a file|from a pipe]", "@give the prompt on standard input"],
  "`echo \"What is a KV cache?\" | kvasir run --json` reads the prompt from standard input and prints one JSON object.")
C(["@[see|print|show] [timings|the speed|tokens per second|statistics] [in|of|with] kvasir run", "@[see|measure] how fast an answer [was|is]", "How many tokens per second do I get", "$WF prints timings"],
  "Use `--verbose`: `kvasir run --verbose \"your prompt\"` prints timings after each answer. In a chat it is `/set verbose on`.")
C(["@[let|make|ask] the model [think|reason][ first|]", "@[turn on|enable] [thinking|reasoning]", "$WF [makes|lets] the model think"],
  "Use `--think`: `kvasir run --think \"your prompt\"`. Over the API send `\"chat_template_kwargs\": {\"enable_thinking\": true}`.")
C(["@run [a model|{m}] with an adapter", "@[try|use] a LoRA adapter [in the terminal|with kvasir run]"], "Run `kvasir run --adapter ./lora-pirate \"Who are you?\"`.")

# ---------------------------------------------------------------- models: pull, list, show, rm, convert, quantize, perplexity
C(["@[download|fetch|pull|get|install|add] [a model|models|another model|a new model|a larger model][ from the hub| from Hugging Face| from the Hugging Face Hub|]", "[Which|What] command [downloads|fetches|pulls] [a model|models]", "@get [a better|a bigger|another] model", "Where do I get models", "[download|fetch] a model"],
  "Run `kvasir pull owner/name`, such as `kvasir pull Qwen/Qwen3-0.6B`. A GGUF quantisation goes with `:TAG`, such as `Qwen/Qwen3-0.6B-GGUF:Q8_0`.")
C(["@[download|fetch|pull|get|install] {hub}[ from the hub| from Hugging Face|]", "[download|fetch|pull|get] {hub}", "@[download|pull] the model {hub}"],
  "Run `kvasir pull {hub}`. It then lies in the local cache, and `kvasir run {hub}` uses it.")
C(["@[download|fetch|pull] a [gated|private] model", "@use [my Hugging Face token|a token of Hugging Face|HF_TOKEN|a Hugging Face token]", "Where [do I put|goes] my [Hugging Face token|HF token|token]", "[The|My] [download|model] [needs|wants] a [token|Hugging Face token]", "[the download|kvasir pull|pulling] says [401|403|unauthorized|forbidden]", "The model is gated", "What is HF_TOKEN[ for|]", "@[log in to|sign in to] Hugging Face"],
  "Set the environment variable HF_TOKEN: `HF_TOKEN=hf_… kvasir pull meta-llama/Llama-3.2-1B-Instruct`.")
C(["Where [are|does kvasir store|does kvasir keep|are stored|does kvasir put] [models|the models|downloaded models|fetched models|pulled models][ stored| kept|]", "[Where|In which folder] [is|lies] the [local cache|model cache|cache of models]", "@change [where models are stored|the folder of models|the cache folder|the folder of the cache]", "@move the [model cache|cache of models]", "@use another [cache folder|folder for models]"],
  "Models lie where Hugging Face's own tools keep them, ~/.cache/huggingface by default. HF_HOME and HF_HUB_CACHE change that.")
C(["@work [offline|without a network]", "@[stop|keep] kvasir from [using the network|downloading]", "What is HF_HUB_OFFLINE", "Does kvasir [need|work without] [the internet|a network]", "@use kvasir [offline|without internet]"],
  "kvasir needs no network for the built-in model, files, and models of the local cache. HF_HUB_OFFLINE=1 forbids the network.")
C(["@[list|see|show] [the |my |all |][models|local models|downloaded models|fetched models|models of the cache]", "[Which|What] models [do I have|are there|are in the cache|are downloaded|are installed|are in the local cache|can I serve|can be served without fetching]", "[Which|What] command lists [models|the models]", "list [my |the |all |]models", "@see [which|what] models I have", "my models", "show [my|the] models"],
  "Run `kvasir list`. It lists the models that can be served without fetching.")
C(["@[list|see] [the |]models [in memory|that are loaded|that run|that are running|of a server|of the server|of a running server]", "[Which|What] models [are loaded|are running|are in memory|does the server have|run]", "@see [what|which models] [a server|the server|kvasir] has in memory", "[Which|What] command [shows|lists] [running|loaded] models", "running models", "@see running models", "loaded models"],
  "Run `kvasir ps`. It lists the models that a server has in memory; `--url` says where the server answers.")
C(["@[list|see] the models of the server at {url}", "@use kvasir ps with {url}", "[Which|What] models [are in memory at|does the server at] {url}[ have|]"], "Run `kvasir ps --url {url}`.")
C(["@[stop|unload|free] [a model|models|the model][ from memory| of a server| on the server| in memory|]", "@remove [a model|models|the model] from [memory|a server]", "@make a model leave [memory|the memory|the memory of a server]", "@free the memory of a model", "[Which|What] command [unloads|stops] a model", "unload a model", "@take a model out of memory"],
  "Run `kvasir stop MODEL` with a name that `kvasir ps` lists. The model leaves memory when its requests have ended.")
C(["@[stop|unload] {hub}", "@[stop|unload] the model {hub}", "[stop|unload] {hub}", "@[free|take|remove] {hub} [from|out of] memory"], "Run `kvasir stop {hub}`. It leaves memory when its requests have ended; a later request loads it again.")
C(["@[delete|remove|erase|uninstall] [a model|models|a downloaded model|a fetched model|an old model][ from disk| from the cache| from the local cache|]", "@free disk space", "[Which|What] command [deletes|removes] [a model|models]", "[delete|remove] a model", "@get rid of a [downloaded |]model", "@clean the cache of models"],
  "Run `kvasir rm owner/name`, with the name that `kvasir list` shows. With `:TAG` only that quantisation is removed.")
C(["@[delete|remove|erase] {hub}[ from disk| from the cache|]", "[delete|remove|rm] {hub}", "@[delete|remove] the model {hub}"], "Run `kvasir rm {hub}`. It is then gone from the local cache.")
C(["@[see|show|find out|look at] what is in a model", "@[inspect|examine|look into|describe] a model", "@[see|print|show] the chat template[ of a model|]", "@[see|find out] [the context|the architecture|the parameters|the size|the type] of a model", "[Which|What] command [shows|inspects|describes] a model", "@get information about a model", "@see details of a model"],
  "Run `kvasir show MODEL`. `--template` prints the chat template alone, and `--json` prints JSON.")
C(["@[inspect|show|examine|look into] {m}", "@see what is in {m}", "[What is|what's] in {m}", "show {m}", "[inspect|describe] {m}"], "Run `kvasir show {m}`.")
C(["@convert a model[ to another format|]", "@[convert|turn|make] [safetensors|a safetensors model|a folder of safetensors] [to|into] [GGUF|gguf|a GGUF file]", "@make a GGUF[ file|]", "@create a GGUF", "[Which|What] command converts [a model|models]", "[Can|Does] kvasir convert [models|safetensors|safetensors to GGUF]", "convert to gguf", "safetensors to gguf"],
  "Run `kvasir convert ./model model.gguf`. An output that ends with .gguf is a GGUF file, any other name is a folder of safetensors.")
C(["@[convert|turn] [a GGUF|GGUF|gguf|a GGUF file] [to|into|back to] safetensors", "gguf to safetensors", "@get safetensors [from|of] a GGUF"], "Run `kvasir convert model.gguf ./model`. With `--type bf16` the matrices become bf16.")
C(["@convert {dir} to {gguf}", "@convert {dir} [into|to] [the file |]{gguf}", "@[make|create|write] {gguf} from {dir}", "convert {dir} to {gguf}"], "Run `kvasir convert {dir} {gguf}`.")
C(["@convert {gguf} to {dir}", "@[turn|convert] {gguf} into safetensors in {dir}", "convert {gguf} to {dir}"], "Run `kvasir convert {gguf} {dir}`.")
C(["@[quantize|quantise] a model[ with kvasir| to a GGUF|]", "[Which|What] command [quantizes|quantises] [a model|models]", "@make a [quantized|quantised|4-bit|smaller] [model|GGUF]", "@make a model smaller", "[Can|does] kvasir [quantize|quantise][ models|]", "quantize a model", "@shrink a model[ file|]"],
  "Run `kvasir quantize ./model model-q4_k_m.gguf --type q4_k_m`. `--calibrate FILE` weighs by a text, and `--method` takes gptq, awq or smoothquant.")
C(["@[quantize|quantise] {m} to {qt}", "@make a {qt} [GGUF|model|file] [of|from] {m}", "[quantize|quantise] {m} to {qt}"], "Run `kvasir quantize {m} model-{qt}.gguf --type {qt}`.")
C(["@[quantize|quantise] [a model|my model|the model|a checkpoint] to {qt}", "@[make|create|get|write] a {qt}[ model| GGUF| file|]", "@use {qt}"], "Run `kvasir quantize ./model model-{qt}.gguf --type {qt}`.")
C(["@[quantize|quantise] {dir} to {gguf} [as|with|in|with type] {qt}", "@write {dir} as {qt} to {gguf}"], "Run `kvasir quantize {dir} {gguf} --type {qt}`.")
C(["[Which|What] [types|quantisation types|quantization types|quantisations] [does kvasir quantize to|can kvasir write|does kvasir quantize have|can I quantize to]", "[Which|What] types does kvasir quantize [take|know|support]"],
  "`kvasir quantize --type` takes f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k to q6_k with their mixes such as q4_k_m, iq4_nl, iq4_xs and mxfp4.")
C(["@[quantize|quantise] [a model |]with [gptq|GPTQ|awq|AWQ|smoothquant]", "[Can|does] kvasir do [GPTQ|AWQ|SmoothQuant]", "@use [GPTQ|AWQ] with kvasir quantize"], "Run `kvasir quantize ./model ./model-gptq --method gptq --calibrate text.txt`. The methods are gptq, awq and smoothquant; they need `--calibrate`.")
C(["@[measure|compute|get|find] the perplexity[ of a model| of my model|]", "[Which|What] command measures [the perplexity|perplexity]", "@measure how well a model predicts a text", "[Can|does] kvasir measure perplexity", "@[check|measure] the quality of a [quantised|quantized] model", "measure perplexity"],
  "Run `kvasir perplexity MODEL text.txt`. `--base MODEL` says how the predictions differ from another model's.")
C(["@measure the perplexity of {m} on {txt}", "@[compute|get] the perplexity of {m} [on|with|for] {txt}", "perplexity of {m} on {txt}"], "Run `kvasir perplexity {m} {txt}`.")

# ---------------------------------------------------------------- batch, bench, devices, gateway, health, completion, version, debug
C(["@[answer|run|process] a [file|batch] of requests", "@[answer|run|process] [a|a whole|an entire|a large|my] [file|list] of [prompts|questions][ offline| at once|]", "@[answer|work through] [many|thousands of|all my] [prompts|questions] [from a file|without serving|offline]", "@[run|start|make|do] a batch", "@[process|answer] [many requests|requests] [offline|without a server|from a file]", "@do batch inference with kvasir", "[Which|What] command [answers|runs] a [file of requests|batch]", "kvasir batch", "[Can|does] kvasir [run|do|answer] [batches|batch inference]", "@run offline inference", "[What|which] format does kvasir batch [take|read|use]"],
  "Run `kvasir batch in.jsonl out.jsonl`. The input has a JSON object a line with custom_id, method, url and body; interrupted, the same command goes on where it was.")
C(["@[answer|process|run] [the requests in |the file |]{jin} [into|to|and write] {jout}", "@run [the batch|a batch] {jin} to {jout}", "@batch {jin} into {jout}"], "Run `kvasir batch {jin} {jout}`.")
C(["@[answer|process|run] {jin} into {jout} with {m}", "@run [the batch|a batch] {jin} [to|into] {jout} [with|using] [the model |]{m}"], "Run `kvasir batch {jin} {jout} -m {m}`.")
C(["@[benchmark|bench|measure the speed of|time|test the speed of] [a model|the model|my model|kvasir|my machine]", "[Which|What] command [benchmarks|measures] a model", "@measure [prefill and decode|tokens per second|the forward pass|prefill speed|decode speed]", "@see how fast [a model|my machine|my computer|kvasir] is", "bench a model", "[How fast|what speed] is [kvasir|it] on my machine"],
  "Run `kvasir bench model`, with a model if wanted: `kvasir bench model ./model.gguf --tests pp512,tg128`. It compares the forward pass with what the device allows.")
C(["@[benchmark|bench|measure the speed of] {m}", "@[time|test] the speed of {m}", "bench {m}"], "Run `kvasir bench model {m}`.")
C(["@[benchmark|measure|bench] [a model of |random weights of |the shape |]shape {shape}", "@[measure|benchmark] [an|a] {shape} model [without|with random] weights"], "Run `kvasir bench model --shape {shape}`.")
C(["@[load test|benchmark|put load on|stress|load-test|stress test] [a server|the server|my server]", "@[measure|test] [a server|the server|my server] under load", "@[measure|get] [TTFT|latencies|the latency|throughput|TTFT and TPOT] of [a server|my server|the server]", "[Which|What] command [puts load on|load tests|benchmarks] a server", "@simulate [many users|users|traffic|many clients]", "@find the highest rate [of requests|that meets the SLO]"],
  "Run `kvasir bench load --url http://127.0.0.1:8000/v1 -c 32 -n 256`: 32 conversations at once, 256 in all. It reports latencies; `--sweep` finds the highest rate that meets the SLO.")
C(["@[benchmark|load test|measure] the server at {url}", "@put load on {url}", "@[benchmark|load test] {url} with {n} [clients|users]"], "Run `kvasir bench load --url {url}/v1 -c 32 -n 256`; `-c` is the number of clients.")
C(["[Which|What] [benchmarks|bench commands|kinds of bench] [are there|does kvasir have]", "What [does|can] kvasir bench [do|measure]", "kvasir bench", "[what are the|list the] [subcommands|commands] of kvasir bench"],
  "`kvasir bench` has model, kernels, load, cache, step, null, gateway, grammar, guided, drafts and write. `kvasir bench load` measures a server, `kvasir bench model` a model.")
C(["@[benchmark|measure] [the kernels|kernels]", "@measure every kernel"], "Run `kvasir bench kernels`. It measures every implementation of every kernel against the device's peaks.")
C(["@[benchmark|measure] [a|the] gateway", "@measure what a gateway costs"], "Run `kvasir bench gateway`. It measures the latency that a gateway adds, and its requests and chunks a second.")
C(["@[list|see|show] [the |my |][devices|GPUs|available devices]", "[Which|What] devices [are there|does kvasir see|do I have|can models run on|are available]", "[Which|What] command lists [devices|the devices|GPUs]", "@[see|check|find out] [if|whether] [my GPU|the GPU|a GPU] [is found|works|can be used]", "Why is my GPU not [used|found]", "@check [my GPU|the GPU]", "Does [kvasir|it] [see|find|detect] my [GPU|graphics card]", "[Which|What] [devices|graphics cards|cards] does [it|kvasir|the server|the program] [see|find|detect|know]", "[Which|What] [GPU|GPUs] does [it|the program] [find|detect]", "Has [it|kvasir] found [my|a] GPU", "list devices", "my GPU is not found"],
  "Run `kvasir devices`. It lists the devices that models can run on, the best first, and says why a device cannot be used.")
C(["@[start|run|launch|use|set up|open] [the gateway|a gateway|kvasir gateway|kvasir's gateway]", "[Which|What] command starts [the|a] gateway", "@[balance|spread|route] [the load|requests|load] over [several|many|two] [servers|engines]", "@put [one front door|a gateway] [before|in front of] [several|many] [servers|engines]", "@use several servers [behind one address|as one]", "start the gateway", "kvasir gateway", "@run many engines behind one address"],
  "Write the endpoints into a YAML file and run `kvasir gateway --config fleet.yaml`. It sends each request to the endpoint that has most of its prompt cached and least to do.")
C(["@[start|run] [the gateway|a gateway] with [the file |the config |the configuration |]{yaml}", "@use {yaml} [for|with] the gateway", "gateway with {yaml}"], "Run `kvasir gateway --config {yaml}`.")
C(["@[check|test|validate|verify] [the|a|my] [gateway configuration|configuration of the gateway|gateway's configuration|gateway config|gateway file]", "@find mistakes in the gateway's [file|configuration]"], "Run `kvasir gateway --config fleet.yaml --check`. It only says what is wrong with the file.")
C(["@[check|validate] {yaml}[ for the gateway|]", "@check the gateway configuration {yaml}"], "Run `kvasir gateway --config {yaml} --check`.")
C(["@[print|see|show] [the|a] [configuration of the gateway|gateway configuration|gateway config] [in full|with defaults|with all defaults|]", "@see the defaults of the gateway"], "Run `kvasir gateway config --config fleet.yaml`. It prints the configuration in full, with what is set by default.")
C(["@[make|create|generate|get] [an API key|a key|keys] for the gateway", "@[make|create|generate] a gateway key", "[Which|What] command [makes|creates] [an API key|a key|a gateway key]", "@get a new key for the gateway"], "Run `kvasir gateway key create`. It makes an API key, and the hash of it that goes into the configuration.")
C(["[What|which port|on which port] does the gateway listen", "What does [a gateway configuration|the gateway's file|the configuration of a gateway|fleet.yaml] look like", "@write [a|the] [gateway configuration|configuration of a gateway|gateway file]", "What goes into [fleet.yaml|the gateway's configuration]", "@configure the gateway"],
  "A gateway's YAML has `listen: 127.0.0.1:9000` and `models`, a list with `name` and `endpoints`, such as `[http://127.0.0.1:9001]`. docs/gateway.md has all keys.")
C(["[Which|What] engines can [the|a] gateway [use|talk to|forward to|serve]", "Does the gateway work with [vLLM|SGLang|Ollama|llama-server|other engines]", "Can the gateway use [vLLM|SGLang|Ollama|OpenAI|other engines]"],
  "A gateway forwards to all that speak the OpenAI API: kvasir, vLLM, SGLang, llama-server, TGI, TensorRT-LLM, Ollama, or a hosted API.")
C(["@[check|test|see|ask] [if|whether] [the server|my server|a server|kvasir] is [up|well|healthy|alive|running|ready]", "@[check|test] the [health|health of the server|health of a server]", "[Which|What] command checks the health", "Is [the server|my server] [up|healthy|running|well]", "@do a health check", "health check", "@ping the server", "kvasir health"],
  "Run `kvasir health`: its exit status is 0 if the server is well. Over HTTP it is `GET /health`.")
C(["@check the health of {url}", "@[ask|see] [if|whether] {url} is well", "Is {url} [up|healthy|well]"], "Run `kvasir health --url {url}`.")
C(["@[get|install|enable|set up|turn on|use] [shell completion|completion|tab completion|autocompletion|completions]", "@complete kvasir's commands [with tab|in my shell]", "@make tab complete kvasir's commands", "[Which|What] command prints [completions|a completion script]", "[Does kvasir have|is there] [tab completion|shell completion]"],
  "Run `source <(kvasir completion bash)`, or with zsh; for fish write `kvasir completion fish` to ~/.config/fish/completions/kvasir.fish.")
C(["@[get|install|enable|use] [completion|completions|tab completion|shell completion] [for|in] {sh}", "{sh} completion"], "Run `kvasir completion {sh}`: it prints the completion script for {sh}.")
C(["@[see|print|find out|get|check] [the version|my version|which version I have|kvasir's version]", "[Which|What] version [is this|do I have|of kvasir do I have|of kvasir is this]", "[Which|What] command prints the version", "kvasir version", "@see what kvasir was built from", "print the version"],
  "Run `kvasir version`. `--json` prints JSON, and `--sbom` what the program was built from.")
C(["@[get|see|show|find] [help|the help|kvasir's help|all commands|the list of commands]", "[Which|What] commands [are there|does kvasir have|can I use|do you know]", "@list [all |the |kvasir's |][commands|subcommands]", "[What are|tell me|list|show me] [kvasir's commands|the commands|the commands of kvasir|all commands]", "What can kvasir do on the command line", "commands", "kvasir --help", "kvasir help", "[show|list] [all |the |]commands"],
  "The commands are run, serve, batch, gateway, ps, stop, pull, list, show, rm, convert, quantize, perplexity, bench, devices, health, debug, completion and version. `--help` has examples for each.")
C(["@[see|list|find] [the|all] [flags|options][ of a command| of kvasir serve| of kvasir|]", "Where are [the flags|all flags|the options] [described|listed|documented]", "[Which|What] flags does [kvasir serve|kvasir run|kvasir|the server] [have|take|know]", "[list|show] [all |the |]flags", "@get help [for|about] [a command|kvasir serve|flags]", "kvasir serve --help"],
  "`kvasir serve --help` lists the flags of serve with examples; so it is for every command. docs/reference.md lists every flag.")
C(["Where is the documentation", "[Is there|where do I find|where is] [a manual|documentation|more documentation|the manual|a reference]", "Where can I [read|learn|find] more[ about kvasir|]", "@[find|read] the [docs|documentation]", "[Which|What] page [explains|describes] kvasir"],
  "README.md and the folder docs of kvasir's repository: docs/tutorials/first.md begins, and docs/reference.md lists every flag. A server has an API description at /docs.")
C(["@[tokenize|tokenise|see the tokens of|count the tokens of|split] [a text|text|a prompt]", "@count tokens", "[Which|What] command [tokenizes|prints tokens]", "@see how a text is tokenized"],
  "Run `echo -n \"Hello\" | kvasir debug tokenize --model kvasir-mini`. A server has `POST /tokenize`.")
C(["@[detokenize|turn tokens into text|get the text of tokens|decode tokens]", "[Which|What] command [detokenizes|prints the text of tokens]"], "Run `kvasir debug detokenize --model kvasir-mini --ids 52,508,690`. A server has `POST /detokenize`.")
C(["@[see|print|get] [the logits|logits]", "[Which|What] command prints logits"], "Run `kvasir debug logits --model kvasir-mini --ids 1,305,210 --last 1`.")
C(["@[see|list|print] [the tensors|tensors][ of a model| of a file|]", "[Which|What] command lists tensors", "[Which|What] tensors does a model have"], "Run `kvasir debug tensors ./model.gguf`.")
C(["@[render|test|try] a chat template", "@see what a chat template makes of a conversation", "[Which|What] command renders a chat template"], "Run `kvasir debug render -t kvasir-mini` with the template's variables as JSON on standard input.")
C(["[Which|What] [exit codes|exit statuses|exit status] [does kvasir have|are there|does kvasir return]", "What does exit status [1|2|130] mean", "[What is|what are] the exit [status|codes]"], "The exit status is 0 on success, 1 on failure, 2 on wrong usage and 130 on interruption.")
C(["What [debug commands|commands does kvasir debug] [are there|have]", "What [does|is] kvasir debug[ do|]", "kvasir debug"], "`kvasir debug` has logits, tokenize, detokenize, render and tensors: they print what a model computes, tokens, a rendered chat template, and the tensors of a checkpoint.")

# ---------------------------------------------------------------- install, clients, files, documentation
C(["@[install|build|compile|set up] kvasir", "@build kvasir from source", "[install|build] kvasir", "What do I need to [install|build|run] kvasir", "[What are|which are] [the requirements|the prerequisites][ of kvasir|]", "Does kvasir need [Python|CUDA|a C compiler|cgo]", "@compile the program"],
  "With Go 1.26, run `go install ./cmd/kvasir` in the repository, or install a package. kvasir is one binary and needs no Python, no C compiler and no GPU.")
C(["@[run|use|start] kvasir [in|with] Docker", "[Is there|does kvasir have] [a Docker image|a Dockerfile|an image|a container]", "@[build|make] [the|a] [Docker image|container|image]", "@run [kvasir|the server] in a container", "docker"],
  "Run `docker build -f packaging/Dockerfile -t kvasir .` and then `docker run -p 127.0.0.1:8000:8000 kvasir`. With a GPU add `--gpus all`.")
C(["@[run|start|use] kvasir [as a service|with systemd|at boot|as a systemd service]", "[Is there|does kvasir have] a systemd unit", "@[install|use] the [.deb|deb|package|deb package]", "@start [kvasir|the server] at boot", "systemd"],
  "Install the .deb or .rpm and run `sudo systemctl enable --now kvasir.socket`. Options go into KVASIR_OPTS in /etc/kvasir/kvasir.env.")
C(["@[use|run] kvasir with [Prometheus|Grafana|Prometheus and Grafana]", "[Is there|does kvasir have] [a compose file|a dashboard|a Grafana dashboard]", "@get a dashboard"], "Run `docker compose -f packaging/compose/compose.yaml up --build`: kvasir is at port 8000 and Grafana with a dashboard at port 3000.")
C(["@[see|get|read|scrape] [the metrics|metrics|Prometheus metrics]", "Where are [the metrics|metrics]", "Does [kvasir|the server] have [metrics|Prometheus metrics]", "@monitor [kvasir|my kvasir server] [with Prometheus|]", "[which|what] path has the metrics"],
  "`GET /metrics` has them for Prometheus, under vLLM's names: `curl http://127.0.0.1:8000/metrics`.")
C(["@use [the OpenAI client|an OpenAI client|the openai package|OpenAI's client|the Python client|openai in Python] [with kvasir|]", "@[call|use] [kvasir|the server] from Python", "@connect [an OpenAI client|my app|my program|a client] to [kvasir|the server]", "Does kvasir work with [OpenAI clients|the OpenAI client|LangChain|OpenAI's Python package]", "[Can|may] I use the OpenAI [client|SDK|library|package]", "@set the base URL[ of the client|]", "@use kvasir from my [program|app|code]"],
  "Give the OpenAI client `base_url=\"http://127.0.0.1:8000/v1\"` and any `api_key`, if the server asks for none. The name of the model goes into `model`.")
C(["@use [the Anthropic client|an Anthropic client|Anthropic's client|Claude Code|the Anthropic SDK][ with kvasir|]", "Does kvasir [support|speak|have] [the Anthropic API|Anthropic's API|the Messages API]", "@[call|use] the Messages API"],
  "kvasir speaks Anthropic's Messages API at /v1/messages: an Anthropic client works with `base_url=\"http://127.0.0.1:8000\"`.")
C(["@use [an Ollama client|Ollama clients|the Ollama client][ with kvasir|]", "Does kvasir [support|speak|have] [the Ollama API|Ollama's API]", "@replace Ollama[ with kvasir|]", "@[come|move|switch|migrate] from Ollama", "Does kvasir work with Ollama clients"],
  "kvasir speaks Ollama's API at /api: run `kvasir serve --port 11434` and use it as the client's host. `kvasir run`, `pull`, `list`, `show` and `rm` are like Ollama's.")
C(["@[come|move|switch|migrate] from [vLLM|vllm]", "@replace [vLLM|vllm][ with kvasir|]", "[Which|what] is [the equivalent of|like] vllm serve", "Are the flags the same as in vLLM"],
  "`vllm serve` is `kvasir serve`. --host, --port and --api-key are the same; --max-model-len is `--context`, --max-num-seqs `--max-seqs` and --gpu-memory-utilization `--gpu-memory`.")
C(["@[come|move|switch|migrate] from [llama.cpp|llama-server]", "@replace [llama.cpp|llama-server][ with kvasir|]", "[Which|what] is [the equivalent of|like] [llama-server|llama-cli]"],
  "`llama-cli -m model.gguf` is `kvasir run ./model.gguf`, and `llama-server -m model.gguf` is `kvasir serve ./model.gguf`; `-c` is `--context` and `-np` is `--max-seqs`.")
C(["[Which|What] APIs does [kvasir|the server] [have|speak|offer|support]", "[Which|What] [API|APIs] can I use with kvasir", "[Is|are] [the API|kvasir's API] [compatible with OpenAI|OpenAI compatible|OpenAI-compatible]", "Is kvasir [OpenAI compatible|compatible with OpenAI]", "Which API does kvasir offer"],
  "kvasir speaks OpenAI's API (chat completions, completions, responses, embeddings, batches), Anthropic's Messages and Ollama's API.")
C(["[Which|What] [paths|endpoints|routes] does [the server|kvasir|kvasir serve] have", "@[see|list] [the paths|all paths|all endpoints|the endpoints|the routes][ of the server|]", "[Is there|where is] an OpenAPI [description|page]", "Where is the API [documentation|description]", "@see the API's documentation"],
  "`GET /docs` is a page with all paths, and `/openapi.json` the same as OpenAPI. The main ones are /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings, /v1/models, /health and /metrics.")
C(["@[chat|talk] in the browser", "[Is there|does kvasir have] [a web page|a chat page|a page|a web UI|a UI|a web interface|a GUI]", "@[open|use|see] [the page|the chat page|the web page|the web UI|the UI]", "Where is the [page|web page|chat page|web UI]", "@use kvasir in [a browser|the browser|my browser]", "web UI"],
  "Run `kvasir serve` and open http://127.0.0.1:8000 in a browser: it is a page to chat on, with a token view and an engine view.")
C(["[Which|What] path [is for|serves] chat completions", "[What is|what's] the URL of [the chat completions|chat completions]", "@send a [chat |][request|message|completion] with curl", "@use curl [with|to ask] [kvasir|the server]", "@ask the server [a question|with curl]", "@test the API with curl", "[show me|give me] a curl [example|command]", "curl example"],
  "Send `POST /v1/chat/completions`: `curl http://127.0.0.1:8000/v1/chat/completions -d '{\"model\": \"kvasir-mini\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'`")
C(["[Which|What] [model families|families|models|architectures|kinds of models] does kvasir [support|know|run|serve]", "[Which|What] models [work|can kvasir run|can kvasir serve|are supported]", "Does kvasir [support|run|serve|know] [Llama|Qwen|Gemma|Mistral|Mixtral|Phi|DeepSeek|GPT-OSS|GLM|BERT|Granite|Llama 3|Qwen 3]", "Can [kvasir|it] [run|serve|load] [Llama|Qwen|Gemma|Mistral|Mixtral|Phi|DeepSeek|GPT-OSS|GLM|BERT|Granite|Llama 3|Qwen 3|Qwen2.5|gpt-oss|Llama 3.2|Gemma 3|SmolLM]", "Does it [support|run|serve|know|work with] [Llama|Qwen|Gemma|Mistral|Mixtral|Phi|DeepSeek|GPT-OSS|GLM|BERT|Granite|Llama 3|Qwen2.5|Qwen 3|gpt-oss|Llama 3.2|Gemma 3|SmolLM]", "Is [Qwen|Llama|Gemma|Mistral|DeepSeek] supported", "[Which|What] [models|families|architectures] does it [support|run|know]", "supported models"],
  "kvasir runs Llama, Mistral, Qwen, Phi 3, Gemma 2 and 3, OLMo 2, Granite, SmolLM 3, GLM 4, GPT-2 and others, mixtures of experts such as Mixtral, GPT-OSS and DeepSeek V3, and encoders such as BERT.")
C(["[Which|What] [file formats|formats|files|kinds of files|model formats] does kvasir [read|support|load|take|know]", "Does kvasir [read|support|load] [GGUF|safetensors|gguf|safetensors files|GGUF files|PyTorch files]", "Can kvasir [read|load|serve] [GGUF|safetensors|GGUF files]", "[Which|What] [types|quantisations|quantizations|quantised models] does kvasir [support|read]", "supported formats"],
  "kvasir reads safetensors and PyTorch's .bin, also sharded, and GGUF v2 and v3. Types are F32, BF16, F16, Q8_0, Q4_0 to Q6_K, IQ4, MXFP4, and checkpoints of GPTQ, AWQ and FP8.")
C(["[Which|What] [hardware|processors|CPUs|machines|computers] does kvasir [support|run on|work on|need]", "[On which|which] [machines|hardware|computers] does kvasir run", "Does [kvasir|it] [run|work] on [arm64|ARM|a Mac|Windows|macOS|Linux|a Raspberry Pi|my laptop|a laptop|x86|Apple silicon]", "[Can|Will] [kvasir|it] [run|work] on [arm64|ARM|a Mac|my Mac|Windows|macOS|Linux|a Raspberry Pi|my laptop|a laptop|Apple silicon]", "[Which|What] operating systems does kvasir [support|run on]", "[Which|what] instruction sets does kvasir use"],
  "kvasir runs on Linux, macOS and Windows, on x86-64 and arm64: with AVX2, AVX-512 and AMX or NEON where they are there, in portable Go elsewhere, and on NVIDIA GPUs on Linux.")
C(["[Which|What] GPUs does kvasir [support|use|work with|need|run on]", "Does kvasir [support|use|run on|work with] [GPUs|NVIDIA GPUs|a GPU|CUDA|AMD GPUs|an H100|an RTX 4090|AMD]", "[Which|What] [driver|CUDA version|compute capability] does kvasir need", "Do I need [CUDA|the CUDA toolkit|a driver|an NVIDIA driver]", "[Which|What] [GPU|graphics card] [do I need|should I use|works][ for kvasir| with kvasir|]", "[Which|What] GPUs [work|are supported by kvasir|can it use|can I use]", "[What are the|which] requirements for a GPU"],
  "kvasir uses NVIDIA GPUs of compute capability 8.0 or later, on Linux, with driver 580 or later. It needs no CUDA toolkit.")
C(["@name a model[ in kvasir|]", "[What|Which] names can a model have", "What can [<model>|the model argument|MODEL] be", "How do I [write|give|specify] [a model|the name of a model]", "@[give|specify] a GGUF quantisation"],
  "A model is a built-in name such as kvasir-mini, a hub name (`owner/name` or `owner/name:Q8_0`), a file or a folder.")
C(["[What is|which is] the [built-in|default] model", "[Which|What] model [is built in|does kvasir use by default|is the default|answers without a model]", "Does kvasir [come with|contain|include] a model", "How large is the [binary|program]", "How big is [kvasir|the binary|the program|kvasir's binary]"],
  "kvasir-mini, 25 million parameters, is built into the program. The binary has about 100 MB, of which 27 MB are the model.")
C(["@get [structured output|JSON answers|valid JSON|answers as JSON] [from kvasir|from the server|over the API]", "Does [kvasir|the server] support [JSON schemas|structured output|response_format|grammars|guided decoding]", "@[use|send] [a JSON schema|response_format|a grammar]", "@hold answers to a [schema|JSON schema|grammar]"],
  "Send `response_format` with a JSON schema, or `guided_json`, `guided_regex`, `guided_choice` or `guided_grammar` with the request: the answer then matches it.")
C(["@[make|get|compute|create] embeddings[ with kvasir|]", "Does [kvasir|the server] [support|make|have] embeddings", "@embed [a text|texts|documents]", "[Which|What] path is for embeddings", "@rerank documents"],
  "Send `POST /v1/embeddings` with `input`. Encoders such as BERT and decoders both make embeddings; `/v1/rerank` sorts documents.")
C(["@stream [answers|an answer|tokens|the answer]", "Does [kvasir|the server|the API] [support streaming|stream]", "@[get|turn on|enable] streaming[ over the API|]"], "Send `\"stream\": true` with the request: the answer comes as server-sent events, token by token.")
C(["Is kvasir [free|open source|open-source]", "[What|Which] [licence|license] does kvasir have", "[What is|what's] the [licence|license][ of kvasir|]", "Under which licence is kvasir"], "kvasir is under the Apache-2.0 licence.")
C(["[What|Which] [language|programming language] is kvasir [written|programmed] in", "Is kvasir written in [Go|Python|C++|Rust]", "In which language is kvasir written"], "kvasir is written in Go. It uses no cgo, and the kernels for GPUs are CUDA.")
C(["[Which|What] environment variables does kvasir [read|use|have|know]", "@set [options|flags|the port|the host] [by|with|in] [the environment|environment variables]", "What is [KVASIR_PORT|KVASIR_HOST|KVASIR_API_KEY|KVASIR_URL|KVASIR_KEY|KVASIR_ADMIN_KEY]"],
  "kvasir serve reads KVASIR_HOST, KVASIR_PORT, KVASIR_API_KEY and KVASIR_ADMIN_KEY; ps, stop and health read KVASIR_URL. The hub's are HF_HOME, HF_TOKEN and HF_HUB_OFFLINE.")
C(["Does kvasir collect [data|telemetry|my data]", "Is [my data|the conversation] [sent|sent anywhere|sent to the internet]", "Where does [the page|the chat page] keep conversations"], "Nothing is sent anywhere: models run on your machine. The page keeps conversations in the browser, and the server keeps none.")
C(["@[run|start] the tests", "@test kvasir[ itself|]", "@run kvasir's tests"], "Run `go test ./...` in the repository. Tests that need reference data find it through KVASIR_REFERENCE and skip without it.")
C(["@[support|write|implement] a [new model|model family|model architecture][ in kvasir|]", "@add a [model family|model architecture|new family|new architecture][ to kvasir|]", "@contribute[ to kvasir|]"], "docs/add-a-model.md says how: a model takes one short file. CONTRIBUTING.md has the rules of the repository.")
C(["@[get|have|see] the same answer [on every machine|in any batch]", "[Is|are] [the answer|answers|kvasir] deterministic", "Are answers the same in a batch", "@get [repeatable|reproducible] answers over the API"], "Send a `seed`, or temperature 0. A request's logits are equal to the last bit whether it runs alone or in a batch, with a warm cache or after preemption.")
C(["What is [a|the] difference between kvasir [run|chat] and kvasir serve", "[Do I need|should I use] kvasir run or kvasir serve", "kvasir run or kvasir serve", "kvasir run vs kvasir serve"], "`kvasir run` answers a prompt or chats in the terminal. `kvasir serve` is a server for many clients over HTTP.")
C(["What is the difference between kvasir [stop|ps] and kvasir rm", "kvasir stop or kvasir rm", "Does kvasir stop delete the model"], "`kvasir stop` makes a model leave the memory of a server. `kvasir rm` removes its files from the local cache.")
C(["What is the difference between kvasir list and kvasir ps", "kvasir list or kvasir ps"], "`kvasir list` lists the models on disk that can be served without fetching. `kvasir ps` lists those that a server has in memory.")
C(["What is the difference between kvasir convert and kvasir quantize", "kvasir convert or kvasir quantize"], "`kvasir convert` changes the format between safetensors and GGUF. `kvasir quantize` also gives the weights fewer bits.")

# flags of other engines
ALIEN = {"--max-model-len": "--context", "--max-num-seqs": "--max-seqs", "--max-num-batched-tokens": "--token-budget", "--gpu-memory-utilization": "--gpu-memory", "--kv-cache-dtype": "--kv-type", "--block-size": "--block-tokens", "--no-enable-prefix-caching": "--no-prefix-cache", "--kv-events-config": "--kv-events", "--lora-modules": "--adapter", "--tool-call-parser": "--tool-format", "--reasoning-parser": "--reasoning-format", "--scheduling-policy": "--policy",
         "--ctx-size": "--context", "--n-gpu-layers": "--device", "--cache-type-k": "--kv-type", "--lora": "--adapter", "--dtype": "--precision", "--ssl-certfile": "--tls-cert", "--ssl-keyfile": "--tls-key", "--lora-scaled": "--adapter", "--speculative-config": "--drafts", "--model-draft": "--draft-model", "--draft-max": "--draft-tokens", "--ssl-ca-certs": "--tls-client-ca"}
ALIEN = {k: v for k, v in ALIEN.items() if k[2:] not in FLAGS and v[2:] in FLAGS}

ZH = [("[怎么|如何|怎样]启动[服务器|服务|kvasir 服务器|kvasir]?", "运行 `kvasir serve`。API 在 http://127.0.0.1:8000/v1,聊天页面在 http://127.0.0.1:8000。"), ("[怎么|如何|怎样]在端口 {port} 上启动[服务器|服务|kvasir]?", "运行 `kvasir serve --port {port}`。API 在 http://127.0.0.1:{port}/v1。"), ("[怎么|如何|怎样][修改|改变|设置]端口?", "使用 `--port`:`kvasir serve --port 9000`。默认端口是 8000。"), ("默认端口是[多少|什么]?", "服务器默认监听 127.0.0.1 的 8000 端口。"),
      ("[怎么|如何|怎样]下载[模型|一个模型]?", "运行 `kvasir pull owner/name`,例如 `kvasir pull Qwen/Qwen3-0.6B`。"), ("[怎么|如何|怎样]下载 {hub}?", "运行 `kvasir pull {hub}`。"), ("[怎么|如何|怎样]列出[模型|本地模型|所有模型]?", "运行 `kvasir list`。"), ("[怎么|如何|怎样][删除|移除][模型|一个模型]?", "运行 `kvasir rm owner/name`。"), ("[怎么|如何|怎样]在终端[里|中]聊天?", "运行 `kvasir run`。输入 `/help` 查看命令,输入 `/bye` 退出。"),
      ("[怎么|如何|怎样]设置 API 密钥?", "使用 `--api-key`:`kvasir serve --api-key secret`。"), ("[怎么|如何|怎样]使用 GPU?", "能用的 GPU 会自动使用。`kvasir serve --device cuda` 强制使用 GPU,`kvasir devices` 列出设备。"), ("[怎么|如何|怎样]量化[模型|一个模型]?", "运行 `kvasir quantize ./model model-q4_k_m.gguf --type q4_k_m`。"), ("[怎么|如何|怎样]转换[模型|模型格式]?", "运行 `kvasir convert ./model model.gguf`。"), ("[怎么|如何|怎样]停止服务器?", "按 Ctrl-C 或发送 SIGTERM。进行中的回答会先完成。"), ("kvasir 有哪些命令?", "命令有 run、serve、batch、gateway、ps、stop、pull、list、show、rm、convert、quantize、perplexity、bench、devices、health、debug、completion 和 version。"),
      ("[怎么|如何|怎样]启动网关?", "运行 `kvasir gateway --config fleet.yaml`。"), ("[怎么|如何|怎样]运行 {m}?", "运行 `kvasir run {m}`。"), ("[怎么|如何|怎样]查看版本?", "运行 `kvasir version`。"),
      ("[怎么|如何|怎样][开始使用|使用] kvasir?", "先运行 `kvasir run`,再运行 `kvasir serve` 并打开 http://127.0.0.1:8000。"), ("[需要|必须有|一定要有] GPU 吗?", "不需要:kvasir 也能在 CPU 上运行。能用的 NVIDIA GPU 会自动使用。"), ("[怎么|如何|怎样]在 Docker [中|里]运行[kvasir|]?", "先运行 `docker build -f packaging/Dockerfile -t kvasir .`,再运行 `docker run -p 127.0.0.1:8000:8000 kvasir`。"), ("[怎么|如何|怎样][开启|使用]推测解码?", "使用 `--drafts lookup`,或者用 `--draft-model` 指定一个小模型。"), ("[怎么|如何|怎样]发送[追踪|追踪数据|链路追踪]?", "使用 `--otlp-traces-endpoint`:`kvasir serve --otlp-traces-endpoint http://localhost:4318`。")]

TAIL = [""] * 16 + [" in kvasir", " with kvasir", " please", ", please"]
_FRONT = [""] * 24 + ["Hi, ", "Hello! ", "Hey, ", "Quick question: ", "Please: ", "One question: ", "So, ", "I have a question. ", "Excuse me, ", "ok, ", "Hi! ", "Thanks! "]


def _listed():
    return [json.loads(l)["question"] for l in open(os.path.join(HERE, "../../../engine/text/testdata/questions.jsonl"))]


_plain = lambda q: norm(re.sub(r"\d+", "9", q))
LISTED = {norm(q) for q in _listed()}            # questions that are for tests alone: never trained
LISTED_CMD = {_plain(q) for q in _listed() if re.search("[a-z]{4}", q)}


def listed(q):
    return norm(q) in LISTED or _plain(q) in LISTED_CMD


def fill(r, s, vals):
    def f(m):
        k = m.group(1)
        if k not in SLOTS:
            return m.group(0)
        if k not in vals:
            vals[k] = SLOTS[k](r)
        return vals[k]
    return re.sub(r"\{(\w+)\}", f, s)


def _style(r, q, ask, ev):
    """Capitals and punctuation as people type. Slots are filled later, so that their case stays."""
    u = r.random()
    lo = lambda s: s[:1].lower() + s[1:]
    q = cap(q) if u < .6 else lo(q) if u < .8 else "".join(p if p.startswith("{") else p.lower() for p in re.split(r"(\{\w+\})", q))
    if ask is None:
        w = re.sub(r"^\W+", "", q).split()[:1]
        ask = bool(w) and w[0].lower() in "how what what's which is should when where can do does who are will did could why whats may on in".split()
    v = r.random()
    if q[-1] in "?.!":
        return q
    return q + ("?" if ask and v < .62 else "." if not ask and v < .3 else "" if v < .97 else "?")


def typo(r, q):
    """Swaps two letters of a plain word."""
    ws = [m for m in re.finditer(r"(?<![\w/{-])[a-z]{5,}(?![\w/}-])", q)]
    if not ws:
        return q
    m = r.choice(ws)
    i = m.start() + r.randrange(1, len(m.group()) - 2)
    return q[:i] + q[i + 1] + q[i] + q[i + 2:]


WEIGHTS = None


def cmd(r, ev=False):
    """How-to questions about commands, and questions of the documentation: the wording is split by a hash of the
    question before its slots are filled."""
    for _ in range(400):
        e = r.choice(ENTRIES)
        qs, a, th = e
        w, q, ask = r.choices(qs, [x[0] for x in qs])[0]
        q = spin(r, q)
        if heldout("k" + q, 10) == ev:
            break
    if r.random() < .08:
        q += r.choice(TAIL)
    if r.random() < .16 and not ev:
        q = r.choice(_FRONT) + q
    q = _style(r, q, ask, ev)
    if not ev and r.random() < .04:
        q = typo(r, q)
    vals = {}
    return fill(r, q, vals), fill(r, a, vals)


# ---------------------------------------------------------------- several settings at once
PARTS = [(["on port {port}", "at port {port}", "with port {port}", "using port {port}"], "--port {port}"), (["on host {host}", "on the address {host}", "listening on {host}"], "--host {host}"), (["with the API key {key}", "with API key {key}", "and the API key {key}", "using the API key {key}"], "--api-key {key}"), (["with at most {n} sequences", "with {n} sequences at once", "and a batch size of {n}", "with up to {n} sequences"], "--max-seqs {n}"),
         (["with a context of {ctx} tokens", "with a context of {ctx}", "with a {ctx} token context"], "--context {ctx}"), (["on the CPU", "on the processor"], "--device cpu"), (["on the GPU", "on CUDA"], "--device cuda"), (["with a {kvt} KV cache", "with KV type {kvt}"], "--kv-type {kvt}"), (["with {th} threads", "using {th} threads"], "--threads {th}"), (["under the name {name}", "as {name}", "with the name {name}"], "--served-model-name {name}"), (["with {size} of KV cache", "with {size} for the KV cache"], "--kv-bytes {size}"),
         (["with the policy {pol}", "with {pol} scheduling"], "--policy {pol}"), (["with the profile {prof}", "with the {prof} profile"], "--profile {prof}"), (["without the prefix cache", "without prefix caching"], "--no-prefix-cache"), (["on all addresses", "on all interfaces"], "--host 0.0.0.0"), (["with the admin key {key}"], "--admin-key {key}"), (["with debug logs"], "--log-level debug")]


def combo(r, ev=False):
    for _ in range(200):
        u = r.random()
        k = r.choice([1, 2, 2, 2, 3])
        ps, seen = [], set()
        for p in r.sample(PARTS, len(PARTS)):
            fl = p[1].split()[0]
            sl = p[1].split("{")[-1]
            if fl in seen or "{" in p[1] and sl in seen:
                continue
            seen |= {fl, sl}
            ps.append(p)
            if len(ps) == k:
                break
        texts = [r.choice(p[0]) for p in ps]
        texts = [t[4:] if t.startswith("and ") and i == 0 else t for i, t in enumerate(texts)]
        if len(texts) > 1 and r.random() < .5 and not texts[-1].startswith("and "):
            texts[-1] = "and " + texts[-1]
        model = u < .55
        vp = spin(r, _v(r.choice(["serve {m}", "$START $SRV with {m}", "serve the model {m}", "$START {m}"]) if model else r.choice(["$START $SRV", "serve", "$START $SRV"])))
        q = vp + " " + " ".join(texts)
        ask = r.random() < .65
        q = spin(r, _BEG if ask else _SAY) + " " + q if r.random() < .85 else q
        if heldout("k" + q, 10) == ev:
            break
    q = _style(r, q, ask, ev)
    vals = {}
    a = "Run `kvasir serve" + (" {m}" if model else "") + "".join(" " + p[1] for p in ps) + "`."
    return fill(r, q, vals), fill(r, a, vals)


# ---------------------------------------------------------------- flags and commands by name
FLAG_Q = ["What does {f} do", "What does {f} do", "What does the flag {f} do", "What does the option {f} do", "What is {f}", "What is {f} for", "What is the flag {f} for", "what's {f}", "Explain {f}", "explain the flag {f}", "{f}", "{f}?", "What does {f} mean", "What does {f} set", "Tell me about {f}", "When do I need {f}", "How do I use {f}", "Describe {f}", "What is the option {f}", "What happens with {f}", "meaning of {f}", "help for {f}", "what is the default of {f}", "What is the default value of {f}", "Which values can {f} have", "What value does {f} take", "Do you know {f}", "Why would I use {f}", "What is the use of {f}", "what does {f} control", "kvasir {f}", "I do not understand {f}", "Can you explain {f}", "Could you explain the flag {f}", "What should I know about {f}", "How does {f} work", "Is there a flag {f}", "Does kvasir have {f}", "What effect does {f} have", "Is {f} a flag of kvasir"]
FLAG_CQ = ["What does {f} do in {c}", "What does {c} {f} do", "{c} {f}", "{c} {f}?", "What is {f} of {c}", "Explain {f} of {c}", "What is {f} for in {c}", "What does the flag {f} of {c} do", "explain {c} {f}", "What does {f} mean for {c}"]
CMD_Q = ["What does {c} do", "What does {c} do", "What is {c}", "What is {c} for", "Explain {c}", "explain {c}", "{c}", "{c}?", "How does {c} work", "Tell me about {c}", "What does the command {c} do", "Describe {c}", "When do I use {c}", "what's {c}", "What is the command {c} for", "Why do I need {c}", "Why would I use {c}", "Can you explain {c}", "Could you describe {c}", "What happens when I run {c}", "What is the use of {c}", "help with {c}", "What can {c} do", "Does {c} exist", "Is there a command {c}", "I want to understand {c}"]
CMD_EX = ["How do I use {c}", "Give me an example of {c}", "Show me an example of {c}", "example of {c}", "Show an example for {c}", "How is {c} used", "How do I run {c}", "How do I call {c}", "What is the usage of {c}", "usage of {c}", "syntax of {c}", "What is the syntax of {c}", "examples for {c}", "What arguments does {c} take", "How can I use {c}", "Show me how to use {c}", "How to use {c}", "I want to use {c}", "how do you use {c}"]
OWN_CMD = ["kvasir bench", "kvasir debug", "kvasir gateway", "kvasir gateway key"]
_CN = [c for c in CMDS]
_FN = list(FLAGS)
_busy = None


def _taken():
    """Questions that entries above already answer in their own words."""
    global _busy
    if _busy is None:
        _busy = {norm(q) for qs, _, _ in ENTRIES for _, q, _ in qs if "[" not in q}
    return _busy


def flag(r, ev=False):
    for _ in range(400):
        f = r.choice(_FN)
        if r.random() < .22 and len(FLAGS[f]) > 0:
            c = r.choice(FLAGS[f])[0]
            q, a = r.choice(FLAG_CQ), flag_answer(f, c)
        else:
            c, q, a = "", r.choice(FLAG_Q), flag_answer(f)
        if heldout("f" + q + f + c, 12) == ev:
            break
    bare = r.random() < .12 and "{f}" in q and ("flag" in q or "option" in q)
    q = _style(r, q, None, ev).replace("{f}", f if bare else "--" + f).replace("{F}", "--" + f).replace("{c}", c).replace("{C}", c)
    return q, a


def cmdwhat(r, ev=False):
    for _ in range(400):
        c = r.choice(_CN)
        d = CMDS[c]
        if r.random() < .6:
            q, a = r.choice(CMD_Q), f"`{c}`: {d['about']}" + (f" For example: `{d['examples'][0]}`" if d["examples"] else "")
        else:
            q, a = r.choice(CMD_EX), f"For example: `{d['examples'][0]}`" + (f" or `{d['examples'][1]}`" if len(d["examples"]) > 1 and len(d["examples"][1]) < 90 else "") + f" `{c} --help` lists the flags."
        if heldout("w" + q + c, 10) == ev and norm(q.replace("{c}", c)) not in _taken():
            break
    return _style(r, q, None, ev).replace("{c}", c), a


def alien(r, ev=False):
    for _ in range(200):
        f = r.choice(list(ALIEN))
        q = r.choice(["What is {f} in kvasir", "Does kvasir have {f}", "What does {f} do", "What is {f}", "{f}", "What is kvasir's flag for {f}", "Which flag is like {f}", "Is there {f} in kvasir", "How do I set {f}", "What replaces {f}", "Explain {f}", "I used {f} in vLLM, what is it here", "what is the equivalent of {f}", "I need {f}"])
        if heldout("a" + q + f, 10) == ev:
            break
    return _style(r, q, None, ev).replace("{f}", f), f"kvasir has no flag `{f}`: it is a flag of another engine. Use `{ALIEN[f]}`."


FAKE_F = ["tensor-parallel-size", "pipeline-parallel-size", "trust-remote-code", "swap-space", "enforce-eager", "quantization", "load-format", "download-dir", "tokenizer-mode", "revision", "mlock", "no-mmap", "flash-attn", "rope-scaling", "parallel", "cont-batching", "numa", "split-mode", "main-gpu", "ngl", "batch-size", "ubatch-size", "cpu-offload-gb", "hf-token", "otlp-headers", "worker-use-ray", "data-parallel-size", "debug", "color", "language", "theme", "password", "user", "username", "output", "input", "dry-run", "fast", "slow", "turbo", "magic", "proxy", "cluster", "nodes", "workers", "memory", "gpu", "cpu", "cuda", "quiet-mode", "format", "log", "logs", "daemon", "background", "restart", "update", "upgrade", "config-file", "no-cache", "cache-size", "max-length", "max-new-tokens", "beam", "stream"]
FAKE_C = "fly train finetune fine-tune update upgrade install login logout create push cp copy start restart status logs deploy delete remove download search build test eval train-lora merge split monitor top scale info init config export import sync doctor clean reset shell web ui open info login dance sing explode repair tune upload publish connect watch profile".split()


def _fakename(r):
    u = r.random()
    if u < .35:
        return fake_word(r)
    if u < .6:
        return r.choice(WORDS + THINGS + FOODS + COLORS)
    if u < .75:
        return r.choice(WORDS + THINGS) + "-" + r.choice(WORDS + ["size", "mode", "level", "count", "time", "limit", "path", "file", "key"])
    if u < .85:
        return fake_word(r) + "-" + r.choice(["size", "mode", "level", "count", "time", "limit", "path", "file", "key"])
    return r.choice(["max", "min", "no", "enable", "disable", "num", "use", "with"]) + "-" + r.choice(WORDS + FAKE_C)


def unflag(r, ev=False):
    """Flags and commands that do not exist."""
    for _ in range(400):
        if r.random() < .6:
            f = r.choice(FAKE_F) if r.random() < .4 else _fakename(r)
            if f in FLAGS or "--" + f in ALIEN:
                continue
            q, x = r.choice(FLAG_Q + ["What does kvasir serve --{f} do".replace("--{f}", "{f}"), "kvasir serve {f}", "kvasir run {f}"]), "--" + f
            a = f"I do not know a flag `--{f}`. `kvasir --help` and docs/reference.md list the commands and flags that there are."
        else:
            f = r.choice(FAKE_C) if r.random() < .5 else _fakename(r)
            if "kvasir " + f in CMDS or f in ("bench", "debug", "gateway", "help", "chat", "server", "reference"):
                continue
            x = "kvasir " + f
            q = r.choice(CMD_Q + CMD_EX[:9]).replace("{c}", "{f}")
            a = f"I do not know a command `kvasir {f}`. `kvasir --help` lists the commands that there are."
        if heldout("u" + q + f, 12) == ev:
            break
    return _style(r, q, None, ev).replace("{f}", x), a


def zhcmd(r, ev=False):
    for _ in range(50):
        q, a = r.choice(ZH)
        q = spin(r, q)
        if r.random() < .3:
            q = q.rstrip("?")
        if heldout("z" + q, 8) == ev:
            break
    vals = {}
    return fill(r, q, vals), fill(r, a, vals)


# ---------------------------------------------------------------- arithmetic
FAR = "I do not know that: it is outside the arithmetic that I can do. I add and subtract numbers up to 999, and multiply and divide small ones."


def _mulq(r, a, b):
    return r.choice(tasks.MUL_Q + ["{a} × {b}", "What is {a} × {b}?", "{a}x{b}", "{a} x {b} = ?", "{a}*{b}=", "{a} times {b}?", "what's {a} times {b}?", "Tell me {a} times {b}.", "what is {a} x {b}", "{a}×{b}", "Can you multiply {a} by {b}?", "How much is {a} x {b}?", "What is {a} multiplied by {b}?", "{a} times {b} is?", "what does {a} * {b} equal", "Work out {a} x {b}"]).format(a=a, b=b)


def _divq(r, a, b):
    return r.choice(tasks.DIV_Q + ["{a} ÷ {b}", "What is {a} ÷ {b}?", "{a}/{b}=", "{a} / {b} = ?", "{a} : {b}", "How many times does {b} go into {a}?", "what is {a}/{b}", "Can you divide {a} by {b}?", "How much is {a} divided by {b}?", "{a} by {b} divided"]).format(a=a, b=b)


def tables(r, ev=False):
    """(question, answer, steps): the tables up to 20 times 20 and their divisions, three terms, remainders."""
    for _ in range(400):
        u = r.random()
        if u < .36:
            m = r.choice([12, 12, 20])
            a, b = r.randint(0, m), r.randint(0, m)
            if r.random() < .2:
                a, b = r.sample([r.randint(11, 99), r.randint(2, 10)], 2)
            q, ans = _mulq(r, a, b), f"{a} * {b} = {a * b}"
            st = [f"{a} * {b}", f"{a} times {b} is {a * b}"]
        elif u < .62:
            m = r.choice([12, 12, 20])
            b, c = r.randint(1, m), r.randint(0, m)
            if r.random() < .25:
                b, c = r.randint(2, 10), r.randint(10, 99)
            q, ans = _divq(r, b * c, b), f"{b * c} / {b} = {c}"
            st = [f"{b * c} / {b}", f"{b} * {c} = {b * c}"]
        elif u < .70:
            b = r.randint(2, 12)
            a = r.randint(1, 12 * b - 1)
            if a % b == 0:
                continue
            q, ans = _divq(r, a, b), f"{a} / {b} = {a // b}, remainder {a % b}"
            st = [f"{a} / {b}", f"{b} * {a // b} = {a // b * b}", f"{a} - {a // b * b} = {a % b}"]
        elif u < .76:
            n = r.randint(1, 20)
            q, ans = r.choice(["What is {n} squared?", "{n} squared", "what is the square of {n}", "{n}^2", "Square {n}.", "What is {n}^2?"]).format(n=n), f"{n} * {n} = {n * n}"
            st = [f"{n} * {n}", f"{n} times {n} is {n * n}"]
        elif u < .82:
            n = r.randint(0, 250) * 2
            w, v, o = r.choice([("double", n, "*"), ("twice", n, "*"), ("half", n, "/"), ("half of", n, "/")])
            q = r.choice({"double": ["What is double {v}?", "double {v}", "Double {v}."], "twice": ["What is twice {v}?", "twice {v}"], "half": ["What is half of {v}?", "half of {v}"], "half of": ["Halve {v}.", "What is the half of {v}?"]}[w]).format(v=v)
            ans = f"2 * {v} = {2 * v}" if o == "*" else f"{v} / 2 = {v // 2}"
            st = [ans]
        else:
            m = r.choice([9, 20, 99, 300, 500, 999])
            a, b, c = r.randint(1, m), r.randint(1, max(2, m // 2)), r.randint(1, max(2, m // 2))
            if r.random() < .4:
                a, b, c = a // 10 * 10 or 10, b // 10 * 10 or 10, c // 10 * 10 or 10
            o1, o2 = r.choice(["--", "--", "-+", "+-", "++"])
            x = a + b if o1 == "+" else a - b
            y = x + c if o2 == "+" else x - c
            if x < 0 or y < 0 or x > 1998:
                continue
            e = r.choice(["{a} %s {b} %s {c}", "{a} %s {b} %s {c}", "{a}%s{b}%s{c}"]) % (o1, o2)
            q = r.choice(["What is {e}?", "{e}", "{e}", "{e} = ?", "{e}=", "Calculate {e}.", "calculate {e}", "Compute {e}", "what is {e}", "How much is {e}?", "what's {e}", "Solve {e}"]).replace("{e}", e).format(a=a, b=b, c=c)
            if r.random() < .1:
                q = "What is {a} {x} {b} {y} {c}?".format(a=a, b=b, c=c, x="plus" if o1 == "+" else "minus", y="plus" if o2 == "+" else "minus")
            ans = f"{a} {o1} {b} {o2} {c} = {x} {o2} {c} = {y}"
            st = [f"{a} {o1} {b} = {x}", f"{x} {o2} {c} = {y}", f"result: {y}"]
        if heldout("t" + q, 20) == ev:
            break
    if not ev and r.random() < .2:
        q = r.choice([q.lower(), q.rstrip("?."), "Hi, " + q.lower(), q + " please" if q[-1].isdigit() else q])
    return q, ans + ".", "\n".join(st)


def far(r, ev=False):
    """Arithmetic outside the range: declined."""
    big = lambda: r.randint(1000, r.choice([9999, 99999, 999999, 9999999]))
    for _ in range(200):
        u = r.random()
        a, b = big(), r.choice([big(), r.randint(2, 999)])
        if u < .35:
            if r.random() < .5:
                a, b = b, a
            q = r.choice(tasks.ADD_Q if r.random() < .5 else tasks.SUB_Q).format(a=a, b=b)
        elif u < .65:
            a, b = r.choice([(r.randint(21, 99), r.randint(21, 99)), (r.randint(21, 99), r.randint(11, 99)), (r.randint(11, 99), r.randint(21, 99)), (r.randint(100, 999), r.randint(11, 999)), (r.randint(100, 999), r.randint(2, 9)), (a, b), (r.randint(11, 999), r.randint(100, 999))])
            q = _mulq(r, a, b)
        elif u < .78:
            a, b = r.randint(1000, 99999), r.randint(13, 999)
            if r.random() < .4:
                b = r.randint(3, 99)
                a = r.randint(12 * b + 1, 999 + 12 * b)
                if a % b == 0:
                    continue
            q = _divq(r, a, b)
        else:
            x, y = f"{r.randint(0, 99)}.{r.randint(1, 99)}", f"{r.randint(0, 99)}.{r.randint(1, 99)}"
            q = r.choice(["What is {x} + {y}?", "{x} * {y}", "{x} - {y}", "What is {x} times {y}?", "What is 1/{n} + 1/{m}?", "What is {n}% of {k}?", "{n} percent of {k}", "What is {n} to the power of {m}?", "{n}^{m}", "What is the cube root of {k}?", "What is the factorial of {n}?", "{n}!", "log of {k}", "What is the logarithm of {k}?", "sin({k})", "What is the sine of {k}?", "What is the cosine of {k}?", "{x} / {y}", "integral of x^{n}", "Solve {n}x + {m} = {k}"]).format(x=x, y=y, n=r.randint(3, 30), m=r.randint(3, 9), k=r.randint(21, 9999))
        if heldout("r" + q, 15) == ev:
            break
    return q, FAR


# ---------------------------------------------------------------- more questions to decline
EXTRA_P = ["Draw {x}", "Draw {an}", "{vb} {an}", "Paint {an}", "Write a poem about {x}", "Write a poem about {c}", "How do I get to {c}", "How do I travel to {c}", "Plan a holiday in {c}", "Can you {vb} {x}", "Please {vb} {x}", "{vb} {x} for me", "I want you to {vb} {x}", "Where is {c}", "How far is {c} from {c2}", "Who is the richest person", "Who is the fastest runner", "What is the tallest building", "What is the longest river", "What is the deepest lake", "How deep is the ocean", "How far is the moon", "How old is the universe", "How heavy is an elephant", "How fast is light", "What is the speed of {x}", "What is the boiling point of {x}", "What is the chemical symbol of {x}", "Who painted the Mona Lisa", "Who discovered America", "When did world war {k} end", "Who wrote {F}", "Who directed {F}", "What is the plot of {F}", "Who sang {F}", "Which year was {F} released", "What is the stock price of {F}", "Who is the CEO of {F}", "Where is the headquarters of {F}", "What does the company {F} do", "How do I invest in {F}", "How do I install {F}", "How do I update {F}", "How do I uninstall {F}", "How do I use {F}", "What is the latest version of {F}", "Is {F} better than {G}", "What is the password of {n}", "What is the phone number of {n}", "What is the email of {n}", "Tell me a riddle about {x}", "What rhymes with {w}", "Give me a synonym of {w}", "What is the meaning of the word {w}", "Use {w} in a sentence", "Is {w} a noun", "What is the past tense of {w}", "How do I conjugate {w}", "Why do {xs} exist", "How are {xs} made", "Where do {xs} come from", "Are {xs} dangerous", "How do I take care of {an}", "What do {xs} eat", "Can {xs} swim", "Do {xs} sleep", "What sound does {an} make", "How many {xs} fit in a car", "What is the weight of {an}", "Is it safe to eat {x}", "How long do I cook {x}", "What goes well with {x}", "How do I fix a broken {x}", "What is wrong with my {x}", "My {x} does not work", "How do I reset my {x}", "What should I name my {x}", "What is a good name for {an}", "Plan a trip to {c}", "Write a haiku about {x}", "Write a song about {c}", "Write an email to {n}", "Write a letter to {n} about {x}", "Write a resume for {an}", "Explain {x} to a child", "Explain the theory of {x}", "What are the causes of {x}", "What are the symptoms of {x}", "What is the cure for {x}", "How do I treat {x}", "Who founded {c}", "What is {c} famous for", "What currency is used in {c}", "What is the population of {c}", "What is the best restaurant in {c}", "Show me a map of {c}", "Convert {k} miles to kilometers", "Convert {k} dollars to euros", "How many ounces are in {k} pounds", "What is {k} in binary", "What is {k} in hexadecimal", "What is {k} in Roman numerals", "What is the next prime after {k}", "Is {k} a prime number", "What are the factors of {k}", "Tell me about the year {yr}", "Who ruled {c} in {yr}", "What was invented in {yr}", "Predict the future", "What will happen in {yr}", "Will {F} win", "Who do you think will win", "What did you eat today", "What is your favourite {x}", "What is the name of my {x}", "Where did I put my {x}", "How do I spell the sound of {an}", "Which {x} is the oldest", "Tell me the rules of {x}", "How do I win at {x}", "Who is the world champion in {x}", "How many players are in a {x} team", "What is the record in {x}", "How do I train for {x}"]
EXTRA_V = "draw paint sing cook bake clean fix repair find buy sell order book play record film call photograph describe design build explain translate".split()


def ood2(r, ev=False):
    for _ in range(500):
        p, x = r.choice(EXTRA_P), r.choice(more.OOD_N)
        if (heldout("p" + p, 12) or "{x" in p and heldout("n" + x, 12)) != ev:
            continue
        f, g = (fake_word(r) if r.random() < .5 else r.choice(WORDS)), fake_word(r)
        q = p.format(vb=r.choice(EXTRA_V), x=x, xs=plural(x), an=an(x), c=rand_city(r), c2=rand_city(r), k=r.randint(21, 999), F=cap(f), G=cap(g), n=rand_full(r), w=r.choice(WORDS), yr=r.randint(1000, 2030))
        if norm(q) in more.known():
            continue
        return more._norm_q(r, q), tasks.UNK_A
    return "Who is the king of " + rand_city(r) + "?", tasks.UNK_A


# ---------------------------------------------------------------- what was still weak after the fourth version
def _answer(prefix):
    """The answer of the one entry whose answer begins so: a wording more never brings a second answer."""
    found = [a for _, a, _ in ENTRIES if a.startswith(prefix)]
    assert len(found) == 1, (prefix, found)
    return found[0]


_RUNNING = "[running|current|open|unfinished|active|started|pending|ongoing|] [answers|requests|replies|responses|generations|streams]"
_HALT = "[I press Ctrl-C|I hit Ctrl-C|Ctrl-C is pressed|I stop the server|I stop it|I send SIGTERM|SIGTERM comes|I shut it down|I shut the server down|the server stops|the server is stopped|I end kvasir|I interrupt the server|I restart the server]"
_STARTED = "[when I start it|after I start it|once I start it|if I just start it|when it starts|when it is started|after the start|when I run kvasir serve|when I start kvasir|when I launch it|when I start the server|if I give no port|if I say nothing|without --port|without a flag|by default|unless I say otherwise|normally|out of the box]"
_CARD = "[the graphics card|a graphics card|the video card|the GPU|my GPU|the card|my graphics card|the accelerator|one GPU|CUDA]"
_DIES = "[dies|fails|breaks|crashes|is lost|disappears|stops working|goes away|has an error|hangs up|is gone|burns out|falls out]"
_TWO = "[two|both|both of the|both my|all|all my|all of my|several|three|four|my two|my four|2|4|multiple|many] [GPUs|graphics cards|cards|video cards]"
_NONEED = "[I don't need|I do not need|I no longer use|I don't use any more|I don't want any more|nobody uses|nobody needs|is not needed any more|that I do not want|I am done with|I do not use]"
_CURL = "Send `\"stream\": true`: `curl -N http://127.0.0.1:8000/v1/chat/completions -d '{\"model\": \"kvasir-mini\", \"stream\": true, \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'`"

WEAK = [(3, ["[Which|What] port [does it take|does it use|will it use|is used|is it at|does it open|does it come up on|do I find it on|will it be on|does it have|is taken|will it listen on|do I connect to|do I get|does it sit on|is open|is it reachable on] " + _STARTED, "[Which|What] port is [it|kvasir|the server] on " + _STARTED, "[On|At|Under] [which|what] port [is it|is the server|does it listen|will it be|do I reach it|can I reach it|do I find it|does it run|is kvasir] " + _STARTED, "I start [it|the server|kvasir], [which|what] port [is it on|does it have|does it use]", "[Which|What] port [is it on|does it use][ now|]", "The port " + _STARTED, "[And|So|] [which|what] port is that", "Where [is it|do I reach it|do I find it|is the server] " + _STARTED, "[Is it|Does it listen|Does it run|Is the server] on port [8000|8080] " + _STARTED], _answer("The server listens on 127.0.0.1, port 8000.")),
        (4, ["@[start|run|launch|use|open|bring up] [the gateway|a gateway|kvasir gateway|my gateway] [with|using|from|on] [the file |the config |the configuration |the config file |]{gw}", "[start|run|launch|bring up] [the|a|my] gateway [with|using|from] {gw}[ please|]", "[run|use|take] {gw} [for|with|as the configuration of] the gateway", "gateway [with|from|using] {gw}", "kvasir gateway {gw}", "[My|The] [gateway's |]configuration is [in|called] {gw}, how do I start the gateway", "The gateway should [use|read|take] {gw}", "@[load|give] {gw} [into|to] the gateway", "[Let|Make] the gateway [use|read] {gw}"], "Run `kvasir gateway --config {gw}`."),
        (1, ["@[check|test|validate|verify] {gw}[ for the gateway|]", "[check|test|validate] [the gateway configuration|the gateway file|the file|] {gw}[ for mistakes|]", "Is {gw} [a valid gateway configuration|right for the gateway]", "@check the gateway [configuration|file] {gw}"], "Run `kvasir gateway --config {gw} --check`."),
        (1, ["@convert {d1} [to|into] {g1}", "convert {d1} [to|into] {g1}[ please|]", "@[make|write|get] {g1} [from|out of] {d1}", "@turn {d1} into {g1}"], "Run `kvasir convert {d1} {g1}`."),
        (3, ["[How long|For how long|How much time|How many seconds] [do|can|may|will] " + _RUNNING + " [get|have|take|last|go on|continue|run|still run|still have] [when|after|once|if] " + _HALT, "[What happens|What becomes] [to|of|with] " + _RUNNING + " [when|after|once|if] " + _HALT, "[How long|How many seconds] [does it|does the server|will it|will kvasir] [wait|go on|take|need] [for answers |]" + "[when|after|once|if] " + _HALT, "[Do|Can|May|Will] " + _RUNNING + " [finish|end|come to their end|go on|be completed] [when|after|if] " + _HALT, "[How long|How much time] do clients [have|get] [when|after] " + _HALT, "@give " + _RUNNING + " more time [when|after|once] " + _HALT], _answer("Use `--drain-timeout`")),
        (3, ["[What does|What will] [kvasir|the server|it] do [when|if|after|once] " + _CARD + " " + _DIES, "[What happens|What happens to the server|What happens to kvasir] [when|if|after] " + _CARD + " " + _DIES, "How does [kvasir|the server|it] [react|behave|recover|respond] [when|if] " + _CARD + " " + _DIES, "[Does|Will] [kvasir|the server|it] [go on|restart|survive|stop|end|crash|come back|recover] [when|if] " + _CARD + " " + _DIES, "[when|if] " + _CARD + " " + _DIES + ", what [happens|then|does kvasir do|does the server do]", "[my|the] [graphics card|GPU|card] [died|failed|broke|is dead|crashed]", "@[handle|survive|deal with] [a dead|a broken|a failing|a lost|a crashed] [graphics card|GPU|card]"], _answer("Use `--on-device-loss`")),
        (3, ["[Can|Does|Will|Could] [kvasir|it|the server|one server|kvasir serve] [use|run on|work with|take|employ|make use of|compute on|spread a model over|split a model over|share the work between] " + _TWO, "@[use|run on|serve on|work with|employ|make use of] " + _TWO, "I have " + _TWO + ", [can kvasir use them|does kvasir use them|what do I do|how do I use them|are they used]", "[Are|Will] " + _TWO + " [be used|used][ by kvasir|]", "[Is|Does] one model [split|spread] over " + _TWO, "@[split|spread] a model over " + _TWO + " with kvasir", "@use the second [GPU|graphics card|card]", "[Can|How can] [a model|one model] [use|run on|be on] " + _TWO], _answer("A server computes a model on one device")),
        (3, ["[What|Which] [name|model|string|value|text] [do I|must I|should I|can I|may I] [write|put|send|give|use|enter|type|set|fill in] [as|for|as the|in the field|into the field|under] model [in|with|of|for] [a request|my request|requests|the request|an API call|the JSON|the body|a chat request]", "What [do I|must I|should I] [write|put|send|give|enter|type|fill in] [as|for|in|into|under] [model|\"model\"|the model|the model field|the field model][ of a request| in the JSON| over the API| in my request| of the request| of an API call|]", "[What|which name] [goes|belongs|comes] [in|into] [the model field|the field model|\"model\"|model][ of a request|]", "[How|Where] do I [find|see|get|learn] the [name of the model|model name|name] for [requests|a request|the API|the field model]", "@[find|know|find out] [which|what] model name to [send|use|write]", "[Which|What] model name does [the API|the server|a request] [want|expect|need|take]", "[What is|what's] the model called in [a request|requests|the API]"], _answer("The field `model` names a served model")),
        (3, ["@[delete|remove|erase|get rid of|throw away|drop|clean up] [a model|models|an old model|a downloaded model|the model|a fetched model] [that |which |]" + _NONEED, "@[delete|remove|erase|get rid of|throw away] [old|unused|downloaded|unneeded|fetched] models", "@[free|get back|make] [disk space|space on the disk|space] [by deleting models|from old models|that models take]", "I [no longer need|don't need] a model, how do I [delete|remove] it[ from disk|]", "[Which|What] command [deletes|removes|erases] a model[ that I no longer use| from disk|]", "@delete [a model|models] [again|for good|from the cache|from my disk|that I have downloaded]", "A model takes too much [disk|space], how do I delete it"], _answer("Run `kvasir rm owner/name`")),
        (2, ["@[make|let|have|get] [it|the model|kvasir|the server|answers] [answer|reply|respond|write|speak|output|return|come] [in|as|only] JSON[ only| over the API|]", "@[force|require|demand|enforce] [JSON|JSON answers|JSON output|valid JSON]", "@get [only JSON|nothing but JSON|an answer in JSON|replies in JSON|JSON] [back|from it|from the API|over the API|from the model]", "Can [it|the model|kvasir|the server] [answer|reply|respond] [in|with|as] JSON", "I [need|want] [the answer|answers|replies] [in|as] JSON", "@make sure [the answer|answers] [is|are] [valid |]JSON", "JSON [mode|only|output]"], _answer("Send `response_format` with a JSON schema")),
        (3, ["@[stop|end|quit|shut down|halt|terminate|kill|exit] [a running|the running|my running|a started|an active] [server|kvasir server|kvasir serve|kvasir]", "@[stop|end|quit|shut down|halt|terminate|kill] [the server|kvasir|it|kvasir serve] [again|properly|that is running|that I started|when I am done|after I started it|that runs]", "[The server|kvasir|It] is running, how do I [stop|end|quit|kill] it", "[Which|What] key [stops|ends] the server", "[Which|What] signal [stops|ends] the server", "Is there a [command|way] to stop [the|a running] server", "Does kvasir stop [stop|end|shut down] the server"], _answer("Press Ctrl-C or send SIGTERM")),
        (1.5, ["@[stop|unload|take out|remove] a [running|loaded] model [from memory|from the server|out of memory]", "@unload a model [from a running server|that is loaded|that I do not need in memory]"], next(a for q, a, _ in ENTRIES if any("take a model out of memory" in x[1] for x in q))),
        (2, ["@stream [an answer|answers|a reply|a response|tokens|the answer|a chat|chat completions|it] [with|using|in|through|by] curl", "@[use|send] [curl with streaming|a streaming request with curl|curl and stream]", "@[see|get|receive|read] [tokens|words|the answer|the tokens] [one by one|as they come|live|token by token|while they are made] with curl", "curl [with streaming|streaming|stream|streaming example|stream example]", "[Show me|Give me] a [streaming curl|curl streaming] [example|command]", "[What is|what's] the curl [command|call|line] for [streaming|a stream|a streamed answer]"], _CURL),
        (1, ["[Can|Could|Does|Will] [kvasir|it] [train|fine-tune|finetune] [models|a model|an LLM|an adapter|a LoRA adapter]", "@[train|fine-tune|finetune] [a model|my own model|an LLM|an adapter|a LoRA adapter|Qwen|Llama] [with|in] kvasir", "Does kvasir [do|have|support] [training|fine-tuning|finetuning]"], "kvasir cannot train or fine-tune models: it serves them. Adapters that were trained elsewhere go with `--adapter`.")]

# ways to ask for a command that there is not, and for those that there are
WISHES = "fine-tune a model|finetune a model|train a model|train an adapter|train my own model|merge two models|upload a model|publish a model|log in|log in to the hub|search for models|translate a text|deploy a model|update kvasir|start a cluster|make a picture|edit a model|copy a model|rename a model|monitor the server|restart the server|see the logs|install a plugin|evaluate a model|compare two models|prune a model|distil a model|sync models|export a model|import a model|tune the server|share a model|back up my models|stop the server|add a user|delete a user|make a dataset|label data|schedule a job".split("|")
THERE = [("download a model|fetch a model|get a model", "pull", "Run `kvasir pull owner/name`, such as"), ("delete a model|remove a model", "rm", "Run `kvasir rm owner/name`"), ("chat|chat in the terminal", "run", "Run `kvasir run`: without a prompt"), ("start a server|start the server", "serve", "Run `kvasir serve`. It serves the built-in model")]

WEAK_ZH = ["[服务器|服务|kvasir|kvasir 服务器|API]的默认端口是[多少|什么|哪个|几]", "默认[使用|监听|用][哪个|什么]端口", "[服务器|服务|kvasir]默认[使用|监听|用|在][哪个|什么]端口", "[服务器|服务|kvasir][监听|使用|运行在|用][哪个|什么]端口", "默认的端口[号|]是[多少|什么|哪个|几]", "端口[号|]是[多少|什么|哪个|几]", "默认端口[号是多少|号是什么|是哪个|是几|呢|]", "[请问|]默认端口是什么", "[启动后|启动以后|不加参数时][端口是多少|用哪个端口|在哪个端口]"]
GATEWAYS = "prod staging production gateway gw router pool nodes servers hosts engines models backends edge farm site lab east west team main local dev test demo home config conf setup two three all big small new old my-gateway my-config front proxy balance fleet fleet2 prod-eu region office group stack infra deploy chat llm gpu gpus multi default example sample".split()
SLOTS["gw"] = lambda r: r.choice(["", "", "", "./", "/etc/kvasir/", "conf/", "~/"]) + (r.choice(GATEWAYS) if r.random() < .5 else r.choice(WORDS) if r.random() < .5 else fake_word(r)) + r.choice(["", "", "", "", "-" + r.choice(WORDS), str(r.randint(1, 20))]) + r.choice([".yaml", ".yaml", ".yaml", ".yml"])
SLOTS["d1"] = lambda r: "./" + r.choice([r.choice("abcdefghijklmnopqrstuvwxyz"), r.choice(WORDS), fake_word(r), "model"])
SLOTS["g1"] = lambda r: r.choice(["", "", "./"]) + r.choice([r.choice("abcdefghijklmnopqrstuvwxyz"), r.choice(WORDS), fake_word(r), "model", "out"]) + ".gguf"


def weak(r, ev=False):
    """Other wordings of what the fourth version of the model got wrong, and neighbours that it must not mix up."""
    u = r.random()
    if u < .09:
        a = next(a for q, a in ZH if q.startswith("默认端口"))
        for _ in range(200):
            q = spin(r, r.choice(WEAK_ZH))
            if heldout("z" + q, 8) == ev and norm(q) != "默认端口是多少":
                break
        return q + r.choice(["?", "?", "\uff1f", ""]), a
    if u < .24:
        there = not ev and r.random() < .25
        for _ in range(200):
            if there:
                w, f, p = r.choice(THERE)
                w, a = r.choice(w.split("|")), _answer(p)
            else:
                w, f = r.choice(WISHES), r.choice(FAKE_C) if r.random() < .6 else _fakename(r)
                if r.random() < .4:
                    f = re.sub(r"^(fine-tune|finetune|train|merge|upload|publish|search|translate|deploy|update|edit|copy|rename|monitor|restart|install|evaluate|compare|prune|sync|export|import|tune|share|label|schedule).*", r"\1", w)
                    f = f if " " not in f else r.choice(FAKE_C)
                if "kvasir " + f in CMDS or f in ("bench", "debug", "gateway", "help", "chat", "server", "reference"):
                    continue
                a = f"I do not know a command `kvasir {f}`. `kvasir --help` lists the commands that there are."
            ask = r.random() < .7
            q = spin(r, _BEG if ask else _SAY) + " " + w + spin(r, " [with|with|with|by|using|through] ") + "{c}"
            if heldout("u" + q + f, 12) == ev:
                break
        return _style(r, q, ask, ev).replace("{c}", "kvasir " + f), a
    for _ in range(400):
        _, qs, a = r.choices(WEAK, [x[0] for x in WEAK])[0]
        q, ask = r.choice(qs), None
        if q.startswith("@"):
            ask = r.random() < .62
            q = (_BEG if ask else _SAY if r.random() < .75 else "") + " " + q[1:]
        q = re.sub(" +", " ", spin(r, q)).strip()
        if heldout("k" + q, 10) == ev:
            break
    if r.random() < .06:
        q += r.choice(TAIL)
    if r.random() < .1 and not ev:
        q = r.choice(_FRONT) + q
    q = _style(r, q, ask, ev)
    if not ev and r.random() < .03:
        q = typo(r, q)
    vals = {}
    return fill(r, q, vals), fill(r, a, vals)


TH = "The user asks about kvasir's commands. I name the command."
FAMS = {"cmd": (cmd, TH), "combo": (combo, TH), "flag": (flag, "The user asks about a flag of kvasir. I say what it does."), "cmdwhat": (cmdwhat, "The user asks about a command of kvasir. I say what it does."), "alien": (alien, "This is a flag of another engine. I name the one of kvasir."),
        "unflag": (unflag, "There is no such flag or command, so I say so."), "zhcmd": (zhcmd, "用户用中文提问,我用中文简短回答。"), "far": (far, "This is outside the arithmetic that I can do, so I say so."), "ood2": (ood2, "I do not know this, so I say so."), "weak": (weak, TH)}

if __name__ == "__main__":
    import sys
    r = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for f, fn in [(k, v[0]) for k, v in FAMS.items()] + [("tables", tables)]:
        if sys.argv[1] in (f, "all"):
            for ev in (False, True):
                for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 6):
                    x = fn(r, ev)
                    print(f, ev, "|", repr(x[0]), "->", repr(x[1])[:200])
