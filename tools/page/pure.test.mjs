// The parts of the page that need no browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { controls, parameters, read } from "../../web/static/controls.js";
import { Metrics, forest, mean, rate } from "../../web/static/metrics.js";
import { Lines, dataOf } from "../../web/static/sse.js";
import { compact } from "../../web/static/tokens.js";
import * as tree from "../../web/static/tree.js";

const texts = (chat) => tree.path(chat).map((n) => n.text);

test("an edited question and a regenerated answer are siblings, and what was below them comes back", () => {
  const c = tree.newChat("a", 1, "Be brief.");
  const q = tree.add(c, -1, "user", "One?\nmore"), a = tree.add(c, q.id, "assistant", "1");
  const q2 = tree.add(c, a.id, "user", "Two?");
  tree.add(c, q2.id, "assistant", "2");
  const again = tree.add(c, q.id, "assistant", "one");
  assert.deepEqual(texts(c), ["One?\nmore", "one"]);
  assert.deepEqual(tree.siblings(c, again), [a, again]);
  tree.show(c, a);
  assert.deepEqual(texts(c), ["One?\nmore", "1", "Two?", "2"]);
  const edited = tree.add(c, -1, "user", "Three?");
  assert.deepEqual(texts(c), ["Three?"]);
  assert.deepEqual(tree.siblings(c, edited), [q, edited]);
  tree.show(c, q);
  assert.deepEqual(texts(c), ["One?\nmore", "1", "Two?", "2"]);
  assert.equal(c.title, "One?");
  assert.ok(tree.valid(c));
});

test("a request has the system prompt, the path up to its question, and no failed answers", () => {
  const c = tree.newChat("a", 1, "Be brief.");
  const q = tree.add(c, -1, "user", "One?"), failed = tree.add(c, q.id, "assistant", "");
  const q2 = tree.add(c, failed.id, "user", "Two?");
  tree.add(c, q2.id, "assistant", "later");
  assert.deepEqual(tree.messages(c, q2.id), [{ role: "system", content: "Be brief." }, { role: "user", content: "Two?" }]);
  c.system = " ";
  assert.equal(tree.messages(c, q.id).length, 1);
});

test("calls of tools and their results are sent as the API has them", () => {
  const c = tree.newChat("a", 1);
  const q = tree.add(c, -1, "user", "Weather?"), a = tree.add(c, q.id, "assistant", "");
  a.calls = [];
  for (const piece of [{ index: 0, id: "1", type: "function", function: { name: "weather", arguments: "" } },
    { index: 0, function: { arguments: '{"in":' } }, { index: 0, function: { arguments: '"Oslo"}' } }, { index: -1 }, { index: 1e9 }]) {
    tree.gather(a.calls, [piece]);
  }
  const t = tree.add(c, a.id, "tool", "");
  t.results = [{ id: "1", name: "weather", content: "rain" }];
  const call = { id: "1", type: "function", function: { name: "weather", arguments: '{"in":"Oslo"}' } };
  const sent = [{ role: "user", content: "Weather?" }, { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "1", content: "rain" }];
  assert.deepEqual(tree.messages(c, t.id), sent);
  tree.add(c, t.id, "assistant", "");
  assert.deepEqual(tree.messages(c), sent);
  assert.ok(tree.valid(c));
  t.results = [{}];
  assert.ok(!tree.valid(c));
});

test("a branch is a chat of its own", () => {
  const c = tree.newChat("a", 1);
  const q = tree.add(c, -1, "user", "One?");
  tree.add(c, q.id, "assistant", "first");
  const second = tree.add(c, q.id, "assistant", "second");
  second.tokens = [["second", -1, []]];
  const b = tree.branch(c, second, "b", 2);
  assert.deepEqual(texts(b), ["One?", "second"]);
  assert.equal(b.nodes.length, 2);
  assert.ok(tree.valid(b));
  b.nodes[1].tokens.push(1);
  assert.equal(second.tokens.length, 1);
});

test("what storage may hold instead of a chat is no chat", () => {
  const good = () => { const c = tree.newChat("a", 1); tree.add(c, -1, "user", "x"); return c; };
  assert.ok(tree.valid(good()));
  for (const spoil of [(c) => { c.leaf = 1; }, (c) => { c.nodes[0].parent = 0; }, (c) => { c.nodes[0].last = 0; }, (c) => { c.nodes[0].text = 1; },
    (c) => { c.nodes[0] = null; }, (c) => { c.nodes = {}; }, (c) => { c.system = undefined; }, (c) => { c.nodes[0].role = "system"; }]) {
    const c = good();
    spoil(c);
    assert.ok(!tree.valid(c), spoil.toString());
  }
  for (const other of [null, 1, "x", [], {}]) assert.ok(!tree.valid(other));
});

