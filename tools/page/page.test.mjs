// The page in a real browser, against a real server with the built-in model.
//
//	npm ci && node --test
//
// KVASIR is the program (default: built anew), CHROMIUM the browser (default: chromium), SCREENSHOTS a folder for pictures.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, before, beforeEach, test } from "node:test";
import puppeteer from "puppeteer-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const wide = { width: 1400, height: 900 }, narrow = { width: 390, height: 844 }, phone = { ...narrow, isMobile: true, hasTouch: true };

let server, locked, browser, context, page, problems;

// serve starts a server and returns its address.
async function serve(binary, ...flags) {
  const child = spawn(binary, ["serve", "--port", "0", "--threads", "1", ...flags], { stdio: ["ignore", "ignore", "pipe"] });
  const log = [];
  for await (const line of createInterface({ input: child.stderr })) {
    log.push(line);
    const at = /msg=serving address=(\S+)/.exec(line);
    if (at) {
      child.stderr.resume();
      return { url: at[1] + "/", child };
    }
  }
  throw new Error("the server did not start: " + log.join("\n"));
}

before(async () => {
  const binary = process.env.KVASIR ?? join(mkdtempSync(join(tmpdir(), "kvasir-page-")), "kvasir");
  if (!process.env.KVASIR) execFileSync("go", ["build", "-o", binary, "./cmd/kvasir"], { cwd: new URL("../..", import.meta.url) });
  server = await serve(binary);
  locked = await serve(binary, "--api-key", "open sesame", "--admin-key", "the boss");
  browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
  if (process.env.SCREENSHOTS) mkdirSync(process.env.SCREENSHOTS, { recursive: true });
});

after(async () => {
  await browser?.close();
  server?.child.kill();
  locked?.child.kill();
});

beforeEach(async () => {
  context = await browser.createBrowserContext();
  page = await context.newPage();
  problems = [];
  page.on("pageerror", (err) => problems.push(String(err)));
  page.on("dialog", (dialog) => dialog.accept());
  page.on("console", (m) => {
    const expected = /status of 40[0134]/.test(m.text()); // what the browser itself says of a refused request
    if (m.type() === "error" && !expected) problems.push(m.text());
  });
  page.on("request", (r) => {
    if (!r.url().startsWith(server.url) && !r.url().startsWith(locked.url) && !/^(blob|about):/.test(r.url())) problems.push("asked for " + r.url());
  });
});

afterEach(async () => {
  await context.close();
  assert.deepEqual(problems, [], "errors on the console, or requests to elsewhere");
});

async function open(url = server.url, viewport = wide) {
  await page.setViewport(viewport);
  await page.goto(url);
  await page.waitForSelector("#model option, #problem");
}

const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
const text = (selector) => page.$eval(selector, (el) => el.innerText);
const count = (selector) => page.$$eval(selector, (all) => all.length);
const done = (n) => page.waitForFunction((n) => document.querySelectorAll('.msg.assistant[aria-busy="false"] .foot button').length > 0 &&
  document.querySelectorAll(".msg.assistant").length === n && !document.querySelector('[aria-busy="true"]'), {}, n);

async function ask(question, n = 1) {
  await page.focus("#prompt");
  await page.keyboard.type(question);
  await press("Enter");
  await done(n);
}

const shot = async (name) => { if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, name + ".png") }); };

