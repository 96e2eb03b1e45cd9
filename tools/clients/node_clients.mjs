// Runs Node's clients against a server: OpenAI's SDK, the AI SDK with four of its providers, Ollama's.
//
//   npm install openai ai @ai-sdk/openai-compatible @ai-sdk/openai @ai-sdk/anthropic ollama-ai-provider-v2 ollama zod
//   kvasir serve --state /tmp/state &
//   node tools/clients/node_clients.mjs http://127.0.0.1:8000     (in the folder with node_modules)

import assert from "node:assert/strict";
import OpenAI, { toFile } from "openai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embed, generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { createOllama } from "ollama-ai-provider-v2";
import { Ollama } from "ollama";

const base = process.argv[2] ?? "http://127.0.0.1:8000";
const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
const ollama = new Ollama({ host: base });
const model = (await openai.models.list()).data[0].id;
const ai = createOpenAICompatible({ name: "kvasir", baseURL: `${base}/v1`, includeUsage: true, supportsStructuredOutputs: true });
const ask = [{ role: "user", content: "What is the weather in Paris?" }];
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const weather = { type: "function", function: { name: "get_weather", description: "Get the weather of a city", parameters: city } };

const tests = {
  async "openai: chat"() {
    const done = await openai.chat.completions.create({ model, messages: ask, max_tokens: 16, n: 2, logprobs: true, top_logprobs: 2 });
    assert.equal(done.choices.length, 2);
    assert.ok(done.usage.completion_tokens > 0 && done.choices[0].logprobs.content.length > 0);
  },
  async "openai: stream helper with tools"() {
    const run = openai.chat.completions.stream({ model, messages: ask, tools: [weather], tool_choice: "required", max_tokens: 60 });
    const done = await run.finalChatCompletion();
    assert.equal(done.choices[0].finish_reason, "tool_calls");
    assert.ok("city" in JSON.parse(done.choices[0].message.tool_calls[0].function.arguments));
  },
  async "openai: runTools"() {
    let called = 0;
    const run = openai.chat.completions.runTools({ model, messages: ask, max_tokens: 60, temperature: 0, tools: [{ type: "function",
      function: { ...weather.function, parse: JSON.parse, function: () => { called++; return "21 degrees"; } } }] });
    await run.finalContent();
    assert.ok(called > 0);
  },
  async "openai: completions stream"() {
    let text = "";
    for await (const e of await openai.completions.create({ model, prompt: "Once upon", max_tokens: 8, stream: true })) text += e.choices[0]?.text ?? "";
    assert.ok(text.length > 0);
  },
  async "openai: embeddings, base64 as it asks for by default"() {
    const v = (await openai.embeddings.create({ model, input: ["a", "b"] })).data[1].embedding;
    assert.ok(Math.abs(Math.hypot(...v) - 1) < 1e-3);
  },
  async "openai: responses"() {
    const one = await openai.responses.create({ model, input: "Say hi.", max_output_tokens: 16 });
    const kinds = [];
    for await (const e of await openai.responses.create({ model, input: "And again.", previous_response_id: one.id, max_output_tokens: 16, stream: true })) kinds.push(e.type);
    assert.equal(kinds[0], "response.created");
    assert.ok(/response\.(completed|incomplete)/.test(kinds.at(-1)));
    assert.equal((await openai.responses.inputItems.list(one.id)).data.length, 1);
    await openai.responses.delete(one.id);
    await assert.rejects(openai.responses.retrieve(one.id), OpenAI.NotFoundError);
  },
  async "openai: files and batches"() {
    const line = JSON.stringify({ custom_id: "a", method: "POST", url: "/v1/chat/completions", body: { model, messages: ask, max_tokens: 4 } });
    const file = await openai.files.create({ file: await toFile(Buffer.from(line), "in.jsonl"), purpose: "batch" });
    let batch = await openai.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" });
    while (!["completed", "failed"].includes(batch.status)) {
      await new Promise((r) => setTimeout(r, 100));
      batch = await openai.batches.retrieve(batch.id);
    }
    const out = JSON.parse(await (await openai.files.content(batch.output_file_id)).text());
    assert.equal(out.response.status_code, 200);
  },
  async "openai: errors"() {
    await assert.rejects(openai.chat.completions.create({ model, messages: ask, temperature: 9 }),
      (e) => e instanceof OpenAI.BadRequestError && e.param === "temperature");
    await assert.rejects(openai.chat.completions.create({ model: "none", messages: ask }), OpenAI.NotFoundError);
  },
  async "ai: generateText with a tool"() {
    const done = await generateText({ model: ai(model), messages: ask, maxOutputTokens: 60, toolChoice: "required",
      tools: { get_weather: tool({ description: "Get the weather of a city", inputSchema: jsonSchema(city) }) } });
    assert.equal(done.toolCalls[0].toolName, "get_weather");
    assert.ok("city" in done.toolCalls[0].input);
  },
  async "ai: streamText with usage"() {
    const run = streamText({ model: ai(model), prompt: "Say hi.", maxOutputTokens: 8 });
    let text = "";
    for await (const piece of run.textStream) text += piece;
    assert.ok(text.length > 0 && (await run.usage).outputTokens > 0);
  },
  async "ai: an object"() {
    const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false };
    const done = await generateText({ model: ai(model), prompt: "Give me a number.", maxOutputTokens: 60, output: Output.object({ schema: jsonSchema(schema) }) });
    assert.ok(Number.isInteger(done.output.n));
  },
  async "ai: embed"() {
    assert.ok((await embed({ model: ai.embeddingModel(model), value: "a" })).embedding.length > 0);
  },
  async "ollama: chat, streamed and whole"() {
    let text = "";
    for await (const part of await ollama.chat({ model, messages: ask, stream: true, options: { num_predict: 8 } })) text += part.message.content;
    const done = await ollama.chat({ model, messages: ask, options: { num_predict: 8 } });
    assert.ok(text.length > 0 && done.done && done.eval_count > 0);
  },
  async "ollama: generate, embed, list, ps, show"() {
    assert.ok((await ollama.generate({ model, prompt: "a", options: { num_predict: 4 } })).response.length > 0);
    assert.equal((await ollama.embed({ model, input: ["a", "b"] })).embeddings.length, 2);
    assert.ok((await ollama.list()).models.length > 0 && (await ollama.ps()).models.length > 0);
    assert.ok((await ollama.show({ model })).capabilities.includes("completion"));
  },
};

