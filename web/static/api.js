// The server's API, as the page uses it. Paths are relative, so the page also works below a prefix of a proxy.

import { dataOf } from "./sse.js";

// ApiError is an answer that is an error: the server's own words, its status, and the parameter at fault or "".
export class ApiError extends Error {
  constructor(status, message, param) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

async function ask(path, key, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  if (key) headers.Authorization = "Bearer " + key;
  let answer;
  try {
    answer = await fetch(new URL(path, document.baseURI), { ...options, headers, cache: "no-store" });
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new ApiError(0, "The server cannot be reached. Is it running?", "");
  }
  if (!answer.ok) throw await errorOf(answer);
  return answer;
}

async function errorOf(answer) {
  let error;
  try { error = (await answer.json()).error; } catch { /* a proxy's page, say */ }
  const text = (v) => typeof v === "string" ? v : "";
  return new ApiError(answer.status, text(error?.message) || `The server answered with status ${answer.status}.`, text(error?.param));
}

export const models = async (key) => (await (await ask("v1/models", key)).json()).data ?? [];
export const detokenize = async (tokens, model, key) => (await (await ask("detokenize", key, {
  method: "POST", body: JSON.stringify({ model, tokens }), headers: { "Content-Type": "application/json" },
})).json()).prompt;
export const metrics = async () => (await ask("metrics", "", { headers: { Accept: "text/plain" } })).text();
export const blocks = async (key, model) =>
  (await ask(`kv/blocks?limit=2000&model=${encodeURIComponent(model)}`, key)).json();

// stream asks for an answer and yields the chunks of its stream. An error inside the stream is thrown.
export async function* stream(body, key, signal) {
  const answer = await ask("v1/chat/completions", key, {
    method: "POST", signal, body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
  });
  for await (const chunk of dataOf(answer.body)) {
    if (chunk.error) throw new ApiError(500, chunk.error.message ?? "The answer failed.", "");
    yield chunk;
  }
}