// accessible fails if axe finds anything serious, or worse.
async function accessible(where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const bad = violations.filter((v) => ["serious", "critical"].includes(v.impact));
  assert.deepEqual(bad.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 100)).join(" | ")}`), [], where);
}

// canned answers chats with a text of ours in place of the model's.
async function canned(answer) {
  await page.setRequestInterception(true);
  page.on("request", (r) => {
    if (!r.url().endsWith("/v1/chat/completions")) return r.continue();
    const pieces = answer.match(/[^]{1,7}/gu).map((content) => ({ choices: [{ index: 0, delta: { content } }] }));
    const body = [...pieces, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }].map((c) => `data: ${JSON.stringify(c)}\n\n`).join("");
    r.respond({ status: 200, contentType: "text/event-stream", body: body + "data: [DONE]\n\n" });
  });
}

test("a chat from the keyboard alone", async () => {
  await open();
  await page.keyboard.type("What is a KV cache?"); // the box has the focus
  await press("Enter");
  await done(1);
  const first = await text(".msg.assistant .prose");
  assert.match(first, /key|cache/i);
  await page.keyboard.type("And paged");
  await page.keyboard.down("Shift");
  await press("Enter");
  await page.keyboard.up("Shift");
  await page.keyboard.type("attention?");
  await press("Enter");
  await done(2);
  assert.equal(await text(".msg.user:nth-of-type(3) .plain"), "And paged\nattention?");
  await press("ArrowUp"); // edits the last question
  assert.equal(await page.evaluate(() => document.activeElement.value), "And paged\nattention?");
  await page.keyboard.type(" In short.");
  await press("Enter");
  await done(2);
  assert.match(await text(".msg.user:nth-of-type(3) .plain"), /In short\.$/);
  assert.equal(await text(".msg.user:nth-of-type(3) .versions"), "‹2/2›");
  // From the box back to the buttons of the answer, and to the version before.
  for (let i = 0; i < 40; i++) {
    await page.keyboard.down("Shift");
    await press("Tab");
    await page.keyboard.up("Shift");
    if (await page.evaluate(() => document.activeElement.getAttribute("aria-label")) === "Version before") break;
  }
  await press("Enter");
  assert.equal(await text(".msg.user:nth-of-type(3) .versions"), "‹1/2›");
  await page.keyboard.down("Alt");
  await press("KeyN");
  await page.keyboard.up("Alt");
  assert.equal(await count(".msg"), 0);
  assert.equal(await page.evaluate(() => document.activeElement.id), "prompt");
  assert.equal(await count("#chats li"), 1);
});

test("conversations outlast the page", async () => {
  await open();
  await ask("What is a KV cache?");
  const answer = await text(".msg.assistant .prose");
  await page.reload();
  await page.waitForSelector("#model option");
  assert.equal(await count(".msg"), 0);
  await page.click("#chats .open");
  assert.equal(await text(".msg.assistant .prose"), answer);
  assert.match(await text(".msg.assistant .facts"), /\d+ tokens.*first after.*prompt of \d+/);
  await page.click("#open-settings");
  const client = await page.createCDPSession(), folder = mkdtempSync(join(tmpdir(), "kvasir-download-"));
  await client.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder, eventsEnabled: true, browserContextId: context.id });
  const downloaded = new Promise((resolve) => client.on("Browser.downloadProgress", (e) => { if (e.state === "completed") resolve(); }));
  await page.click("#export");
  await downloaded;
  assert.equal(JSON.parse(readFileSync(join(folder, "kvasir-chat.json"), "utf8")).nodes[0].text, "What is a KV cache?");
  await press("Escape");
  await page.click("#chats .remove");
  assert.equal(await count("#chats li"), 0);
  assert.equal(await page.evaluate(() => Object.keys(localStorage).filter((k) => k.startsWith("kvasir.chat.")).length), 0);
});

test("an answer under way when the page closes is kept as far as it came", async () => {
  await open();
  await page.type("#prompt", "What is a KV cache?");
  await page.evaluate(() => { // its stream stays open
    window.fetch = async () => new Response(new ReadableStream({
      start: (c) => c.enqueue(new TextEncoder().encode('data: {"choices":[{"delta":{"content":"Half of"}}]}\n\n')),
    }));
  });
  await press("Enter");
  await page.waitForFunction(() => document.querySelector(".prose")?.innerText === "Half of");
  await page.reload();
  await page.waitForSelector("#chats .open");
  await page.click("#chats .open");
  assert.equal(await text(".prose"), "Half of");
  assert.match(await text(".msg.assistant .facts"), /stopped$|stopped ·/);
});

test("what happened is shown, not only said: a copy, a wait, an answer under way", async () => {
  await open();
  await ask("What is a KV cache?");
  const button = (label) => page.evaluateHandle((label) => [...document.querySelectorAll(".msg.assistant .foot button")].find((b) => b.textContent === label), label);
  await (await button("Copy")).click();
  await page.waitForFunction(() => !document.querySelector("#status").classList.contains("away"));
  assert.equal(await text("#status"), "Copied.");
  await accessible("a note");
  await page.setRequestInterception(true);
  page.on("request", (r) => { if (!r.url().endsWith("/v1/chat/completions")) r.continue(); }); // never answered
  await page.type("#prompt", "Go on");
  await press("Enter");
  await page.waitForFunction(() => /^waiting for \d+ s$/.test(document.querySelector(".msg:last-child .facts")?.innerText));
  await (await button("Regenerate")).click();
  assert.equal(await text("#status"), "An answer is under way: stop it first.");
  await press("Escape");
});

test("an answer is regenerated, branched off, and stopped", async () => {
  await open();
  await ask("What is a KV cache?");
  const button = (label) => page.evaluateHandle((label) => [...document.querySelectorAll(".msg.assistant .foot button")].find((b) => b.textContent === label), label);
  await (await button("Regenerate")).click();
  await page.waitForFunction(() => document.querySelector(".msg.assistant .versions")?.innerText === "‹2/2›");
  await (await button("Branch")).click();
  assert.equal(await count("#chats li"), 2);
  assert.equal(await count(".versions"), 0);
  await page.setRequestInterception(true);
  page.on("request", (r) => { if (!r.url().endsWith("/v1/chat/completions")) r.continue(); }); // never answered
  await page.focus("#prompt");
  await page.keyboard.type("Go on");
  await press("Enter");
  await page.waitForSelector("#stop:not([hidden])");
  await press("Escape");
  await page.waitForSelector("#send:not([hidden])");
  assert.match(await text(".msg:last-child .facts"), /stopped$|stopped ·/);
});

test("hostile answers stay text", async () => {
  await canned([
    "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'><svg onload=window.pwned=1>",
    "[a](javascript:window.pwned=1) [b](data:text/html,<script>window.pwned=1</script>) [c](JaVaScRiPt&colon;window.pwned=1) [d](https://example.org/x \"t\")",
    "![image](https://example.org/secret.png) <https://example.org/auto> <style>body { display: none }</style>",
    "| a | b |\n|---|--:|\n| <b>x</b> | `<i>y</i>` |",
    "```html\n<script>window.pwned = 1</script>\n```",
    "$\\href{javascript:window.pwned=1}{x}$ $\\includegraphics{https://example.org/y.png}$ $\\rule{1000em}{1000em}$ $x^2$ costs $5 and $6.",
    "$$\\class{evil}{x} + \\frac{1}{2}$$",
    "> ".repeat(2000) + "deep", "[".repeat(3000), "**".repeat(3000), "\\[a\n".repeat(5000), "`".repeat(999),
  ].join("\n\n"));
  await open();
  await ask("Attack!");
  const found = await page.evaluate(() => {
    const prose = document.querySelector(".prose");
    return {
      pwned: window.pwned ?? 0,
      elements: [...new Set([...prose.querySelectorAll("script, img, svg, style, iframe, object, b, i, form, input, link")].map((e) => e.tagName))],
      links: [...prose.querySelectorAll("a")].map((a) => a.getAttribute("href")),
      rel: [...prose.querySelectorAll("a")].every((a) => a.rel.includes("noopener") && a.target === "_blank"),
      handlers: [...prose.querySelectorAll("*")].flatMap((e) => e.getAttributeNames()).filter((n) => n.startsWith("on") || n === "id" || n === "name"),
      math: prose.querySelectorAll("math").length,
      width: document.documentElement.scrollWidth <= innerWidth,
    };
  });
  assert.equal(found.pwned, 0);
  assert.deepEqual(found.elements, []);
  assert.deepEqual(found.links, ["https://example.org/x", "https://example.org/secret.png", "https://example.org/auto"]);
  assert.ok(found.rel);
  assert.deepEqual(found.handlers, []);
  assert.ok(found.math >= 1, "no formula");
  assert.ok(found.width, "the page scrolls sideways");
  assert.match(await text(".prose"), /costs \$5 and \$6/);
});

