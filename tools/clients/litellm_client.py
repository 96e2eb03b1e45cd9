"""Runs LiteLLM against a server, as an OpenAI-compatible one, as vLLM, as Anthropic's, as Ollama's and as Cohere's.

    pip install litellm mcp
    kvasir serve &
    python tools/clients/litellm_client.py --base-url http://127.0.0.1:8000
"""

import argparse
import json
import sys

import litellm
import requests

QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Get the weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def ways(base, model):
    """Returns how LiteLLM can be told of the server."""
    return {
        "openai": {"model": "openai/" + model, "api_base": base + "/v1", "api_key": "none"},
        "hosted_vllm": {"model": "hosted_vllm/" + model, "api_base": base + "/v1", "api_key": "none"},
        "anthropic": {"model": "anthropic/" + model, "api_base": base, "api_key": "none"},
        "ollama_chat": {"model": "ollama_chat/" + model, "api_base": base},
    }


def chat(way):
    done = litellm.completion(messages=QUESTION, max_tokens=16, **way)
    assert done.choices[0].message.content is not None and done.usage.completion_tokens > 0, done


def stream(way):
    pieces = [p.choices[0].delta.content or "" for p in litellm.completion(messages=QUESTION, max_tokens=16, stream=True, **way)]
    assert "".join(pieces), pieces


def two_turns(way):
    """The second turn sends the first one back, with the members that LiteLLM adds to it."""
    messages = list(QUESTION)
    one = litellm.completion(messages=messages, tools=[TOOL], tool_choice="auto", temperature=0, max_tokens=80, **way).choices[0].message
    assert one.tool_calls, one
    assert "city" in json.loads(one.tool_calls[0].function.arguments), one
    messages += [one.model_dump(), {"role": "tool", "tool_call_id": one.tool_calls[0].id, "content": "21 degrees"}]
    two = litellm.completion(messages=messages, tools=[TOOL], temperature=0, max_tokens=40, **way)
    assert two.choices[0].message.content is not None, two


def embed(way):
    assert len(litellm.embedding(input=["a", "b"], **way).data) == 2


def rerank(way):
    best = litellm.rerank(query="a cat", documents=["a dog", "a cat"], top_n=1, **way)
    assert len(best.results) == 1, best


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--base-url", default="http://127.0.0.1:8000")
    base = p.parse_args().base_url
    model = requests.get(base + "/v1/models", timeout=60).json()["data"][0]["id"]
    failed = 0
    for name, way in ways(base, model).items():
        more = {"openai": (embed,), "hosted_vllm": (embed, rerank)}  # what LiteLLM has for each
        for test in (chat, stream, two_turns, *more.get(name, ())):
            try:
                test(way)
                print("ok    ", name, test.__name__)
            except Exception as e:
                failed += 1
                print("FAILED", name, test.__name__, type(e).__name__, str(e)[:500])
    sys.exit(failed > 0)


main()
