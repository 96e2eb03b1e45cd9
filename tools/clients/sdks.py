"""Runs Python clients against a server: the OpenAI SDK with its helpers and, where they are installed, instructor,
pydantic-ai, langchain-openai, LlamaIndex, openai-agents, Haystack and DSPy.

    pip install openai instructor "pydantic-ai-slim[openai]" langchain-openai llama-index-llms-openai-like
    pip install openai-agents haystack-ai dspy
    kvasir serve --state /tmp/state &
    python tools/clients/sdks.py --base-url http://127.0.0.1:8000/v1
"""

import argparse
import json
import sys
import time

import openai
import pydantic

QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]


class Weather(pydantic.BaseModel):
    """Get the weather of a city."""

    city: str


class Fact(pydantic.BaseModel):
    capital: str
    country: str


TOOL = openai.pydantic_function_tool(Weather, name="get_weather", description="Get the weather of a city")


def parse(client, model):
    done = client.chat.completions.parse(model=model, messages=QUESTION, response_format=Fact, max_tokens=80)
    assert isinstance(done.choices[0].message.parsed, Fact)


def parse_tool(client, model):
    done = client.chat.completions.parse(model=model, messages=QUESTION, tools=[TOOL], tool_choice="required", max_tokens=80)
    call = done.choices[0].message.tool_calls[0]
    assert isinstance(call.function.parsed_arguments, Weather) and done.choices[0].finish_reason == "tool_calls"


def stream_helper(client, model):
    with client.chat.completions.stream(model=model, messages=QUESTION, tools=[TOOL], temperature=0) as stream:
        kinds = {event.type for event in stream}
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls[0].function.parsed_arguments == Weather(city="Paris"), message
    assert "tool_calls.function.arguments.done" in kinds, kinds


def round_trip(client, model):
    messages = list(QUESTION)
    tools = [{"type": "function", "function": {k: v for k, v in TOOL["function"].items() if k != "strict"}}]
    one = client.chat.completions.create(model=model, messages=messages, tools=tools, temperature=0).choices[0]
    call = one.message.tool_calls[0]
    messages.append(one.message)
    messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps({"temperature": 21, "sky": "clear"})})
    two = client.chat.completions.create(model=model, messages=messages, tools=tools, temperature=0).choices[0]
    assert two.finish_reason == "stop" and two.message.content, two


def reasoning(client, model):
    done = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "What is 17 + 25?"}],
                                          temperature=0, extra_body={"enable_thinking": True})
    assert done.choices[0].message.reasoning_content and done.usage.completion_tokens_details.reasoning_tokens > 0


def error_path(client, model):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
        "x": {"type": "string", "pattern": "("}}}}}
    try:
        client.chat.completions.create(model=model, messages=QUESTION, tools=[tool], tool_choice="required")
    except openai.BadRequestError as e:
        assert e.param == "tools[0].function.parameters.properties.x.pattern", e.param
        return
    raise AssertionError("a bad pattern was accepted")


def response(client, model):
    one = client.responses.create(model=model, input="What is a KV cache?", temperature=0, max_output_tokens=40)
    assert one.output_text and client.responses.retrieve(one.id).output_text == one.output_text
    two = client.responses.create(model=model, input="And why?", previous_response_id=one.id, temperature=0, max_output_tokens=20)
    assert two.usage.input_tokens > one.usage.total_tokens, two.usage
    assert [i.role for i in client.responses.input_items.list(two.id)] == ["user"]
    client.responses.delete(one.id)
    try:
        client.responses.retrieve(one.id)
    except openai.NotFoundError:
        return
    raise AssertionError("a deleted response is still there")


def response_stream(client, model):
    with client.responses.stream(model=model, input="What is a KV cache?", temperature=0) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [e.sequence_number for e in events] == list(range(len(events))), events
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == final.output_text != ""


def response_parse(client, model):
    done = client.responses.parse(model=model, input="What is the capital of France?", text_format=Fact, max_output_tokens=80)
    assert isinstance(done.output_parsed, Fact)
    tool = {"type": "function", "name": "get_weather", "strict": True, "parameters": TOOL["function"]["parameters"]}
    called = client.responses.create(model=model, input=QUESTION, tools=[tool], tool_choice="required", temperature=0)
    call = [item for item in called.output if item.type == "function_call"][0]
    assert json.loads(call.arguments) == {"city": "Paris"}, call
    answer = {"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature": 21}'}
    last = client.responses.create(model=model, input=QUESTION + called.output + [answer], tools=[tool], temperature=0, store=False)
    assert last.output_text and last.status == "completed", last


def response_background(client, model):
    one = client.responses.create(model=model, input="What is a KV cache?", background=True, max_output_tokens=20)
    with client.responses.retrieve(one.id, stream=True) as stream:
        events = list(stream)
    assert events[0].type == "response.created" and events[-1].type in ("response.completed", "response.incomplete"), events[-1]
    with client.responses.retrieve(one.id, stream=True, starting_after=events[-2].sequence_number) as stream:
        assert [e.sequence_number for e in stream] == [events[-1].sequence_number]
    client.responses.cancel(one.id)


