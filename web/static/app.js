// The page: the list of chats, the one that is shown, and the answers under way. What can be tested without a browser is in
// tree.js, controls.js, sse.js and metrics.js.

import * as api from "./api.js";
import * as store from "./store.js";
import * as tree from "./tree.js";
import { parameters } from "./controls.js";
import { $, make } from "./dom.js";
import { EngineView } from "./engine.js";
import { MessageView } from "./messages.js";
import { Settings } from "./settings.js";
import { compact, hideTip } from "./tokens.js";

const state = {
  chats: store.loadChats(), // the latest first; without the one that has no message yet
  chat: null,
  views: [],                // of the messages shown
  running: new Map(),       // chat to the AbortController of its answer
  models: [],
  follow: true,             // new text is scrolled to: the log was last scrolled to its end
};

const settings = new Settings({
  keysChanged: () => { loadModels(); if (!$("engine").hidden) engine.open(baseModel()); },
  systemChanged: (text) => { state.chat.system = text; if (state.chat.nodes.length) save(state.chat); },
});
const engine = new EngineView(() => settings.keys.admin);

// say tells screen readers. note tells everybody: its text is shown for some seconds.
let noted = 0;
function say(text) {
  clearTimeout(noted);
  $("status").classList.add("away");
  $("status").textContent = text;
}

function note(text) {
  say(text);
  $("status").classList.remove("away");
  noted = setTimeout(() => $("status").classList.add("away"), 4000);
}

function save(chat) {
  if (!store.saveChat(chat)) note("The browser's storage is full: this conversation is lost when the page closes.");
}

// The model: its name, its context, and, for an adapter, the model below.
const chosen = () => state.models.find((m) => m.id === $("model").value);
const context = () => chosen()?.max_model_len ?? state.models.find((m) => m.id === chosen()?.parent)?.max_model_len;
const baseModel = () => {
  const m = chosen();
  return m?.parent ? state.models.find((b) => b.id === m.parent)?.root ?? m.parent : m?.root ?? m?.id ?? "";
};

async function loadModels() {
  try {
    state.models = await api.models(settings.keys.api);
    problem("");
  } catch (err) {
    state.models = [];
    problem(err.message);
    if (err.status === 401) settings.complain("api-key", "The server wants an API key.");
  }
  const was = settings.values.model ?? "";
  $("model").replaceChildren(...state.models.map((m) =>
    make("option", { value: m.id }, m.parent ? `${m.id} (adapter of ${m.parent})` : m.id)));
  if (state.models.some((m) => m.id === was)) $("model").value = was;
  $("model").disabled = state.models.length === 0;
}

function problem(text) {
  $("problem")?.remove();
  if (!text) return;
  $("composer").prepend(make("p", { id: "problem", class: "problem", role: "alert" }, text + " ",
    make("button", { type: "button", onclick: loadModels }, "Try again")));
}

// Chats.

function open(chat) {
  state.chat = chat;
  $("system").value = chat.system;
  draw();
  drawChats();
  toEnd();
}

const fresh = () => open(tree.newChat(crypto.getRandomValues(new Uint32Array(2)).join("-"), Date.now(), state.chat?.system));

function drawChats() {
  $("chats").replaceChildren(...state.chats.map((chat) => make("li", chat === state.chat ? { class: "here" } : {},
    make("button", { type: "button", class: "open", "aria-current": chat === state.chat ? "page" : undefined,
      onclick: () => { open(chat); showSide(false); } }, (state.running.has(chat) ? "… " : "") + (chat.title || "Untitled")),
    make("button", { type: "button", class: "remove", "aria-label": `Delete the chat ${chat.title}`, onclick: () => remove(chat) }, "✕"))));
}

function remove(chat) {
  if (!confirm(`Delete the chat "${chat.title}"?`)) return;
  state.running.get(chat)?.abort();
  store.deleteChat(chat.id);
  state.chats = state.chats.filter((c) => c !== chat);
  if (chat === state.chat) fresh(); else drawChats();
  $("new").focus();
}

// touch notes that a chat changed.
function touch(chat) {
  chat.updated = Date.now();
  state.chats = [chat, ...state.chats.filter((c) => c !== chat)];
  save(chat);
  drawChats();
}

// Messages.

