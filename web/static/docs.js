// Shows openapi.json. All text is set as text, never as HTML.

let spec;
const form = document.querySelector("form");
const alerts = document.querySelector("[role=alert]");
const filter = document.querySelector("input[type=search]");
const list = document.querySelector("main > div");

function make(tag, ...children) {
  const e = document.createElement(tag);
  e.append(...children);
  return e;
}

// resolve follows a reference.
function resolve(schema) {
  return schema.$ref ? spec.components.schemas[schema.$ref.split("/").pop()] : schema;
}

// kind says in a few words what values a schema takes.
function kind(schema) {
  const s = resolve(schema);
  if (s.anyOf) return s.anyOf.map(kind).join(" or ");
  if (s.enum) return s.enum.map((v) => JSON.stringify(v)).join(", ");
  if ("const" in s) return JSON.stringify(s.const);
  const types = [s.type ?? "any"].flat().map((t) => (t === "array" && s.items ? `array of ${kind(s.items)}` : t));
  return types.join(" or ") + ("minimum" in s ? `, ${s.minimum} to ${s.maximum}` : "");
}

// parts returns the schemas of objects that a value may be or hold.
function parts(schema) {
  const s = resolve(schema);
  if (s.anyOf) return s.anyOf.flatMap(parts);
  if (s.items) return parts(s.items);
  return s.properties ? [s] : [];
}

// later fills a details element when it is opened first: schemas may be recursive.
function later(summary, fill) {
  const out = make("details", summary);
  out.addEventListener("toggle", () => out.children.length > 1 || out.append(fill()));
  return out;
}

// members lists the members of objects.
function members(schema) {
  const out = make("ul");
  for (const s of parts(schema)) {
    for (const [name, of] of Object.entries(s.properties)) {
      const line = [make("code", name), " ", make("i", kind(of) + (s.required?.includes(name) ? "" : ", optional"))];
      out.append(make("li", ...(parts(of).length ? [later(make("summary", ...line), () => members(of))] : line)));
    }
  }
  return out;
}

// body describes a request or an answer in each of its types.
function body(title, content) {
  return Object.entries(content ?? {}).flatMap(([type, c]) =>
    [make("h3", `${title} (${type})`), make("i", kind(c.schema)), members(c.schema)]);
}

function operation(path, method, op) {
  return later(make("summary", make("b", method.toUpperCase()), path, " ", make("i", op.summary)), () => make("div",
    ...(op.security ? [] : [make("p", "Needs no key.")]), ...body("Request", op.requestBody?.content),
    ...body("Answer", op.responses["200"].content), ...body("Error", op.responses.default.content)));
}

function show() {
  const groups = new Map();
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const [method, op] of Object.entries(methods)) {
      if (!`${path} ${op.summary}`.toLowerCase().includes(filter.value.toLowerCase())) continue;
      const group = op.tags[0];
      if (!groups.has(group)) groups.set(group, [make("h2", group)]);
      groups.get(group).push(operation(path, method, op));
    }
  }
  list.replaceChildren(...[...groups.values()].flat());
}

async function load() {
  const key = form.querySelector("input").value;
  const answer = await fetch("openapi.json", { headers: key ? { Authorization: `Bearer ${key}` } : {} });
  form.hidden = answer.ok;
  if (!answer.ok) {
    alerts.textContent = `The server answers ${answer.status}: ${(await answer.json()).error.message}`;
    return;
  }
  alerts.textContent = "";
  spec = await answer.json();
  show();
}

form.addEventListener("submit", (e) => { e.preventDefault(); load(); });
filter.addEventListener("input", () => spec && show());
load();
