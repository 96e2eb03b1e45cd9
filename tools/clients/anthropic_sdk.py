"""Runs Anthropic's Python SDK against a server.

    pip install anthropic
    python tools/clients/anthropic_sdk.py --base-url http://127.0.0.1:8000
"""

import argparse
import sys

import anthropic
import pydantic

WEATHER = {"name": "get_weather", "description": "Get the weather of a city",
           "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def ask(text, **more):
    return {"max_tokens": 80, "messages": [{"role": "user", "content": text}], "extra_body": {"temperature": 0}, **more}


def whole(client, model):
    m = client.messages.create(model=model, system="Be brief.", **ask("What is a KV cache?"))
    assert m.type == "message" and m.role == "assistant" and m.content[0].text and m.usage.output_tokens > 0, m
    assert m._request_id


def streamed(client, model):
    m = client.messages.create(model=model, **ask("What is a KV cache?"))
    with client.messages.stream(model=model, **ask("What is a KV cache?")) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert text == m.content[0].text == last.content[0].text and last.usage.output_tokens == m.usage.output_tokens, last
    kinds = [e.type for e in client.messages.create(model=model, stream=True, **ask("hi"))]
    assert kinds[0] == "message_start" and kinds[1] == "content_block_start" and kinds[-1] == "message_stop", kinds


def counts(client, model):
    q = {"model": model, "messages": [{"role": "user", "content": "What is a KV cache?"}], "tools": [WEATHER]}
    n = client.messages.count_tokens(**q).input_tokens
    u = client.messages.create(max_tokens=1, **q).usage
    assert n == u.input_tokens + u.cache_read_input_tokens, (n, u)


def stops(client, model):
    text = client.messages.create(model=model, **ask("What is a KV cache?")).content[0].text
    word = text.split()[4]
    m = client.messages.create(model=model, stop_sequences=[word], **ask("What is a KV cache?"))
    assert m.stop_reason == "stop_sequence" and m.stop_sequence == word and m.content[0].text == text[:text.index(word)], m


def tools(client, model):
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    q = {"model": model, "max_tokens": 80, "tools": [WEATHER], "extra_body": {"temperature": 0}}
    one = client.messages.create(messages=messages, **q)
    call = one.content[-1]
    assert one.stop_reason == "tool_use" and call.type == "tool_use" and call.input == {"city": "Paris"}, one
    with client.messages.stream(messages=messages, **q) as stream:
        again = stream.get_final_message()
    assert again.content[-1].input == call.input, again
    messages.append({"role": "assistant", "content": one.content})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": '{"sky": "clear"}'}]}
    messages.append({"role": "user", "content": [result]})
    two = client.messages.create(messages=messages, **q)
    assert two.stop_reason == "end_turn" and two.content[0].text, two
    forced = client.messages.create(messages=[{"role": "user", "content": "hi"}], tool_choice={"type": "any"}, **q)
    assert forced.content[-1].type == "tool_use", forced


def thinking(client, model):
    q = {**ask("What is 17 + 25?"), "max_tokens": 200}
    m = client.messages.create(model=model, thinking={"type": "enabled", "budget_tokens": 100}, **q)
    assert m.content[0].type == "thinking" and m.content[0].thinking and m.content[-1].type == "text", m
    with client.messages.stream(model=model, thinking={"type": "enabled", "budget_tokens": 100}, **q) as stream:
        assert "signature" in {e.type for e in stream}
        assert stream.get_final_message().content[0].thinking == m.content[0].thinking
    more = [*q["messages"], {"role": "assistant", "content": m.content}, {"role": "user", "content": "And 1 more?"}]
    client.messages.create(model=model, max_tokens=20, messages=more)


class Fact(pydantic.BaseModel):
    capital: str


def structure(client, model):
    m = client.messages.parse(model=model, output_format=Fact, **ask("Paris is the capital of France."))
    assert isinstance(m.parsed_output, Fact), m


def errors(client, model):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    for params, kind in [({"model": "none"}, anthropic.NotFoundError),
                         ({"messages": [{"role": "user", "content": [image]}]}, anthropic.BadRequestError)]:
        try:
            client.messages.create(**{"model": model, "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], **params})
        except kind as e:
            assert e.body["type"] == "error" and e.request_id, e
            continue
        raise AssertionError(f"{params} was accepted")


def models(client, model):
    page = client.models.list()
    assert page.data[0].type == "model" and client.models.retrieve(model).id == model, page


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--base-url", default="http://127.0.0.1:8000")
    client = anthropic.Anthropic(base_url=p.parse_args().base_url, api_key="none", max_retries=0,
                                 _strict_response_validation=True)
    model = client.models.list().data[0].id
    failed = False
    for run in [whole, streamed, counts, stops, tools, thinking, structure, errors, models]:
        try:
            run(client, model)
            print(f"{run.__name__}: ok")
        except Exception as e:
            failed = True
            print(f"{run.__name__}: FAILED: {type(e).__name__}: {str(e)[:300]}")
    sys.exit(failed)


main()
