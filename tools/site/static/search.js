// The search of the site, in the sections of all pages: every word must occur, and words of titles count more. Also what
// keyboards need.

const script = document.querySelector("script[data-index]");
const base = new URL(script.dataset.index, location.href);
const query = document.getElementById("query"), results = document.getElementById("results");
let sections; // a promise, once something is searched

async function load() {
  const all = await (await fetch(base)).json();
  return all.map((s) => ({ ...s, low: [s.title, s.heading, s.text].map((t) => t.toLowerCase()) }));
}

// score is 0 for a section that lacks one of the words.
function score({ low: [title, heading, text] }, words) {
  let sum = 0;
  for (const word of words) {
    const here = 20 * title.includes(word) + 20 * heading.includes(word) + Math.min(5, text.split(word).length - 1);
    if (here === 0) return 0;
    sum += here;
  }
  return sum;
}

function make(tag, properties, ...children) {
  const el = Object.assign(document.createElement(tag), properties);
  el.append(...children);
  return el;
}

function excerpt(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 60);
  return (at ? "…" : "") + text.slice(at, at + 160).replace(/\s+/g, " ") + "…";
}

async function search() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  results.hidden = words.length === 0;
  if (results.hidden) return;
  let found;
  try {
    found = (await (sections ??= load())).map((s) => [score(s, words), s]).filter(([n]) => n > 0);
  } catch (err) {
    sections = undefined;
    results.replaceChildren(make("p", { textContent: `The index cannot be read: ${err.message}` }));
    return;
  }
  found.sort((a, b) => b[0] - a[0]);
  results.replaceChildren(make("p", { textContent: found.length ? `${found.length} sections` : "Nothing has all these words." }),
    make("ol", {}, ...found.slice(0, 20).map(([, s]) => make("li", {},
      make("a", { href: new URL(s.url, base), textContent: s.heading ? `${s.title}: ${s.heading}` : s.title }),
      make("p", { textContent: excerpt(s.text, words[0]) })))));
}

document.querySelector(".menu").open = matchMedia("(min-width: 50rem)").matches;
query.addEventListener("input", search);
query.form.addEventListener("submit", (event) => {
  event.preventDefault();
  results.querySelector("a")?.click();
});
results.addEventListener("click", (event) => { if (event.target.closest("a")) results.hidden = true; });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== query) { event.preventDefault(); query.focus(); }
  if (event.key === "Escape") { query.value = ""; search(); }
});

// What scrolls sideways can be reached by keyboard.
for (const el of document.querySelectorAll("table, pre")) if (el.scrollWidth > el.clientWidth) el.tabIndex = 0;
