// The page asks the gateway every two seconds and draws what it says. Text goes into the page as text only.

const every = 2000; // ms
const kept = 90; // points of a plot
const plots = new Map(); // by metric and model: {before, p50: [], p99: []}
let counts = new Map(); // of the last time, by their lines' names and labels
let key = sessionStorage.getItem("key") || "";

function make(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

async function ask(path) {
  const r = await fetch(path, key ? { headers: { Authorization: "Bearer " + key } } : {});
  if (r.status === 401 || r.status === 403) document.getElementById("keyed").hidden = false;
  if (!r.ok) throw new Error(`${path}: status ${r.status}`);
  return r;
}

// parse reads Prometheus' text: lines of a name, labels in braces and a number.
function parse(text) {
  const all = [];
  for (const line of text.split("\n")) {
    const m = /^(kvasir_gateway_\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!m) continue;
    const labels = {};
    for (const [, k, v] of (m[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[k] = v.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    all.push({ name: m[1].slice("kvasir_gateway_".length), labels, value: Number(m[3]), id: m[1] + m[2] });
  }
  return all;
}

// quantile is the upper end of the bucket that a share of the new observations is in, in seconds; null if there are none.
function quantile(buckets, share) {
  const total = buckets.length ? buckets[buckets.length - 1][1] : 0;
  if (total <= 0) return null;
  const found = buckets.find(([, n]) => n >= share * total);
  return Number.isFinite(found[0]) ? found[0] : buckets[buckets.length - 2][0];
}

function time(s) {
  return s === null || s === undefined ? "–" : s < 1 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(1)} s`;
}

function observe(lines) {
  const histograms = new Map();
  for (const l of lines) {
    if (!/^(time_to_first_token|request)_seconds_bucket$/.test(l.name)) continue;
    const id = l.name.replace("_bucket", "") + " " + l.labels.model;
    if (!histograms.has(id)) histograms.set(id, []);
    histograms.get(id).push([l.labels.le === "+Inf" ? Infinity : Number(l.labels.le), l.value - (counts.get(l.id) || 0)]);
  }
  for (const [id, buckets] of histograms) {
    if (!plots.has(id)) plots.set(id, { p50: [], p99: [] });
    const p = plots.get(id);
    for (const [name, share] of [["p50", 0.5], ["p99", 0.99]]) {
      p[name].push(counts.size ? quantile(buckets, share) : null);
      if (p[name].length > kept) p[name].shift();
    }
  }
}

function draw() {
  const ns = "http://www.w3.org/2000/svg";
  const figures = [];
  for (const [id, p] of [...plots].sort()) {
    const top = Math.max(0.001, ...p.p50.concat(p.p99).filter((x) => x !== null));
    const svg = document.createElementNS(ns, "svg");
    svg.setAttribute("viewBox", `0 0 ${kept - 1} 100`);
    svg.setAttribute("preserveAspectRatio", "none");
    const caption = make("figcaption", {}, make("span", {}, id.replace("_seconds ", " of ").replaceAll("_", " ")));
    for (const name of ["p50", "p99"]) {
      const line = document.createElementNS(ns, "polyline");
      const from = kept - p[name].length;
      line.setAttribute("points", p[name].map((y, x) => (y === null ? "" : `${x + from},${98 - (96 * y) / top}`)).filter(Boolean).join(" "));
      line.setAttribute("class", name);
      svg.append(line);
      caption.append(make("span", { class: name }, `${name} ≤ ${time(p[name].findLast((y) => y !== null))}`));
    }
    caption.append(make("span", {}, `top ${time(top)}`));
    figures.push(make("figure", {}, svg, caption));
  }
  document.getElementById("latency").replaceChildren(...(figures.length ? figures : ["no answers yet"]));
}

function showEndpoint(e) {
  const card = make("div", { class: e.up ? "endpoint" : "endpoint down" }, make("h3", {}, e.url));
  card.append(make("p", {}, e.up ? `${e.in_flight} in flight, ${e.tokens_in_flight} tokens` : `down: ${e.why}`));
  card.append(make("p", {}, `engine: ${e.engine_running} run, ${e.engine_waiting} wait`));
  card.append(make("p", {}, `KV cache ${Math.round(100 * e.kv_use)}%`), make("meter", { value: e.kv_use, "aria-label": "KV cache in use" }));
  if (e.adapters) card.append(make("p", {}, "adapters: " + e.adapters.join(", ")));
  return card;
}

function showFleet(models, lines, seconds) {
  const rate = (name, labels) => {
    let sum = 0;
    for (const l of lines) {
      if (l.name !== name || !Object.entries(labels).every(([k, v]) => l.labels[k] === v)) continue;
      sum += l.value - (counts.get(l.id) || 0);
    }
    return counts.size ? sum / seconds : 0;
  };
  const total = (labels) => lines.filter((l) => l.name === "tokens_total" && Object.entries(labels).every(([k, v]) => l.labels[k] === v)).reduce((n, l) => n + l.value, 0);
  document.getElementById("fleet").replaceChildren(...models.map((m) => {
    const model = m.name;
    const input = total({ model, direction: "input" });
    const hits = input ? Math.round((100 * total({ model, direction: "cached" })) / input) : 0;
    return make("div", { class: "model" }, make("h3", {}, model),
      make("p", { class: "facts" }, `${m.waiting} wait · ${rate("requests_total", { model }).toFixed(1)} requests/s · ` +
        `${Math.round(rate("tokens_total", { model, direction: "output" }))} tokens/s · ${hits}% of prompts' tokens cached`),
      make("div", { class: "map" }, ...m.endpoints.map(showEndpoint)));
  }));
}

function showTenants(rows) {
  const sums = new Map();
  for (const r of rows) {
    const id = JSON.stringify([r.key, r.team, r.model]);
    const s = sums.get(id) || [r.key || "–", r.team || "–", r.model, 0, 0, 0, 0, 0];
    [r.requests, r.input_tokens, r.cached_tokens, r.output_tokens, r.cost].forEach((n, i) => (s[3 + i] += n));
    sums.set(id, s);
  }
  const list = [...sums.values()].sort((a, b) => b[4] + b[6] - a[4] - a[6]).slice(0, 100);
  document.getElementById("tenants").replaceChildren(...list.map((s) =>
    make("tr", {}, ...s.map((c, i) => make("td", {}, i === 7 ? c.toFixed(4) : typeof c === "number" ? c.toLocaleString("en") : c)))));
}

let last = performance.now();

async function look() {
  const state = document.getElementById("state");
  try {
    const today = new Date().toISOString().slice(0, 10);
    const [metrics, fleet, usage] = await Promise.all([ask("/metrics"), ask("/gateway/fleet"), ask("/gateway/usage?from=" + today)]);
    const lines = parse(await metrics.text());
    const now = performance.now();
    observe(lines);
    showFleet((await fleet.json()).models, lines, (now - last) / 1000);
    draw();
    showTenants((await usage.json()).usage);
    counts = new Map(lines.map((l) => [l.id, l.value]));
    last = now;
    state.textContent = "live";
    document.getElementById("keyed").hidden = true;
  } catch (e) {
    state.textContent = e.message;
  }
  setTimeout(look, every);
}

document.getElementById("keyed").addEventListener("submit", (e) => {
  e.preventDefault();
  key = document.getElementById("key").value.trim();
  sessionStorage.setItem("key", key);
});
look();