// What the AI SDK's providers do alike: a tool that is run, a stream, an object.
const own = { baseURL: `${base}/v1`, apiKey: "none" };
const providers = { responses: createOpenAI(own).responses(model), chat: createOpenAI(own).chat(model), anthropic: createAnthropic(own)(model),
  ollama: createOllama({ baseURL: `${base}/api` })(model) };
for (const [name, to] of Object.entries(providers)) {
  tests[`ai, ${name}: a tool, a stream, an object`] = async () => {
    let asked;
    const run = { description: "Get the weather of a city", inputSchema: jsonSchema(city), execute: (input) => { asked = input.city; return "21 degrees"; } };
    const done = await generateText({ model: to, messages: ask, temperature: 0, maxOutputTokens: 80, stopWhen: stepCountIs(3), tools: { get_weather: tool(run) } });
    assert.ok(done.text.length > 0 && asked === "Paris");
    const stream = streamText({ model: to, prompt: "Say hi.", maxOutputTokens: 8 });
    let text = "";
    for await (const piece of stream.textStream) text += piece;
    assert.ok(text.length > 0 && (await stream.usage).outputTokens > 0);
    const object = await generateText({ model: to, prompt: "Name a city.", maxOutputTokens: 80, output: Output.object({ schema: jsonSchema(city) }) });
    assert.ok("city" in object.output);
  };
}

let failed = 0;
for (const [name, run] of Object.entries(tests)) {
  try {
    await run();
    console.log(`ok     ${name}`);
  } catch (e) {
    failed++;
    console.log(`FAILED ${name}: ${e.stack}`);
  }
}
console.log(`${Object.keys(tests).length - failed} of ${Object.keys(tests).length}`);
process.exit(failed ? 1 : 0);
