// The token view: an answer's tokens, coloured by their probability, with the alternatives of the one that the pointer or
// the focus is on.

import { make, $ } from "./dom.js";

// compact returns the API's log probabilities as they are kept: [token, logprob, [[alternative, logprob] …], origin], the
// last only of tokens that were guessed or forced.
export const compact = (list) => list.map((t) => [t.token, round(t.logprob), (t.top_logprobs ?? []).map((a) => [a.token, round(a.logprob)]),
  ...(origins[t.origin] ? [t.origin] : [])]);

// origins says how tokens came about, other than by their probability alone.
const origins = { guessed: "guessed ahead, and right", forced: "forced: nothing else was allowed" };

const round = (x) => Math.round(x * 1e4) / 1e4;

// level is the class of a probability, 0 for the surest tokens.
export const level = (p) => [0.9, 0.7, 0.4, 0.15, 0.05].filter((least) => p < least).length;

const percent = (logprob) => {
  const p = 100 * Math.exp(logprob);
  return (p >= 99.95 ? "100" : p >= 10 ? p.toFixed(1) : p >= 0.01 ? p.toFixed(2) : "<0.01") + " %";
};

// visible returns a token with what cannot be seen made visible.
const visible = (text) => text === "" ? "(empty)" : text.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");

// view returns an element that shows tokens. The arrow keys move between them.
export function view(tokens) {
  const box = make("div", { class: "tokens", role: "group", "aria-label": "Tokens by probability; the arrow keys move" });
  const spans = tokens.map(([text, logprob, , origin = ""]) => {
    const p = level(Math.exp(logprob)), label = [visible(text), percent(logprob), origin].join(" ").trim();
    return make("span", { class: `tok p${p} ${origin}`, role: "button", tabindex: "-1", "aria-label": label }, text);
  });
  spans[0]?.setAttribute("tabindex", "0");
  box.append(...spans);
  const at = (event) => spans.indexOf(event.target);
  const show = (event) => { if (at(event) >= 0) tip(event.target, tokens[at(event)]); };
  box.addEventListener("pointerover", show);
  box.addEventListener("focusin", show);
  box.addEventListener("pointerleave", hideTip);
  box.addEventListener("focusout", hideTip);
  box.addEventListener("keydown", (event) => {
    const i = at(event), to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: spans.length - 1 }[event.key];
    if (i < 0 || !spans[to]) return;
    event.preventDefault();
    spans[i].setAttribute("tabindex", "-1");
    spans[to].setAttribute("tabindex", "0");
    spans[to].focus();
  });
  const legend = ["≥ 90 %", "≥ 70 %", "≥ 40 %", "≥ 15 %", "≥ 5 %", "less"];
  const kinds = Object.keys(origins).filter((name) => tokens.some((t) => t[3] === name));
  return make("div", {}, box, make("p", { class: "legend" }, ...legend.map((text, i) => make("span", { class: "tok p" + i }, text)),
    ...kinds.map((name) => make("span", { class: "tok " + name }, origins[name]))));
}

// promptView returns an element that shows the prompt when it is opened, and what of it came from the prefix cache.
// texts returns the texts of both parts.
export function promptView(node, texts) {
  const cached = node.info.cached ?? 0, body = make("pre", { class: "prompt", tabindex: "0" });
  const el = make("details", {}, make("summary", {}, `Prompt of ${node.prompt.length} tokens, ${cached} cached`), body);
  el.addEventListener("toggle", async () => {
    try {
      const [known, fresh] = await texts(node);
      body.replaceChildren(known ? make("mark", { title: "from the prefix cache" }, known) : "", fresh);
    } catch (err) {
      body.replaceChildren(err.message);
    }
  }, { once: true });
  return el;
}

function tip(target, [text, logprob, others, origin]) {
  const el = $("tip");
  const row = (name, lp, chosen) => {
    const bar = make("meter", { min: "0", max: "1", value: Math.exp(lp), "aria-label": percent(lp) });
    return make("tr", chosen ? { class: "chosen" } : {}, make("td", {}, make("code", {}, visible(name))), make("td", {}, percent(lp)), make("td", {}, bar));
  };
  const rows = others.map(([name, lp]) => row(name, lp, name === text));
  if (!others.some(([name]) => name === text)) rows.push(row(text, logprob, true));
  const caption = (others.length ? "The likeliest tokens here" : "The token") + (origin ? `; this one was ${origins[origin]}` : "");
  el.replaceChildren(make("table", {}, make("caption", {}, caption), make("tbody", {}, ...rows)));
  el.hidden = false;
  const box = target.getBoundingClientRect(), own = el.getBoundingClientRect();
  const below = box.bottom + own.height + 8 < innerHeight;
  el.style.left = Math.max(8, Math.min(box.left, innerWidth - own.width - 8)) + "px";
  el.style.top = Math.max(8, below ? box.bottom + 4 : box.top - own.height - 4) + "px";
  target.setAttribute("aria-describedby", "tip");
}

export function hideTip() {
  $("tip").hidden = true;
  document.querySelector(".tok[aria-describedby]")?.removeAttribute("aria-describedby");
}
