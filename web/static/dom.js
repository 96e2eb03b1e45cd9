// make returns an element with properties, attributes and children. Strings become text, never HTML.
export function make(tag, given = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (value === true) el.setAttribute(name, "");
    else if (value !== false && value !== undefined) el.setAttribute(name, value);
  }
  el.append(...children);
  return el;
}

// svg does the same for drawings.
export function svg(tag, given = {}, ...children) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) el.setAttribute(name, value);
  el.append(...children);
  return el;
}

export const $ = (id) => document.getElementById(id);
