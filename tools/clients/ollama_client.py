"""Runs the Ollama client of Python against a server.

    pip install ollama
    kvasir serve --models models.yaml --port 8000   # or without --models, for the built-in model
    python tools/clients/ollama_client.py --host http://127.0.0.1:8000 [--model kvasir-mini]
"""

import argparse
import json
import sys

import ollama

QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]


def get_weather(city: str) -> str:
    """Get the weather of a city.

    Args:
      city: the city
    """
    return f"It is 21 degrees and clear in {city}."


def generate(client, model):
    done = client.generate(model, "Once upon a time", options={"num_predict": 12, "temperature": 0})
    assert done.done and done.done_reason == "length" and done.eval_count == 12 and done.response, done
    assert done.total_duration > 0 and done.eval_duration > 0 and done.prompt_eval_count > 0, done


def generate_stream(client, model):
    parts = list(client.generate(model, "Hello", stream=True, options={"num_predict": 8, "seed": 7}))
    assert parts[-1].done and not any(p.done for p in parts[:-1]) and len(parts) > 2, parts
    again = client.generate(model, "Hello", options={"num_predict": 8, "seed": 7})
    assert again.response == "".join(p.response for p in parts), again


def raw_and_suffix(client, model):
    assert client.generate(model, "The quick brown", raw=True, options={"num_predict": 4}).response
    assert client.generate(model, "def add(a, b):\n", suffix="\n    return c", options={"num_predict": 8}).done


def chat(client, model):
    done = client.chat(model, messages=[{"role": "user", "content": "Hello!"}], options={"num_predict": 20})
    assert done.message.role == "assistant" and done.message.content, done
    parts = list(client.chat(model, messages=[{"role": "user", "content": "Hello!"}], stream=True))
    assert parts[-1].done and parts[-1].done_reason in ("stop", "length"), parts[-1]


def tools(client, model):
    messages = list(QUESTION)
    one = client.chat(model, messages=messages, tools=[get_weather], options={"temperature": 0})
    call = one.message.tool_calls[0]
    assert call.function.name == "get_weather" and call.function.arguments == {"city": "Paris"}, one
    messages += [one.message, {"role": "tool", "content": get_weather(**call.function.arguments), "tool_name": "get_weather"}]
    two = client.chat(model, messages=messages, tools=[get_weather], options={"temperature": 0})
    assert two.done_reason == "stop" and two.message.content, two
    streamed = list(client.chat(model, messages=QUESTION, tools=[get_weather], options={"temperature": 0}, stream=True))
    calls = [c for p in streamed for c in p.message.tool_calls or []]
    assert [c.function.arguments for c in calls] == [{"city": "Paris"}], streamed


def structure(client, model):
    schema = {"type": "object", "properties": {"capital": {"type": "string"}, "people": {"type": "integer"}},
              "required": ["capital", "people"], "additionalProperties": False}
    done = client.chat(model, messages=[{"role": "user", "content": "Tell me of France."}], format=schema)
    got = json.loads(done.message.content)
    assert isinstance(got["capital"], str) and isinstance(got["people"], int), got
    json.loads(client.generate(model, "A JSON object:", format="json", options={"num_predict": 200}).response)


def think(client, model):
    question = [{"role": "user", "content": "What is 17 + 25?"}]
    done = client.chat(model, messages=question, think=True, options={"temperature": 0})
    assert done.message.thinking and done.message.content, done
    assert not client.chat(model, messages=question, think=False, options={"temperature": 0}).message.thinking


def embed(client, model):
    two = client.embed(model, ["one", "two"])
    assert len(two.embeddings) == 2 and abs(sum(x * x for x in two.embeddings[0]) - 1) < 1e-3
    assert len(client.embeddings(model, "one").embedding) == len(two.embeddings[0])


def models(client, model):
    names = [m.model for m in client.list().models]
    assert model in names, names
    shown = client.show(model)
    assert "completion" in shown.capabilities and shown.details.family and shown.modelinfo, shown
    client.generate(model)  # loads it
    there = {m.model: m for m in client.ps().models}
    assert there[model].size > 0 and there[model].expires_at, there


def keep_alive(client, model):
    client.generate(model, "Hello", options={"num_predict": 1}, keep_alive="10m")
    try:
        done = client.generate(model, keep_alive=0)
    except ollama.ResponseError as e:
        assert e.status_code == 409, e  # it was named on the command line, and stays
        return
    assert done.done_reason == "unload", done


def administration(client, model):
    client.create("pirate", from_=model, system="You are a pirate.", parameters={"temperature": 0, "num_predict": 5})
    done = client.chat("pirate", messages=[{"role": "user", "content": "Hello!"}])
    assert done.eval_count <= 5 and done.prompt_eval_count > client.chat(
        model, messages=[{"role": "user", "content": "Hello!"}], options={"num_predict": 1}).prompt_eval_count, done
    assert [p.status for p in client.create("pirate", from_=model, system="Arr.", stream=True)][-1] == "success"
    assert client.copy("pirate", "corsair").status == "success"
    assert client.generate("corsair", "Hello", options={"num_predict": 2}).response
    assert client.delete("pirate").status == "success" and client.delete("corsair").status == "success"
    names = [m.model for m in client.list().models]
    assert "pirate" not in names and "corsair" not in names, names
    try:
        client.create("other", from_="no-such-model")
    except ollama.ResponseError as e:
        assert e.status_code == 404, e
        return
    raise AssertionError("it was made of nothing")


def errors(client, model):
    for call in [lambda: client.chat("no-such-model", messages=QUESTION),
                 lambda: list(client.chat("no-such-model", messages=QUESTION, stream=True)),
                 lambda: client.generate(model, "x", options={"num_gpus": 1}),
                 lambda: client.show("no-such-model")]:
        try:
            call()
        except ollama.ResponseError as e:
            assert e.status_code in (400, 404) and e.error, e
            continue
        raise AssertionError("it was accepted")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--host", default="http://127.0.0.1:8000")
    args.add_argument("--model", default="kvasir-mini")
    args = args.parse_args()
    client, failed = ollama.Client(host=args.host), 0
    for check in [generate, generate_stream, raw_and_suffix, chat, tools, structure, think, embed, models, keep_alive, administration, errors]:
        try:
            check(client, args.model)
            print("ok  ", check.__name__)
        except Exception as e:  # each failure is shown, and the next check runs
            print("FAIL", check.__name__, repr(e)[:600])
            failed += 1
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