test("the policy stops what is not the page's own", async () => {
  await open();
  const got = await page.evaluate(async () => {
    const out = [];
    try { document.body.innerHTML += "x"; out.push("innerHTML"); } catch { /* as it should */ }
    try { document.createElement("script").text = "1"; out.push("script"); } catch { /* as it should */ }
    const image = new Image();
    out.push(...await new Promise((resolve) => {
      document.addEventListener("securitypolicyviolation", (e) => { if (e.effectiveDirective === "img-src") resolve([]); });
      image.onload = () => resolve(["image"]);
      image.src = "http://127.0.0.2:9/x.png";
    }));
    try { await fetch("http://127.0.0.2:9/"); out.push("fetch"); } catch { /* as it should */ }
    return out;
  });
  assert.deepEqual(got, []);
  problems = problems.filter((p) => !/Content Security Policy|Trusted|asked for http:\/\/127\.0\.0\.2/.test(p));
});

const sample = "# Sorting\n\nThree *well-known* algorithms, with **n** items:\n\n| name | time | stable |\n|:--|--:|:-:|\n| merge sort | $O(n \\log n)$ | yes |\n" +
  "| quicksort | $O(n^2)$ | no |\n\n```go\n// reverse returns s backwards.\nfunc reverse(s string) string {\n\tr := []rune(s)\n\tslices.Reverse(r) // in place\n\treturn string(r)\n}\n```\n\n" +
  "1. split\n2. sort\n   - [ ] left\n   - [x] right\n3. merge, see [Wikipedia](https://en.wikipedia.org/wiki/Merge_sort)\n\n> Divide and conquer.\n\n" +
  "> \\[\n> x\n> \\]\n\n$$T(n) = 2\\,T\\!\\left(\\frac{n}{2}\\right) + \\Theta(n), \\qquad \\sum_{i=0}^{\\log_2 n} 2^i \\frac{n}{2^i} = n \\log_2 n$$\n\nDone.";