def batch(client, model):
    body = {"model": model, "messages": QUESTION, "max_tokens": 20}
    lines = [{"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions", "body": body} for i in range(5)]
    lines[3]["body"] = {"messages": []}
    content = "".join(json.dumps(line) + "\n" for line in lines)
    file = client.files.create(file=("in.jsonl", content.encode()), purpose="batch")
    assert client.files.content(file.id).text == content and file.id in [f.id for f in client.files.list(purpose="batch")]
    made = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"a": "b"})
    while made.status not in ("completed", "failed", "expired", "cancelled"):
        time.sleep(0.1)
        made = client.batches.retrieve(made.id)
    assert made.status == "completed" and made.request_counts.completed == 4 and made.request_counts.failed == 1, made
    answers = [json.loads(line) for line in client.files.content(made.output_file_id).text.splitlines()]
    assert sorted(a["custom_id"] for a in answers) == ["r0", "r1", "r2", "r4"]
    assert all(a["response"]["body"]["choices"][0]["message"]["content"] for a in answers)
    wrong = json.loads(client.files.content(made.error_file_id).text)
    assert wrong["custom_id"] == "r3" and wrong["response"]["status_code"] == 400, wrong
    assert client.files.delete(file.id).deleted and made.id in [b.id for b in client.batches.list()]


def instructor_client(client, model):
    import instructor

    for mode in [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA]:
        got = instructor.from_openai(client, mode=mode).chat.completions.create(model=model, messages=QUESTION,
                                                                                response_model=Weather, max_tokens=80)
        assert isinstance(got, Weather)


def pydantic_ai_client(client, model):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=str(client.base_url), api_key="none")
    agent = Agent(OpenAIChatModel(model, provider=provider), output_type=Weather)
    assert isinstance(agent.run_sync("What is the weather in Paris?").output, Weather)


def langchain_client(client, model):
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=model, base_url=str(client.base_url), api_key="none", max_tokens=80, temperature=0)
    assert chat.bind_tools([Weather], tool_choice="any").invoke("What is the weather in Paris?").tool_calls[0]["name"] == "Weather"
    assert isinstance(chat.with_structured_output(Weather).invoke("The weather in Paris"), Weather)


def llama_index_client(client, model):
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    def get_weather(city: str) -> str:
        """Get the weather of a city."""
        return city

    llm = OpenAILike(model=model, api_base=str(client.base_url), api_key="none", is_chat_model=True,
                     is_function_calling_model=True, max_tokens=80, temperature=0)
    got = llm.chat_with_tools([FunctionTool.from_defaults(get_weather)], user_msg="What is the weather in Paris?")
    assert llm.get_tool_calls_from_response(got)[0].tool_name == "get_weather"


def agents_client(client, model):
    import agents

    agents.set_tracing_disabled(True)
    called = []

    @agents.function_tool
    def get_weather(city: str) -> str:
        """Get the weather of a city."""
        called.append(city)
        return "It is 21 degrees and clear."

    own = openai.AsyncOpenAI(base_url=client.base_url, api_key="none", max_retries=0)
    settings = agents.ModelSettings(temperature=0, max_tokens=80)
    for kind in [agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel]:
        agent = agents.Agent(name="a", instructions="Be brief.", model=kind(model, own), tools=[get_weather], model_settings=settings)
        done = agents.Runner.run_sync(agent, "What is the weather in Paris?", max_turns=4)
        assert done.final_output and called.pop() == "Paris", done


def haystack_client(client, model):
    from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.tools import create_tool_from_function
    from haystack.utils import Secret

    def get_weather(city: str) -> str:
        """Get the weather of a city."""
        return "21 degrees"

    for kind in [OpenAIChatGenerator, OpenAIResponsesChatGenerator]:
        llm = kind(api_key=Secret.from_token("none"), model=model, api_base_url=str(client.base_url),
                   tools=[create_tool_from_function(get_weather)])
        said = [ChatMessage.from_user("What is the weather in Paris?")]
        said += llm.run(said)["replies"]
        call = said[-1].tool_calls[0]
        assert call.tool_name == "get_weather" and call.arguments == {"city": "Paris"}, call
        assert llm.run(said + [ChatMessage.from_tool("21 degrees", origin=call)])["replies"][0].text


def dspy_client(client, model):
    import dspy

    for api, options in [("openai/", {}), ("openai/", {"model_type": "responses"}), ("anthropic/", {})]:
        lm = dspy.LM(api + model, api_base=str(client.base_url), api_key="none", max_tokens=80, cache=False, **options)
        assert lm("Say hi."), api


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--base-url", default="http://127.0.0.1:8000/v1")
    client = openai.OpenAI(base_url=p.parse_args().base_url, api_key="none", max_retries=0)
    model = client.models.list().data[0].id
    failed = False
    for run in [parse, parse_tool, stream_helper, round_trip, reasoning, error_path, response, response_stream,
                response_parse, response_background, batch, instructor_client, pydantic_ai_client,
                langchain_client, llama_index_client, agents_client, haystack_client, dspy_client]:
        try:
            run(client, model)
            print(f"{run.__name__}: ok")
        except ImportError as e:
            print(f"{run.__name__}: skipped, {e}")
        except Exception as e:
            failed = True
            print(f"{run.__name__}: FAILED: {type(e).__name__}: {str(e)[:300]}")
    sys.exit(failed)


main()
