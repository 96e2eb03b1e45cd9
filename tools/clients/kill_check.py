"""Kills a server in the middle of loads and of a batch, and looks at what it does when it is started again.

    kvasir bench write --shape 1.1b --quant q8_0 big.gguf      # large enough that loading takes a second
    python tools/clients/kill_check.py path/to/kvasir big.gguf

It needs nothing but Python's own library.
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

KVASIR, MODEL = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
LINES = 200


class Server:
    def __init__(self, folder):
        models = folder / "models.yaml"
        models.write_text(f"big:\n  model: {MODEL}\n  context: 512\n")
        self.log = open(folder / "log", "a+")
        self.process = subprocess.Popen(
            [KVASIR, "serve", "--models", models, "--on-demand", "--state", folder / "state", "--port", "0"],
            stderr=self.log, env={"HOME": str(folder), "PATH": "/usr/bin:/bin"})
        self.url = self.address(folder)

    def address(self, folder):
        for _ in range(3000):
            for line in reversed((folder / "log").read_text().splitlines()):
                if "msg=stopped" in line or f"pid={self.process.pid}" in line:
                    break
                if "address=http://" in line and line not in SEEN:
                    SEEN.add(line)
                    return line.split("address=")[1].split()[0]
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        sys.exit("the server does not start:\n" + (folder / "log").read_text())

    def ask(self, method, path, body=None, kind="application/json", timeout=600):
        r = urllib.request.Request(self.url + path, method=method, data=body, headers={"Content-Type": kind})
        with urllib.request.urlopen(r, timeout=timeout) as answer:
            return answer.read()

    def kill(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        began = time.time()
        self.process.wait(60)
        return time.time() - began


SEEN = set()


def complete(server, model, tokens=4):
    body = json.dumps({"model": model, "prompt": "Once", "max_tokens": tokens, "seed": 1}).encode()
    return json.loads(server.ask("POST", "/v1/completions", body))["choices"][0]["text"]


def in_mid_load(server):
    """Asks for the large model and returns when some of it is loaded, or False if all of it was before that was seen."""
    def ask():
        try:
            complete(server, "big")
        except (urllib.error.URLError, OSError):
            pass
    threading.Thread(target=ask, daemon=True).start()
    while True:
        for m in json.loads(server.ask("GET", "/v1/models"))["data"]:
            if m["id"] == "big" and m["status"]["value"] == "loading":
                return True
            if m["id"] == "big" and m["status"]["value"] == "loaded":
                return False
        time.sleep(0.002)


def loads(folder):
    caught = 0
    for how in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        server = Server(folder)
        caught += in_mid_load(server)
        took = server.kill(how)
        # 30 seconds are for answers under way, of which there is one: it waits for the model
        assert took < 40, f"it took {took:.1f} s to end after {how.name}"
        print(f"ended {took:.2f} s after {how.name} in mid-load")
    server = Server(folder)
    began = time.time()
    assert complete(server, "big") is not None
    print(f"killed {caught} times in the middle of a load; the next server answered after {time.time() - began:.1f} s")
    assert caught > 0, "the model loads too fast to be caught at it; use a larger one"
    server.kill()


def upload(server, lines):
    edge = "xxKILLxx"
    body = (f'--{edge}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--{edge}\r\n'
            f'Content-Disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n{lines}\r\n--{edge}--\r\n').encode()
    return json.loads(server.ask("POST", "/v1/files", body, f"multipart/form-data; boundary={edge}"))["id"]


def batch(folder):
    """Runs a batch for the small model and the large one, and kills its server three times."""
    lines = "\n".join(json.dumps({"custom_id": f"n{i}", "method": "POST", "url": "/v1/completions", "body": {
        "model": "big" if i % 50 == 49 else "kvasir-mini", "prompt": f"Number {i} is", "max_tokens": 8, "seed": i}}) for i in range(LINES))
    server = Server(folder)
    made = json.loads(server.ask("POST", "/v1/batches", json.dumps({
        "input_file_id": upload(server, lines), "endpoint": "/v1/completions", "completion_window": "24h"}).encode()))
    kills, last = 0, -1
    while True:
        now = json.loads(server.ask("GET", "/v1/batches/" + made["id"]))
        done = (now.get("request_counts") or {}).get("completed", 0)
        if now["status"] in ("completed", "failed", "expired"):
            break
        if kills < 3 and done > last + LINES // 8:
            server.kill()
            kills, last = kills + 1, done
            print(f"killed in a batch after {done} of {LINES}")
            server = Server(folder)
            assert json.loads(server.ask("GET", "/v1/batches/" + made["id"]))["request_counts"]["completed"] >= done, "answers were lost"
        time.sleep(0.01)
    assert now["status"] == "completed" and now["request_counts"] == {"total": LINES, "completed": LINES, "failed": 0}, now
    out = [json.loads(l) for l in server.ask("GET", f"/v1/files/{now['output_file_id']}/content").decode().splitlines()]
    ids = [l["custom_id"] for l in out]
    assert sorted(ids) == sorted(f"n{i}" for i in range(LINES)), "lines are missing, or there twice"
    for line in out[:: LINES // 10]:
        i = int(line["custom_id"][1:])
        if i % 50 != 49:
            body = json.dumps({"model": "kvasir-mini", "prompt": f"Number {i} is", "max_tokens": 8, "seed": i}).encode()
            want = json.loads(server.ask("POST", "/v1/completions", body))["choices"][0]["text"]
            assert line["response"]["body"]["choices"][0]["text"] == want, f"n{i} has another answer"
    print(f"a batch of {LINES} was killed {kills} times: all are answered, none twice, as without it")
    server.kill()


with tempfile.TemporaryDirectory() as name:
    loads(pathlib.Path(name))
with tempfile.TemporaryDirectory() as name:
    batch(pathlib.Path(name))
print("all is well")