test("Markdown, code and formulas, while they stream and after", async () => {
  await canned(sample);
  await open();
  await ask("Explain sorting.");
  const parts = await page.$$eval(".prose > *", (all) => all.map((e) => e.className || e.tagName));
  assert.deepEqual(parts, ["H3", "P", "wide", "code", "OL", "BLOCKQUOTE", "BLOCKQUOTE", "math", "P"]);
  assert.equal(await count(".prose math"), 4);
  assert.equal(await count(".prose li"), 5);
  assert.deepEqual(await page.$$eval(".prose .task", (all) => all.map((e) => e.innerText)), ["☐left", "☑right"]);
  assert.ok(await count(".c-keyword") >= 2 && await count(".c-comment") === 2);
  // Block by block, each prefix ends in what the whole text gives.
  const same = await page.evaluate(async (sample) => {
    const { Rendered } = await import("/web/markdown.js");
    const one = document.createElement("div"), two = document.createElement("div"), grown = new Rendered(one);
    for (let i = 1; i <= sample.length; i++) grown.update(sample.slice(0, i));
    new Rendered(two).update(sample, true);
    return one.isEqualNode(two);
  }, sample);
  assert.ok(same, "the blocks of a growing text differ from those of the whole");
  await accessible("an answer");
  for (const theme of ["light", "dark"]) {
    await page.evaluate((theme) => { document.documentElement.dataset.theme = theme; }, theme);
    await shot("answer-" + theme);
    await accessible("an answer, " + theme);
  }
  await page.setViewport(narrow);
  assert.equal(await count(".prose math"), 4);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page scrolls sideways on a phone");
  const lines = await page.$$eval(".prose th", (all) => all.map((e) => { const r = document.createRange(); r.selectNodeContents(e); return r.getClientRects().length; }));
  assert.deepEqual(lines, [1, 1, 1], "a word of the table is broken");
  await shot("answer-phone");
  await accessible("an answer on a phone");
});