const does = {
  edit(node, text) {
    const chat = state.chat;
    if (state.running.has(chat)) return note("An answer is under way: stop it first.");
    const asked = node.role === "user" ? request() : {};
    if (!asked) return;
    const next = tree.add(chat, node.parent, node.role, text);
    touch(chat);
    if (node.role === "user") answer(chat, next, asked); else draw();
    $("prompt").focus();
  },
  regenerate(node) {
    if (state.running.has(state.chat)) return note("An answer is under way: stop it first.");
    const asked = request();
    if (asked) answer(state.chat, state.chat.nodes[node.parent], asked);
  },
  branch(node) {
    const copy = tree.branch(state.chat, node, crypto.getRandomValues(new Uint32Array(2)).join("-"), Date.now());
    touch(copy);
    open(copy);
    note("A new chat continues from here.");
    $("prompt").focus();
  },
  results(node, results) {
    if (state.running.has(state.chat)) return note("An answer is under way: stop it first.");
    const asked = request();
    if (!asked) return;
    const next = Object.assign(tree.add(state.chat, node.id, "tool", ""), { results });
    shown(node).update(); // without the form
    answer(state.chat, next, asked);
  },
  show(node) {
    if (state.running.has(state.chat)) return note("An answer is under way: stop it first.");
    tree.show(state.chat, node);
    save(state.chat);
    draw();
    state.views.find((v) => v.node === node)?.el.querySelector(".versions button:enabled")?.focus();
  },
  // prompt returns the texts of a prompt's cached tokens and of the others.
  async prompt({ prompt, info }) {
    const at = info.cached ?? 0, model = info.model ?? ($("model").value || undefined);
    return Promise.all([prompt.slice(0, at), prompt.slice(at)].map((ids) => ids.length ? api.detokenize(ids, model, settings.keys.api) : ""));
  },
  async copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // without TLS browsers have no clipboard object
      const box = make("textarea", { class: "away" });
      box.value = text;
      document.body.append(box);
      const focused = document.activeElement;
      box.select();
      document.execCommand("copy");
      box.remove();
      focused?.focus();
    }
    note("Copied.");
  },
};

function draw() {
  hideTip();
  const nodes = tree.path(state.chat), views = nodes.map((node) =>
    state.views.find((v) => v.node === node && v.chat === state.chat) ?? Object.assign(new MessageView(state.chat, node, does, context()), { chat: state.chat }));
  state.views = views;
  $("log").replaceChildren(...(views.length ? views.map((v) => v.el) : [welcome()]));
  const busy = state.running.has(state.chat);
  $("send").hidden = busy;
  $("stop").hidden = !busy;
  document.title = state.chat.title ? `${state.chat.title} – kvasir` : "kvasir";
}

function welcome() {
  const examples = ["What is a KV cache?", "What is continuous batching?", "How does paged attention work?"];
  return make("div", { class: "welcome" }, make("h2", {}, "Ask something"),
    make("p", {}, "The model runs on this server. What you write goes to it and nowhere else."),
    make("ul", {}, ...examples.map((text) => make("li", {}, make("button", { type: "button", onclick: () => send(text) }, text)))));
}

const atEnd = () => $("log").scrollHeight - $("log").scrollTop - $("log").clientHeight < 60;
const toEnd = () => { $("log").scrollTop = $("log").scrollHeight; };

function send(text) {
  const chat = state.chat;
  const asked = text.trim() && !state.running.has(chat) ? request() : null;
  if (!asked) return;
  const node = tree.add(chat, chat.leaf, "user", text);
  $("prompt").value = "";
  grow();
  answer(chat, node, asked);
}

// request returns what requests have beside their messages, null if a setting means nothing.
function request() {
  try {
    return { ...parameters(settings.values.values, settings.values.logprobs), model: $("model").value || undefined,
      stream: true, stream_options: { include_usage: true } };
  } catch (err) {
    settings.complain("c-" + err.control, err.message);
    say(err.message);
    return null;
  }
}

// answer asks for an answer to a question and shows it as it comes.
async function answer(chat, question, asked) {
  const body = { ...asked, messages: tree.messages(chat, question.id) };
  const node = tree.add(chat, question.id, "assistant", ""), abort = new AbortController();
  Object.assign(node, { live: true, info: state.models.length > 1 ? { model: body.model } : {} });
  state.running.set(chat, abort);
  touch(chat);
  if (chat === state.chat) { draw(); toEnd(); }
  say("Answering.");
  const began = performance.now(), timer = setInterval(() => shown(node)?.wait(Math.round((performance.now() - began) / 1000)), 1000);
  try {
    await receive(node, api.stream(body, settings.keys.api, abort.signal), () => shown(node)?.grow());
  } catch (err) {
    if (abort.signal.aborted) node.info.finish = "stopped";
    else {
      node.error = err.message;
      settings.complain(err.status === 401 ? "api-key" : err.param ?? "", err.message);
    }
  }
  clearInterval(timer);
  delete node.live;
  state.running.delete(chat);
  if (state.chats.includes(chat)) touch(chat); // it may be deleted by now
  if (chat === state.chat) {
    const follow = state.follow;
    shown(node)?.update();
    draw();
    if (follow) toEnd();
  }
  say(node.error ?? (node.info.finish === "stopped" ? "Stopped." : "Answer: " + node.text.slice(0, 1000)));
}

const shown = (node) => state.views.find((v) => v.node === node);

