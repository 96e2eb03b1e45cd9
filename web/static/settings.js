// The settings panel: controls of sampling, keys, colours. Values are kept as the texts that were typed.

import { groups, controls, read } from "./controls.js";
import { $, make } from "./dom.js";
import * as store from "./store.js";

export class Settings {
  values = store.loadSettings(); // {model, theme, logprobs, values: {name of a control: text}}
  keys = store.loadKeys();       // {api, admin, remember}
  show = () => {};               // brings the panel up

  // on has keysChanged() and systemChanged(text).
  constructor(on) {
    $("controls").replaceChildren(...groups.map((g) => this.#group(g)));
    $("system").addEventListener("input", () => on.systemChanged($("system").value));
    $("logprobs").checked = this.values.logprobs === true;
    $("logprobs").addEventListener("change", () => this.set("logprobs", $("logprobs").checked));
    $("theme").value = ["light", "dark"].includes(this.values.theme) ? this.values.theme : "";
    $("theme").addEventListener("change", () => {
      this.set("theme", $("theme").value);
      if ($("theme").value) document.documentElement.dataset.theme = $("theme").value;
      else delete document.documentElement.dataset.theme;
    });
    $("reset").addEventListener("click", () => {
      this.set("values", {});
      for (const c of controls) { $("c-" + c.name).value = ""; this.#check(c); }
    });
    for (const [id, name] of [["api-key", "api"], ["admin-key", "admin"], ["remember", "remember"]]) {
      const input = $(id);
      if (name === "remember") input.checked = this.keys.remember; else input.value = this.keys[name];
      input.addEventListener("change", () => {
        this.keys[name] = name === "remember" ? input.checked : input.value.trim();
        this.#mark(input, "");
        store.saveKeys(this.keys);
        on.keysChanged();
      });
    }
  }

  set(name, value) {
    this.values[name] = value;
    store.saveSettings(this.values);
  }

  #group(group) {
    return make("details", { class: "group", open: group.open },
      make("summary", {}, group.title), ...group.list.map((c) => this.#field(c)));
  }

  #field(c) {
    const id = "c-" + c.name, long = c.kind === "lines" || c.kind === "json";
    const input = make(long ? "textarea" : "input", { id, spellcheck: "false", "aria-describedby": `${id}-hint`,
      ...(long ? { rows: "2" } : { type: "text", inputmode: c.min < 0 ? "text" : "decimal", placeholder: "default" }) });
    input.value = typeof this.values.values[c.name] === "string" ? this.values.values[c.name] : "";
    input.addEventListener("input", () => {
      this.values.values[c.name] = input.value;
      store.saveSettings(this.values);
      this.#check(c);
    });
    const field = make("div", { class: "field" + (long ? "" : " short") }, make("label", { for: id }, c.label), input,
      make("p", { class: "hint", id: `${id}-hint` }, c.hint));
    queueMicrotask(() => this.#check(c));
    return field;
  }

  // #check marks a control whose text means nothing.
  #check(c) {
    let wrong = "";
    try { read(c, $("c-" + c.name).value); } catch (err) { wrong = err.message; }
    this.#mark($("c-" + c.name), wrong);
  }

  #mark(input, wrong) {
    if (wrong) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid");
    const hint = document.getElementById(input.id + "-hint"), c = controls.find((c) => "c-" + c.name === input.id);
    if (!hint || !c) return;
    hint.textContent = wrong || c.hint;
    hint.classList.toggle("wrong", Boolean(wrong));
  }

  // complain shows what is wrong with a field or a parameter, if there is one of that name.
  complain(name, wrong) {
    const input = document.getElementById(name) ?? document.getElementById("c-" + name);
    if (!input || !input.closest("#settings")) return;
    input.closest("details")?.setAttribute("open", "");
    this.show();
    this.#mark(input, wrong);
    input.focus();
  }
}
