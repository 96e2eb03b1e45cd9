"""Runs Python clients against a server: the OpenAI SDK with its helpers and, where they are installed, instructor,
pydantic-ai, langchain-openai and LlamaIndex.

    pip install openai instructor "pydantic-ai-slim[openai]" "opentelemetry-api<1.38" langchain-openai llama-index-llms-openai-like
    python tools/clients/sdks.py --base-url http://127.0.0.1:8000/v1
"""

import argparse
import json
import sys

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


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--base-url", default="http://127.0.0.1:8000/v1")
    client = openai.OpenAI(base_url=p.parse_args().base_url, api_key="none", max_retries=0)
    model = client.models.list().data[0].id
    failed = False
    for run in [parse, parse_tool, stream_helper, round_trip, reasoning, error_path, instructor_client, pydantic_ai_client,
                langchain_client, llama_index_client]:
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
