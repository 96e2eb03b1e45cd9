// The messages of a conversation as elements, with what can be done to each.

import { make } from "./dom.js";
import { Rendered } from "./markdown.js";
import { siblings } from "./tree.js";
import * as tokens from "./tokens.js";

// facts says what is known of how an answer came about. Of an answer that came all at once it says no speed.
export function facts({ info, context }) {
  if (!info) return "";
  const out = [];
  const { prompt, cached, made, first, seconds, finish, model } = info;
  if (made) out.push(`${made} tokens`);
  if (made > 1 && seconds - first > 0.05) out.push(`${((made - 1) / (seconds - first)).toFixed(1)} tokens/s`);
  if (first !== undefined) out.push(`first after ${first < 1 ? Math.round(first * 1000) + " ms" : first.toFixed(1) + " s"}`);
  if (prompt) out.push(`prompt of ${prompt}` + (cached ? `, ${cached} cached` : ""));
  if (prompt && context) out.push(`${Math.round(100 * (prompt + (made ?? 0)) / context)} % of the context`);
  if (finish === "length") out.push("cut off: too long");
  if (finish === "stopped") out.push("stopped");
  if (model) out.push(model);
  return out.join(" · ");
}

// block shows a text as it is, below a title.
const block = (title, text) => make("div", { class: "code" }, make("div", { class: "code-bar" }, title),
  make("pre", { tabindex: "0" }, make("code", {}, text)));

// MessageView shows one node of a chat. does has the functions that its buttons call: edit(node, text), regenerate,
// results, branch, copy, show.
export class MessageView {
  #chat; #node; #does; #rendered; #body; #foot; #byToken = false; #wait = 0; #drawn = 0;

  constructor(chat, node, does, context) {
    this.#chat = chat;
    this.#node = node;
    this.#does = does;
    this.context = context;
    this.#body = make("div", { class: "body" });
    this.#foot = make("div", { class: "foot" });
    const who = { user: "You", assistant: "Answer", tool: "Results of tools" }[node.role];
    this.el = make("article", { class: "msg " + node.role, "aria-label": who }, make("h2", { class: "away" }, who), this.#body, this.#foot);
    this.update(true);
  }

  get node() { return this.#node; }

  // grow shows more of an answer under way. A long text takes long to render, so it is rendered less often.
  grow() {
    if (this.#wait) return;
    this.#wait = setTimeout(() => requestAnimationFrame(() => {
      this.#wait = 0;
      if (!this.#node.live) return;
      const began = performance.now();
      this.#text(false);
      this.#drawn = performance.now() - began;
      this.el.dispatchEvent(new CustomEvent("grown", { bubbles: true }));
    }), Math.min(5000, 4 * this.#drawn));
  }

  // wait says for how many seconds nothing of an answer has come.
  wait(seconds) {
    const { live, text, thinking, calls } = this.#node;
    if (live && !text && !thinking && !calls && seconds > 1) this.#foot.replaceChildren(make("span", { class: "facts" }, `waiting for ${seconds} s`));
  }

  // update shows the node as it is now.
  update() {
    const { live } = this.#node;
    this.el.setAttribute("aria-busy", String(Boolean(live)));
    this.#rendered = null;
    this.#body.replaceChildren();
    this.#text(!live);
    this.#foot.replaceChildren(...(live ? [] : this.#actions()));
  }

  #text(whole) {
    const { role, text, error, thinking, live, calls, results } = this.#node;
    if (role === "tool") {
      this.#body.replaceChildren(...results.map((r) => block(`result of ${r.name}`, r.content)));
      return;
    }
    if (role === "user") {
      this.#body.replaceChildren(make("p", { class: "plain" }, text));
      return;
    }
    if (this.#byToken && this.#node.tokens) {
      this.#body.replaceChildren(tokens.view(this.#node.tokens));
      if (this.#node.prompt) this.#body.prepend(tokens.promptView(this.#node, this.#does.prompt));
      return;
    }
    if (!this.#rendered) {
      this.thinking = make("details", { class: "thinking", hidden: true }, make("summary", {}, "Thinking"), make("p", { class: "plain" }));
      this.prose = make("div", { class: "prose" });
      this.#rendered = new Rendered(this.prose);
      this.calls = make("div");
      this.#body.replaceChildren(this.thinking, this.prose, this.calls);
      if (error) this.#body.append(make("p", { class: "problem", role: "alert" }, error));
    }
    if (live) this.#foot.replaceChildren();
    this.thinking.hidden = !thinking;
    this.thinking.lastChild.textContent = thinking ?? "";
    this.#rendered.update(text, whole);
    this.prose.classList.toggle("waiting", Boolean(live) && !text);
    this.calls.replaceChildren(...(calls ?? []).map((c) => block(`call of ${c.name}`, c.arguments)));
    if (calls && !live && !error && this.#node.last === undefined) this.calls.append(this.#results(calls));
  }

  // #results returns the form that takes what tools answered.
  #results(calls) {
    const boxes = calls.map((c) => make("textarea", { rows: "2", "aria-label": `Result of ${c.name}`, placeholder: `Result of ${c.name}` }));
    const send = () => this.#does.results(this.#node, calls.map((c, i) => ({ id: c.id, name: c.name, content: boxes[i].value })));
    return make("div", { class: "results" }, ...boxes, make("button", { type: "button", class: "primary", onclick: send }, "Send results"));
  }

  #actions() {
    const node = this.#node, does = this.#does;
    const button = (label, run, more = {}) => make("button", { type: "button", onclick: run, ...more }, label);
    const out = [];
    const all = siblings(this.#chat, node), i = all.indexOf(node);
    if (all.length > 1) {
      const turn = (label, to, text) => button(label, () => does.show(to), { "aria-label": text, disabled: !to });
      out.push(make("span", { class: "versions", role: "group", "aria-label": `Version ${i + 1} of ${all.length}` },
        turn("‹", all[i - 1], "Version before"), `${i + 1}/${all.length}`, turn("›", all[i + 1], "Next version")));
    }
    if (node.role !== "tool" && !node.calls) out.push(button("Edit", () => this.edit()));
    if (node.role === "assistant") out.push(button("Regenerate", () => does.regenerate(node)));
    if (node.text) out.push(button("Copy", () => does.copy(node.text)));
    if (node.role === "assistant") out.push(button("Branch", () => does.branch(node), { title: "Continue from here in a new chat" }));
    if (node.tokens?.length) {
      out.push(button("Tokens", () => {
        this.#byToken = !this.#byToken;
        this.update();
        this.#foot.querySelector("[aria-pressed]").focus();
      }, { "aria-pressed": String(this.#byToken) }));
    }
    if (node.role === "assistant") out.push(make("span", { class: "facts" }, facts({ info: node.info, context: this.context })));
    return out;
  }

  // edit replaces the text by a box. The edited text becomes a version of its own.
  edit() {
    const { role, text } = this.#node;
    const box = make("textarea", { rows: Math.min(15, text.split("\n").length + 1), "aria-label": "Edit the text" });
    box.value = text;
    const cancel = () => { this.update(); this.#foot.querySelector("button")?.focus(); };
    const save = () => { if (box.value.trim()) this.#does.edit(this.#node, box.value); };
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); cancel(); }
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing && role === "user") { event.preventDefault(); save(); }
    });
    this.#body.replaceChildren(box);
    this.#foot.replaceChildren(
      make("button", { type: "button", class: "primary", onclick: save }, role === "user" ? "Send" : "Save"),
      make("button", { type: "button", onclick: cancel }, "Cancel"));
    box.focus();
  }
}
