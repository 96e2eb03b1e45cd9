// The engine view: what /metrics says of the chosen model, once a second while it is open, and the KV blocks where the
// server lets them be seen.

import * as api from "./api.js";
import { make, svg, $ } from "./dom.js";
import { Metrics, rate, mean, forest } from "./metrics.js";

const every = 1000; // ms between readings
const kept = 61;    // readings: a minute
const most = 1500;  // cells of the map

const count = (x) => x === undefined ? "–" : x >= 1e6 ? (x / 1e6).toFixed(1) + " M" : Math.round(x).toLocaleString("en");
const speed = (x) => x === undefined ? "–" : x >= 100 ? Math.round(x).toLocaleString("en") : x.toFixed(1);
const time = (s) => s === undefined ? "–" : s >= 1 ? s.toFixed(2) + " s" : (s * 1000).toFixed(s >= 0.1 ? 0 : 1) + " ms";
const share = (x) => x === undefined || Number.isNaN(x) ? "–" : (100 * x).toFixed(1) + " %";

export class EngineView {
  #readings = []; #timer = 0; #model = ""; #turn = 0; #blocks = null; #denied = ""; #key;

  // key returns the key that may see the blocks, "" for none.
  constructor(key) { this.#key = key; }

  // open shows a model, close stops asking for it.
  open(model) {
    if (model !== this.#model) {
      this.#readings = [];
      this.#blocks = null;
    }
    this.#model = model;
    this.#denied = "";
    clearTimeout(this.#timer);
    this.#tick();
  }

  close() {
    clearTimeout(this.#timer);
    this.#timer = 0;
  }

  async #tick() {
    const model = this.#model;
    const timer = this.#timer = setTimeout(() => this.#tick(), every);
    if (document.hidden) return;
    let problem = "";
    try {
      const now = new Metrics(await api.metrics(), model, performance.now());
      if (now.get("vllm:num_requests_running") === undefined) problem = "The server has no metrics of this model.";
      else this.#readings = [...this.#readings, now].slice(-kept);
      if (!this.#denied && this.#turn++ % 2 === 0) await this.#readBlocks(model);
    } catch (err) {
      problem = err.message;
    }
    if (this.#timer !== timer || this.#model !== model) return; // closed, or another model by now
    this.#draw(problem);
  }

  async #readBlocks(model) {
    try {
      this.#blocks = await api.blocks(this.#key(), model);
    } catch (err) {
      this.#blocks = null;
      this.#denied = err.status === 401 || err.status === 403 ? "The map of KV blocks shows what others asked: it needs the " +
        "admin key (Settings)." : err.message;
    }
  }

  #draw(problem) {
    const now = this.#readings.at(-1);
    if (problem || !now) {
      $("engine-body").replaceChildren(make("p", { class: "problem" }, problem || "Reading …"));
      return;
    }
    const from = this.#readings.at(-4) ?? this.#readings[0], minute = this.#readings[0];
    const grew = (name) => rate(minute, now, name);
    const tiles = [
      ["Running", count(now.get("vllm:num_requests_running")), "sequences"],
      ["Waiting", count(now.get("vllm:num_requests_waiting")), "sequences"],
      ["Generated", speed(rate(from, now, "vllm:generation_tokens_total")), "tokens/s"],
      ["Prompts", speed(rate(from, now, "vllm:prompt_tokens_total")), "tokens/s"],
      ["First token", time(mean(minute, now, "vllm:time_to_first_token_seconds")), "TTFT, mean of a minute"],
      ["Next tokens", time(mean(minute, now, "vllm:inter_token_latency_seconds")), "ITL, mean of a minute"],
      ["Steps", speed(rate(from, now, "vllm:iteration_tokens_total_count")), "each second"],
      ["Prefix hits", share(grew("vllm:prefix_cache_hits_total") / grew("vllm:prefix_cache_queries_total")), "of prompt tokens, in a minute"],
      ["Preempted", count(now.get("vllm:num_preemptions_total")), "since the start"],
    ];
    const speeds = this.#readings.slice(1).map((m, i) => rate(this.#readings[i], m, "vllm:generation_tokens_total") ?? 0);
    $("engine-body").replaceChildren(
      make("dl", { class: "tiles" }, ...tiles.map(([name, value, unit]) =>
        make("div", {}, make("dt", {}, name), make("dd", {}, make("strong", {}, value), " ", make("small", {}, unit))))),
      chart(speeds), bar(now), ...tiers(now), ...this.#map());
  }

  #map() {
    const title = make("h3", {}, "Prefix cache");
    if (!this.#blocks) return [title, make("p", { class: "hint" }, this.#denied || "Reading …")];
    const { data, named, block_tokens: size } = this.#blocks, { cells, rows, columns } = forest(data);
    const shown = cells.slice(0, most), shared = shown.filter((c) => c.shared).length, side = 9;
    const summary = `${count(named)} named blocks of ${size} tokens` + (named > shown.length ? `, ${count(shown.length)} drawn` : "") +
      `; ${count(shared)} shared, ${count(shown.filter((c) => c.block.refs > 0).length)} in use. A row is a chain of ` +
      "blocks; a row that begins further right continues the one above it.";
    if (!shown.length) return [title, make("p", { class: "hint" }, "It is empty.")];
    const drawing = svg("svg", { width: columns * side, height: Math.min(rows, most) * side, role: "img", "aria-label": summary });
    for (const { row, column, block, shared } of shown) {
      const kind = shared ? "shared" : block.refs > 0 ? "used" : "cached";
      drawing.append(svg("rect", { class: "b-" + kind, x: column * side, y: row * side, width: side - 2, height: side - 2 },
        svg("title", {}, `${block.name.slice(0, 12)}…: ${block.refs} references, ${block.uses} uses, idle ${time(block.idle_ms / 1000)}`)));
    }
    return [title, make("div", { class: "map", tabindex: "0", role: "group", "aria-label": "Map of KV blocks" }, drawing),
      make("p", { class: "legend" }, ...["used", "shared", "cached"].map((k) => make("span", { class: "key b-" + k }, k === "shared" ? "prefix of several" : k === "used" ? "in use" : k))),
      make("p", { class: "hint" }, summary)];
  }
}

// chart draws tokens/s over time.
function chart(values) {
  const top = Math.max(...values, 0), n = kept - 1;
  const bars = values.map((v, i) => svg("rect", { x: n - values.length + i, width: 0.8, y: 50 - 48 * v / (top || 1), height: 48 * v / (top || 1) }));
  const what = `Generated tokens/s in the last minute, at most ${speed(top)}`;
  return make("figure", {},
    svg("svg", { viewBox: `0 0 ${n} 50`, preserveAspectRatio: "none", role: "img", "aria-label": what, class: "chart" }, ...bars),
    make("figcaption", { class: "hint" }, what));
}

// bar draws the blocks in use, cached and free.
function bar(now) {
  const kinds = ["used", "cached", "free"], n = kinds.map((state) => now.get("kvasir:kv_blocks", { state }) ?? 0);
  const all = n.reduce((a, b) => a + b, 0) || 1, words = kinds.map((k, i) => `${count(n[i])} ${k}`).join(", ");
  let x = 0;
  const parts = kinds.map((k, i) => {
    const width = n[i] && Math.max(100 * n[i] / all, 0.7);
    x += width;
    return svg("rect", { class: "b-" + k, x: x - width, y: 0, width, height: 10 });
  });
  return make("figure", {}, make("h3", {}, `KV cache: ${share(n[0] / all)} in use`),
    svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": `KV blocks: ${words}`, class: "bar" }, ...parts),
    make("figcaption", { class: "hint" }, `${words}; ${count(now.get("kvasir:kv_pinned_blocks") ?? 0)} pinned`));
}

// tiers lists the tiers below that have blocks.
function tiers(now) {
  return ["host", "disk"].flatMap((tier) => {
    const all = now.get("kvasir:tier_blocks", { tier });
    if (!all) return [];
    return [make("p", { class: "hint" }, `Tier ${tier}: ${count(now.get("kvasir:tier_blocks_used", { tier }))} of ${count(all)} blocks used, ` +
      `${count(now.get("kvasir:tier_loaded_blocks_total", { tier }))} loaded since the start`)];
  });
}
