// Markdown to DOM nodes. A model's answer is hostile text: markdown-it only splits it into tokens, and this file makes
// elements of those it knows and text of all else. No string ever becomes HTML. Images are not loaded, since a request
// for one could carry the conversation away: they are shown as links.

import MarkdownIt from "./vendor/markdown-it.js";
import { highlight } from "./code.js";
import { make } from "./dom.js";

const md = new MarkdownIt({ html: false, linkify: true, maxNesting: 20 });
md.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
md.validateLink = (url) => /^(https?:\/\/|mailto:)/i.test(url);
md.inline.ruler.before("escape", "math", inlineMath);
md.block.ruler.before("fence", "math", blockMath, { alt: ["paragraph", "blockquote", "list"] });

const longestMath = 4000; // characters

// inlineMath takes $x$, $$x$$, \(x\) and \[x\]. As in Pandoc, a single $ opens before no space, and closes after none and
// before no digit, so that prices stay prices.
function inlineMath(state, silent) {
  const at = state.src.slice(state.pos, Math.min(state.posMax, state.pos + longestMath));
  const m = /^\$\$([^$]+)\$\$|^\$(?!\s)((?:\\.|[^$\\\n])+?)(?<!\s)\$(?!\d)|^\\\(([^]+?)\\\)|^\\\[([^]+?)\\\]/.exec(at);
  if (!m) return false;
  if (!silent) {
    const token = state.push("math", "", 0);
    token.content = m[1] ?? m[2] ?? m[3] ?? m[4];
    token.meta = { display: m[1] !== undefined || m[4] !== undefined, source: m[0] };
  }
  state.pos += m[0].length;
  return true;
}

// blockMath takes $$ or \[ at the start of a line, up to its counterpart at the end of the same or a later line.
function blockMath(state, start, end, silent) {
  const begin = (n) => state.bMarks[n] + state.tShift[n], from = begin(start) + 2;
  const open = state.src.slice(from - 2, from), close = { "$$": "$$", "\\[": "\\]" }[open];
  if (!close || state.sCount[start] - state.blkIndent >= 4) return false;
  const to = from + state.src.slice(from, from + longestMath).indexOf(close);
  let last = start;
  while (last < end && state.eMarks[last] < to) last++;
  if (to < from || last >= end || state.src.slice(to + 2, state.eMarks[last]).trim()) return false;
  const lines = [];
  for (let n = start; n <= last; n++) {
    if (state.sCount[n] < state.blkIndent) return false;
    lines.push(state.src.slice(n === start ? from : begin(n), n === last ? to : state.eMarks[n]));
  }
  if (silent) return true;
  const token = state.push("math", "", 0), content = lines.join("\n");
  Object.assign(token, { content, meta: { display: true, source: open + content + close }, map: [start, last + 1], block: true });
  state.line = last + 1;
  return true;
}

function math(token) {
  const { display, source } = token.meta;
  const el = make(display ? "div" : "span", display ? { class: "math", tabindex: "0" } : {});
  try {
    window.temml.render(token.content, el, { displayMode: display, trust: false, maxSize: [20, 200], maxExpand: 200,
      throwOnError: true });
  } catch { // half of a formula, while it streams
    el.replaceChildren(make("code", {}, source));
  }
  return el;
}

// fence returns a block of code with its language and a button that copies it.
function fence(token) {
  const language = (token.info ?? "").trim().split(/\s+/, 1)[0].slice(0, 30);
  const code = token.content.replace(/\n$/, "");
  const button = make("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", () => button.dispatchEvent(new CustomEvent("copy-text", { bubbles: true, detail: code })));
  return make("div", { class: "code" },
    make("div", { class: "code-bar" }, make("span", {}, language || "code"), button),
    make("pre", { tabindex: "0" }, make("code", {}, ...highlight(code, language))));
}

const plain = new Set(["p", "blockquote", "ul", "ol", "li", "strong", "em", "s", "thead", "tbody", "tr", "th", "td"]);

// open returns the element of an opening token, or null for one that has none of its own.
function open(token) {
  if (token.hidden) return null;
  const { tag } = token;
  if (/^h[1-6]$/.test(tag)) return make("h" + Math.min(6, Number(tag[1]) + 2)); // the page has h1 and h2
  if (tag === "a") return anchor(token.attrGet("href"));
  if (tag === "table") return make("table");
  if (!plain.has(tag)) return null;
  const el = make(tag);
  const start = tag === "ol" ? Number(token.attrGet("start")) : NaN;
  if (Number.isSafeInteger(start) && start > 1) el.setAttribute("start", start);
  const align = /text-align:(left|right|center)/.exec(token.attrGet("style") ?? "");
  if (align) el.classList.add("at-" + align[1]);
  return el;
}

const anchor = (href) => make("a", { href, rel: "noopener noreferrer nofollow", target: "_blank", title: href });

function leaf(token) {
  switch (token.type) {
    case "softbreak": return "\n";
    case "hardbreak": return make("br");
    case "hr": return make("hr");
    case "code_inline": return make("code", {}, token.content);
    case "code_block":
    case "fence": return fence(token);
    case "math": return math(token);
    case "image": {
      const a = anchor(token.attrGet("src"));
      a.append("image: " + (token.content || token.attrGet("src")));
      return a;
    }
  }
  return token.content; // text, and whatever else there may be
}

function build(tokens, into) {
  const stack = [into];
  for (const token of tokens) {
    const top = stack.at(-1);
    if (token.type === "inline") {
      const task = top.tagName === "LI" && /^\[([ xX])\] /.exec(token.children[0]?.content ?? "");
      if (task) {
        top.classList.add("task");
        top.append(make("span", { role: "img", "aria-label": task[1] === " " ? "to do" : "done" }, task[1] === " " ? "☐" : "☑"));
        token.children[0].content = token.children[0].content.slice(task[0].length);
      }
      build(token.children, top);
    }
    else if (token.nesting < 0) stack.pop();
    else if (token.nesting === 0) top.append(leaf(token));
    else {
      const el = open(token);
      if (el?.tagName === "TABLE") top.append(make("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Table" }, el));
      else if (el) top.append(el);
      stack.push(el ?? top);
    }
  }
}

// Rendered keeps an element in step with a text that grows: of the blocks (paragraphs, lists, code …) only those that
// changed are made again.
export class Rendered {
  #el; #keys = [];
  constructor(el) { this.#el = el; }

  // update shows a text. With whole it makes every block again, which links with references need.
  update(text, whole) {
    const lines = text.split("\n"), tokens = md.parse(text, {}), keys = [], groups = [];
    let group = [];
    for (const token of tokens) {
      group.push(token);
      if (token.level > 0 || token.nesting > 0) continue;
      const [from, to] = group[0].map ?? [0, lines.length];
      keys.push(group[0].type + "\n" + lines.slice(from, to).join("\n"));
      groups.push(group);
      group = [];
    }
    let same = 0;
    while (!whole && same < keys.length && keys[same] === this.#keys[same]) same++;
    while (this.#el.childNodes.length > same) this.#el.lastChild.remove();
    for (const one of groups.slice(same)) build(one, this.#el);
    this.#keys = keys;
  }
}