test("tools are called, and their results sent", async () => {
  const bodies = [];
  await page.setRequestInterception(true);
  page.on("request", (r) => {
    if (!r.url().endsWith("/v1/chat/completions")) return r.continue();
    bodies.push(JSON.parse(r.postData()));
    const deltas = bodies.length > 1 ? [{ content: "Take an umbrella." }] :
      [{ tool_calls: [{ index: 0, id: "c1", type: "function", function: { name: "weather", arguments: "" } }] },
        { tool_calls: [{ index: 0, function: { arguments: '{"in": "<b>Oslo</b>"}' } }] }];
    r.respond({ status: 200, contentType: "text/event-stream",
      body: deltas.map((delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`).join("") + "data: [DONE]\n\n" });
  });
  await open();
  await page.click("#open-settings");
  await page.evaluate(() => { document.querySelector("#c-tools").closest("details").open = true; });
  await page.type("#c-tools", '[{"type": "function", "function": {"name": "weather"}}]');
  await ask("Weather?");
  assert.match(await text(".msg.assistant .code"), /call of weather\s+\{"in": "<b>Oslo<\/b>"\}/);
  await accessible("a call");
  await page.type(".results textarea", "rain");
  await page.click(".results button");
  await done(2);
  assert.equal(await count(".results"), 0);
  assert.match(await text(".msg.tool"), /result of weather\s+rain/);
  assert.equal(await text(".msg:last-child .prose"), "Take an umbrella.");
  assert.deepEqual(bodies[1].messages.slice(1), [
    { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: { name: "weather", arguments: '{"in": "<b>Oslo</b>"}' } }] },
    { role: "tool", tool_call_id: "c1", content: "rain" }]);
  assert.equal(bodies[1].tools.length, 1);
  await shot("tools");
});

test("the token view shows probabilities and alternatives", async () => {
  await open();
  await page.click("#open-settings");
  await page.click("#logprobs");
  await press("Escape");
  await ask("What is a KV cache?");
  await page.evaluate(() => document.querySelector(".msg.assistant [aria-pressed]").click());
  const whole = await page.$$eval(".tokens .tok", (all) => all.map((e) => e.textContent).join(""));
  assert.match(whole, /cache/);
  await page.click("details:has(.prompt) summary");
  await page.waitForFunction(() => /What is a KV cache\?/.test(document.querySelector(".prompt").innerText));
  await page.focus(".tok");
  await press("ArrowRight", "ArrowRight");
  assert.equal(await page.$eval(".tokens", (e) => [...e.children].indexOf(document.activeElement)), 2);
  assert.equal(await count("#tip tr"), 5);
  assert.match(await text("#tip .chosen"), /%/);
  await accessible("the token view");
  await page.hover(".tok:nth-child(4)");
  await shot("tokens");
  await ask("What is a block table?", 2);
  await page.evaluate(() => document.querySelector(".msg:last-child [aria-pressed]").click());
  await page.click(".msg:last-child details:has(.prompt) summary");
  await page.waitForFunction(() => /What is a KV cache\?/.test(document.querySelector(".msg:last-child .prompt mark")?.innerText));
  assert.match(await text(".msg:last-child .prompt"), /What is a block table\?/);
  await accessible("the prompt's tokens");
  await shot("prompt");
});

test("the token view shows which tokens a schema forced, and which were guessed", async () => {
  await open();
  await page.click("#open-settings");
  await page.click("#logprobs");
  await page.evaluate(() => document.querySelector("#c-response_format").closest("details").open = true);
  await page.type("#c-response_format", '{"type": "object", "properties": {"answer": {"const": "a KV cache"}}, "required": ["answer"], "additionalProperties": false}');
  await press("Escape");
  await ask("What is paged?");
  await page.evaluate(() => document.querySelector(".msg.assistant [aria-pressed]").click());
  const forced = await page.$$eval(".tokens .tok.forced", (all) => all.map((e) => e.textContent).join(""));
  assert.match(forced, /a KV cache/);
  assert.match(await text(".legend"), /forced: nothing else was allowed$/);
  await page.hover(".tokens .tok.forced");
  assert.match(await text("#tip caption"), /this one was forced/);
  assert.match(await page.$eval(".tokens .tok.forced", (e) => e.getAttribute("aria-label")), /forced$/);
  await accessible("forced tokens");
  await shot("forced");
});

test("settings reach the request, and a wrong one is named", async () => {
  await open();
  const bodies = [];
  page.on("request", (r) => { if (r.method() === "POST") bodies.push(JSON.parse(r.postData())); });
  await page.click("#open-settings");
  await page.type("#system", "Be brief.");
  await page.type("#c-temperature", "0");
  await page.type("#c-max_tokens", "3");
  await ask("What is a KV cache?");
  assert.deepEqual(bodies[0], { temperature: 0, max_tokens: 3, model: "kvasir-mini", stream: true, stream_options: { include_usage: true },
    messages: [{ role: "system", content: "Be brief." }, { role: "user", content: "What is a KV cache?" }] });
  assert.match(await text(".facts"), /^3 tokens.*cut off/);
  await page.type("#c-temperature", "9");
  assert.equal(await page.$eval("#c-temperature", (e) => e.getAttribute("aria-invalid")), "true");
  await page.focus("#prompt");
  await page.keyboard.type("x");
  await press("Enter"); // is not sent
  assert.equal(await page.evaluate(() => document.activeElement.id), "c-temperature");
  assert.deepEqual([await count(".msg"), await page.$eval("#prompt", (e) => e.value)], [2, "x"]);
  await page.$eval("#prompt", (e) => { e.value = ""; });
  await page.$eval("#c-temperature", (e) => { e.value = ""; e.dispatchEvent(new Event("input")); });
  await page.evaluate(() => { document.querySelector("#c-extra").closest("details").open = true; });
  await page.type("#c-extra", '{"top_logprobs": 99}');
  await ask("Again", 2);
  assert.match(await text(".msg:last-child .problem"), /top_logprobs/);
  await shot("settings");
  await accessible("settings");
});

test("an adapter is chosen among the models, and remembered", async () => {
  await page.setRequestInterception(true);
  const bodies = [];
  page.on("request", (r) => {
    const list = [{ id: "kvasir-mini", root: "kvasir-mini", max_model_len: 2048 }, { id: "sql", root: "/x", parent: "kvasir-mini" }];
    if (r.url().endsWith("/v1/models")) return r.respond({ status: 200, contentType: "application/json", body: JSON.stringify({ data: list }) });
    if (r.method() === "POST") bodies.push(JSON.parse(r.postData()));
    r.continue();
  });
  await open();
  assert.deepEqual(await page.$$eval("#model option", (all) => all.map((o) => o.textContent)), ["kvasir-mini", "sql (adapter of kvasir-mini)"]);
  await page.select("#model", "sql");
  await page.click("#open-engine");
  await page.waitForSelector(".tiles"); // those of the model below
  await page.reload();
  await page.waitForSelector("#model option");
  assert.equal(await page.$eval("#model", (e) => e.value), "sql");
  await ask("Hello");
  assert.equal(bodies[0].model, "sql");
  assert.match(await text(".msg.assistant .problem"), /sql.*does not exist/);
});

test("a server with keys asks for them", async () => {
  await open(locked.url);
  await page.waitForSelector("#problem");
  assert.equal(await page.evaluate(() => document.activeElement.id), "api-key");
  await page.keyboard.type("open sesame");
  await press("Tab");
  await page.waitForSelector("#model option");
  await press("Escape");
  await ask("What is a KV cache?");
  assert.equal(await page.evaluate(() => localStorage.getItem("kvasir.keys")), null);
  await page.click("#open-engine");
  await page.waitForFunction(() => /admin key/.test(document.querySelector("#engine-body").innerText));
  await page.click("#open-settings");
  await page.type("#admin-key", "the boss");
  await page.click("#remember");
  await page.click("#open-engine");
  await page.waitForSelector(".map rect");
  assert.match(await page.evaluate(() => localStorage.getItem("kvasir.keys")), /the boss/);
});

test("the engine view is live", async () => {
  await open();
  await ask("What is a KV cache?");
  await page.click("#open-engine");
  await page.waitForSelector(".map rect");
  await ask("What is paged attention?", 2);
  await page.waitForFunction(() => /\d ms/.test([...document.querySelectorAll(".tiles div")].find((d) => /First token/.test(d.innerText)).innerText));
  await page.waitForFunction(() => !/^0/.test(document.querySelector(".chart").getAttribute("aria-label").match(/at most (.*)/)[1]));
  await shot("engine");
  await accessible("the engine view");
  await page.setViewport(narrow);
  assert.ok(await count(".map rect") > 0);
  await shot("engine-phone");
  await accessible("the engine view on a phone");
});

test("a phone shows one thing at a time", async () => {
  await open(server.url, phone);
  await ask("What is a KV cache?");
  await accessible("a chat on a phone");
  await shot("chat-phone");
  assert.equal(await page.$eval("nav", (e) => getComputedStyle(e).visibility), "hidden");
  await page.tap("#menu");
  assert.equal(await page.$eval("nav", (e) => getComputedStyle(e).visibility), "visible");
  await shot("menu-phone");
  await accessible("the menu on a phone");
  await page.tap("#new");
  assert.equal(await count(".msg"), 0);
  await accessible("an empty chat on a phone");
  await shot("welcome-phone");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
});

test("the API's page opens, and finds a path", async () => {
  for (const theme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
    await page.setViewport(theme === "light" ? wide : narrow);
    await page.goto(server.url + "docs");
    await page.waitForSelector("summary");
    await page.type("input[type=search]", "chat/comp");
    await page.click("summary");
    await page.waitForFunction(() => /messages/.test(document.querySelector("details[open]")?.innerText));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page scrolls sideways");
    await shot("docs-" + theme);
    await accessible("the API's page, " + theme);
  }
});

test("without a server the page says so", async () => {
  await page.setRequestInterception(true);
  page.on("request", (r) => (r.url().endsWith("/v1/models") ? r.abort() : r.continue()));
  await open();
  assert.match(await text("#problem"), /cannot be reached/);
  problems = problems.filter((p) => !/ERR_FAILED/.test(p));
});