// receive adds the chunks of a stream to a node.
async function receive(node, chunks, changed) {
  const began = performance.now(), info = node.info;
  const since = () => (performance.now() - began) / 1000;
  for await (const chunk of chunks) {
    const choice = chunk.choices?.[0], delta = choice?.delta ?? {};
    const text = delta.content ?? "", thinking = delta.reasoning_content ?? delta.reasoning ?? "";
    if (text || thinking) {
      info.first ??= since();
      info.seconds = since();
      node.text += text;
      if (thinking) node.thinking = (node.thinking ?? "") + thinking;
    }
    if (delta.tool_calls) {
      info.first ??= since();
      info.seconds = since();
      node.calls = tree.gather(node.calls ?? [], delta.tool_calls);
    }
    if (choice?.logprobs?.content) {
      node.tokens = [...(node.tokens ?? []), ...compact(choice.logprobs.content)];
      info.made = node.tokens.length;
    }
    if (Array.isArray(chunk.prompt_token_ids)) node.prompt = chunk.prompt_token_ids;
    if (choice?.finish_reason) info.finish = choice.finish_reason;
    if (chunk.usage) {
      info.prompt = chunk.usage.prompt_tokens;
      info.made = chunk.usage.completion_tokens;
      info.cached = chunk.usage.prompt_tokens_details?.cached_tokens ?? 0;
    }
    changed();
  }
}

const stop = () => state.running.get(state.chat)?.abort();

// The frame around.

function showSide(on) {
  document.body.classList.toggle("side-open", on);
  $("menu").setAttribute("aria-expanded", String(on));
}

function showPanel(name) { // "engine", "settings" or "" for none
  for (const id of ["engine", "settings"]) {
    $(id).hidden = id !== name;
    $("open-" + id).setAttribute("aria-expanded", String(id === name));
  }
  if (name === "engine") engine.open(baseModel()); else engine.close();
  if (name) $(name + "-title").focus();
}
settings.show = () => showPanel("settings");

function grow() {
  const box = $("prompt");
  box.style.height = "auto";
  box.style.height = Math.min(box.scrollHeight + 2, innerHeight * 0.4) + "px";
}

function download(name, value) {
  const url = URL.createObjectURL(new Blob([JSON.stringify(value, null, 1)], { type: "application/json" }));
  make("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

function listen() {
  $("composer").addEventListener("submit", (event) => { event.preventDefault(); send($("prompt").value); });
  $("stop").addEventListener("click", () => { stop(); $("prompt").focus(); });
  $("new").addEventListener("click", () => { fresh(); showSide(false); $("prompt").focus(); });
  $("menu").addEventListener("click", () => showSide(!document.body.classList.contains("side-open")));
  $("model").addEventListener("change", () => {
    settings.set("model", $("model").value);
    if (!$("engine").hidden) engine.open(baseModel());
  });
  for (const id of ["engine", "settings"]) {
    $("open-" + id).addEventListener("click", () => showPanel($(id).hidden ? id : ""));
    $(id).querySelector(".close").addEventListener("click", () => { showPanel(""); $("open-" + id).focus(); });
  }
  $("export").addEventListener("click", () => download("kvasir-chat.json", state.chat));
  $("erase").addEventListener("click", () => {
    if (!confirm("Delete all conversations in this browser?")) return;
    for (const abort of state.running.values()) abort.abort();
    for (const chat of state.chats) store.deleteChat(chat.id);
    state.chats = [];
    fresh();
  });
  $("prompt").addEventListener("input", grow);
  $("prompt").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send($("prompt").value);
    } else if (event.key === "ArrowUp" && $("prompt").value === "") {
      const last = state.views.findLast((v) => v.node.role === "user");
      if (last && !state.running.has(state.chat)) { event.preventDefault(); last.edit(); }
    }
  });
  document.addEventListener("keydown", escape);
  document.addEventListener("keydown", (event) => {
    if (event.altKey && event.code === "KeyN") { event.preventDefault(); $("new").click(); }
  });
  window.addEventListener("pagehide", () => { for (const chat of state.running.keys()) store.saveChat(chat); });
  $("log").addEventListener("grown", () => { if (state.follow) toEnd(); });
  $("log").addEventListener("copy-text", (event) => does.copy(event.detail));
  $("log").addEventListener("scroll", () => { state.follow = atEnd(); hideTip(); }, { passive: true });
  window.addEventListener("storage", () => { // another tab changed a chat
    const own = [...state.running.keys(), state.chat], ids = new Set(own.map((c) => c.id));
    state.chats = [...own.filter((c) => state.chats.includes(c)), ...store.loadChats().filter((c) => !ids.has(c.id))]
      .sort((a, b) => b.updated - a.updated);
    drawChats();
  });
}

// escape closes what is on top, or stops the answer.
function escape(event) {
  if (event.key !== "Escape" || event.defaultPrevented) return;
  const panel = ["engine", "settings"].find((id) => !$(id).hidden);
  if (!$("tip").hidden) hideTip();
  else if (document.body.classList.contains("side-open")) { showSide(false); $("menu").focus(); }
  else if (state.running.has(state.chat)) { stop(); $("prompt").focus(); }
  else if (panel) { showPanel(""); $("open-" + panel).focus(); }
}

listen();
fresh();
loadModels();
