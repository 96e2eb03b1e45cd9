// Reads Prometheus' text format and computes what the engine view shows. Pure.
// https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format

const sample = /^([A-Za-z_:][\w:]*)(?:\{((?:[^"}]|"(?:\\.|[^"\\])*")*)\})? (\S+)/;
const label = /([A-Za-z_]\w*)="((?:\\.|[^"\\])*)"/g;

// Metrics are the samples of one model, at a time in milliseconds.
export class Metrics {
  #samples = new Map(); // name to [{labels, value}]

  constructor(text, model, time) {
    this.time = time;
    for (const line of text.split("\n")) {
      const m = sample.exec(line);
      if (!m) continue;
      const labels = {};
      for (const [, name, value] of (m[2] ?? "").matchAll(label)) {
        labels[name] = value.replace(/\\(.)/g, (_, c) => c === "n" ? "\n" : c);
      }
      if (labels.model_name !== undefined && labels.model_name !== model) continue;
      if (!this.#samples.has(m[1])) this.#samples.set(m[1], []);
      this.#samples.get(m[1]).push({ labels, value: Number(m[3]) });
    }
  }

  // get returns the sum of the samples of a name that have some labels, undefined if there is none.
  get(name, labels = {}) {
    const found = (this.#samples.get(name) ?? []).filter((s) => Object.entries(labels).every(([k, v]) => s.labels[k] === v));
    return found.length ? found.reduce((sum, s) => sum + s.value, 0) : undefined;
  }
}

// rate returns how much a counter grew in a second between two Metrics, undefined if it is absent or was reset.
export function rate(from, to, name) {
  const a = from.get(name), b = to.get(name), seconds = (to.time - from.time) / 1000;
  return a === undefined || b === undefined || b < a || seconds <= 0 ? undefined : (b - a) / seconds;
}

// mean returns the mean of a histogram's observations between two Metrics, undefined if there were none. A median from
// its buckets would be coarse: the first one of vLLM's buckets for ITL ends at 10 ms.
export function mean(from, to, name) {
  const n = rate(from, to, name + "_count");
  return n ? rate(from, to, name + "_sum") / n : undefined;
}

// forest lays cached blocks out: a row continues with a block's first child, and other children begin rows of their own
// in its column. It returns {cells: [{row, column, block, shared}], rows, columns}. A shared block is one of the prefix of
// several chains, or is in use by several sequences.
export function forest(blocks) {
  const known = new Map(blocks.map((b) => [b.name, b])), children = new Map(), roots = [];
  for (const b of blocks) {
    if (!known.has(b.parent)) roots.push(b);
    else if (children.has(b.parent)) children.get(b.parent).push(b);
    else children.set(b.parent, [b]);
  }
  const shared = new Set();
  for (const [name, below] of children) {
    if (below.length > 1) for (let b = known.get(name); b && !shared.has(b); b = known.get(b.parent)) shared.add(b);
  }
  const cells = [], starts = roots.reverse().map((b) => [b, 0]);
  let rows = 0, columns = 0;
  while (starts.length) {
    let [block, column] = starts.pop();
    for (; block; column++) {
      const below = children.get(block.name) ?? [];
      cells.push({ row: rows, column, block, shared: shared.has(block) || block.refs > 1 });
      for (const other of below.slice(1).reverse()) starts.push([other, column + 1]);
      block = below[0];
    }
    columns = Math.max(columns, column);
    rows++;
  }
  return { cells, rows, columns };
}
