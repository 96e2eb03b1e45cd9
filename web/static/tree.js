// A conversation is a tree of messages: an edited question or a regenerated answer is a sibling of the first one. What is
// shown, and sent, is the path from the root to the leaf. Pure: no DOM, no clock, no storage.
//
// chat: {id, title, created, updated, system, nodes: [node], leaf}; leaf is the id of a node, -1 in an empty chat.
// node: {id, parent, role, text, last, ...}; id is its index in nodes, parent -1 for a first message; last is the child
// that was shown last. An answer may have calls of tools, [{id, name, arguments}], and a node of the role tool has their
// results, [{id, name, content}].

export function newChat(id, now, system = "") {
  return { id, title: "", created: now, updated: now, system, nodes: [], leaf: -1 };
}

// add appends a message below parent and shows it.
export function add(chat, parent, role, text) {
  const node = { id: chat.nodes.length, parent, role, text };
  chat.nodes.push(node);
  if (parent >= 0) chat.nodes[parent].last = node.id;
  chat.leaf = node.id;
  if (!chat.title && role === "user") chat.title = titleOf(text);
  return node;
}

export function titleOf(text) {
  const line = text.trim().split("\n", 1)[0];
  return line.length > 60 ? line.slice(0, 59) + "…" : line;
}

// path returns the messages that are shown, first to last, up to and with the node of an id.
export function path(chat, to = chat.leaf) {
  const out = [];
  for (let id = to; id >= 0; id = chat.nodes[id].parent) out.push(chat.nodes[id]);
  return out.reverse();
}

export function siblings(chat, node) {
  return chat.nodes.filter((n) => n.parent === node.parent && n.role === node.role);
}

// show makes a node part of the path, with what was last shown below it.
export function show(chat, node) {
  if (node.parent >= 0) chat.nodes[node.parent].last = node.id;
  while (node.last !== undefined) node = chat.nodes[node.last];
  chat.leaf = node.id;
}

// messages returns the path as the API takes it. An answer that failed before its first word is left out with its
// question, since many chat templates refuse two questions in a row.
export function messages(chat, to) {
  const out = chat.system.trim() ? [{ role: "system", content: chat.system }] : [];
  for (const n of path(chat, to)) {
    if (n.role === "tool") {
      out.push(...n.results.map((r) => ({ role: "tool", tool_call_id: r.id, content: r.content })));
    } else if (n.calls) {
      out.push({ role: n.role, content: n.text || null, tool_calls: n.calls.map((c) =>
        ({ id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } })) });
    } else if (n.role === "user" || n.text) out.push({ role: n.role, content: n.text });
    else if (out.at(-1)?.role === "user") out.pop();
  }
  return out;
}

// branch returns a new chat of the messages up to a node.
export function branch(chat, node, id, now) {
  const copy = newChat(id, now, chat.system);
  for (const n of path(chat, node.id)) {
    const { id: _, parent: __, last: ___, ...rest } = n;
    Object.assign(add(copy, copy.leaf, n.role, n.text), structuredClone(rest));
  }
  copy.title = chat.title;
  return copy;
}

// valid reports whether a value, such as one from storage, is a chat.
export function valid(c) {
  return c !== null && typeof c === "object" && typeof c.id === "string" && typeof c.title === "string" &&
    typeof c.system === "string" && Number.isFinite(c.updated) && Array.isArray(c.nodes) &&
    Number.isInteger(c.leaf) && c.leaf >= -1 && c.leaf < c.nodes.length &&
    c.nodes.every((n, i) => n !== null && typeof n === "object" && n.id === i && typeof n.text === "string" &&
      Number.isInteger(n.parent) && n.parent >= -1 && n.parent < i && ["user", "assistant", "tool"].includes(n.role) &&
      strings(n.calls, "id", "name", "arguments") && strings(n.results, "id", "name", "content") &&
      (n.role !== "tool" || n.results !== undefined) &&
      (n.last === undefined || Number.isInteger(n.last) && n.last > i && n.last < c.nodes.length));
}

// strings reports whether a list, if there is one, has objects with these texts.
const strings = (list, ...names) => list === undefined ||
  Array.isArray(list) && list.every((one) => names.every((name) => typeof one?.[name] === "string"));

// gather adds the pieces of calls that a chunk of a stream has to calls.
export function gather(calls, pieces) {
  for (const piece of pieces) {
    if (!(piece.index >= 0 && piece.index < 1000)) continue;
    while (calls.length <= piece.index) calls.push({ id: "", name: "", arguments: "" });
    const call = calls[piece.index];
    call.id ||= piece.id ?? "";
    call.name += piece.function?.name ?? "";
    call.arguments += piece.function?.arguments ?? "";
  }
  return calls;
}