test("empty controls send nothing, others their values", () => {
  assert.deepEqual(parameters({}, false), {});
  assert.deepEqual(parameters({}, true), { logprobs: true, top_logprobs: 5, return_token_ids: true, return_token_origins: true });
  assert.deepEqual(parameters({ temperature: " 0.5 ", top_k: "40", stop: "END\n\nSTOP\n", extra: '{"user": "me", "top_k": 3}' }, false),
    { temperature: 0.5, top_k: 3, stop: ["END", "STOP"], user: "me" });
  assert.deepEqual(parameters({ tools: "[{}]", response_format: '{"type": "object"}' }, false),
    { tools: [{}], response_format: { type: "json_schema", json_schema: { name: "answer", schema: { type: "object" } } } });
});

test("a control refuses what the server would", () => {
  for (const [name, text, says] of [["temperature", "3", /from 0 to 2/], ["temperature", "hot", /number/], ["top_k", "1.5", /whole/],
    ["stop", "1\n2\n3\n4\n5", /at most 4/], ["extra", "[]", /no object/], ["extra", "{", /JSON/], ["tools", "{}", /no array/], ["response_format", "null", /no object/], ["extra", '{"stream": false}', /itself/]]) {
    assert.throws(() => read(controls.find((c) => c.name === name), text), says);
  }
});

const bodyOf = (...chunks) => new ReadableStream({ start(c) { for (const x of chunks) c.enqueue(new TextEncoder().encode(x)); c.close(); } });
const all = async (body) => { const out = []; for await (const x of dataOf(body)) out.push(x); return out; };

test("events are whole however the network cuts them", async () => {
  const text = ': ping\n\ndata: {"a":"ü"}\r\n\r\ndata: {"a":2}\n\ndata: [DONE]\n\ndata: {"a":3}\n\n';
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 2, 7, 1000]) {
    const body = new ReadableStream({ start(c) { for (let i = 0; i < bytes.length; i += size) c.enqueue(bytes.slice(i, i + size)); c.close(); } });
    assert.deepEqual(await all(body), [{ a: "ü" }, { a: 2 }]);
  }
  await assert.rejects(all(bodyOf('data: {"a":1}\n\n')), /broke before/);
  assert.throws(() => new Lines().push("x".repeat(17 << 20)), /too long/);
});

const exposition = (running, hits, sum, n) => `# HELP x y
vllm:num_requests_running{engine="0",model_name="m"} ${running}
vllm:num_requests_running{engine="0",model_name="other"} 7
tokens_total{model_name="m",a="x}\\"y"} ${hits}
kvasir:kv_blocks{model_name="m",state="used"} 3
kvasir:kv_blocks{model_name="m",state="free"} 5
h_sum{model_name="m"} ${sum}
h_count{model_name="m"} ${n}
process_cpu_seconds_total 1.5e+00
`;

test("metrics are those of one model", () => {
  const a = new Metrics(exposition(1, 10, 0.5, 2), "m", 1000);
  const b = new Metrics(exposition(2, 30, 1.1, 6), "m", 3000);
  assert.equal(b.get("vllm:num_requests_running"), 2);
  assert.equal(b.get("kvasir:kv_blocks"), 8);
  assert.equal(b.get("kvasir:kv_blocks", { state: "used" }), 3);
  assert.equal(b.get("process_cpu_seconds_total"), 1.5);
  assert.equal(b.get("absent"), undefined);
  assert.equal(rate(a, b, "tokens_total"), 10);
  assert.equal(rate(b, a, "tokens_total"), undefined);
  assert.ok(Math.abs(mean(a, b, "h") - 0.15) < 1e-9);
  assert.equal(mean(b, b, "h"), undefined);
});

test("blocks that share a prefix begin rows below it", () => {
  const block = (name, parent, refs = 0) => ({ name, parent, refs });
  const { cells, rows, columns } = forest([block("a", null), block("b", "a"), block("c", "a"), block("d", "b", 2), block("e", "c"), block("f", "c"), block("x", "gone")]);
  const where = Object.fromEntries(cells.map((c) => [c.block.name, [c.row, c.column, c.shared]]));
  assert.deepEqual(where, { a: [0, 0, true], b: [0, 1, false], d: [0, 2, true], c: [1, 1, true], e: [1, 2, false], f: [2, 2, false], x: [3, 0, false] });
  assert.deepEqual([rows, columns], [4, 3]);
});

test("tokens are kept with their origin if it is worth a word", () => {
  const token = { token: "a", logprob: -0.123456, top_logprobs: [{ token: "b", logprob: -1 }] };
  assert.deepEqual(compact([token, { ...token, origin: "chosen" }, { ...token, origin: "forced" }, { ...token, origin: "guessed" }]), [
    ["a", -0.1235, [["b", -1]]], ["a", -0.1235, [["b", -1]]],
    ["a", -0.1235, [["b", -1]], "forced"], ["a", -0.1235, [["b", -1]], "guessed"]]);
});
