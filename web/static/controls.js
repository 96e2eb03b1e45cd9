// The parameters of a request that a person can set, and the request they make. Pure, but for what a caller passes in.

const number = (name, label, min, max, hint, step = 0.01) => ({ name, label, kind: "number", min, max, step, hint });
const whole = (name, label, min, max, hint) => ({ name, label, kind: "integer", min, max, step: 1, hint });
const lines = (name, label, most, hint) => ({ name, label, kind: "lines", most, hint });
const json = (name, label, form, hint) => ({ name, label, kind: "json", form, hint }); // form is array or object

const huge = 2 ** 31 - 1;

// groups are the parameters as they are shown. docs/sampling.md says what each does.
export const groups = [
  { title: "Sampling", open: true, list: [
    number("temperature", "Temperature", 0, 2, "0 always takes the likeliest token"),
    number("top_p", "Top-p", 0, 1, "the likeliest tokens that have this probability"),
    whole("top_k", "Top-k", -1, huge, "as many of the likeliest tokens; 0 is all"),
    number("min_p", "Min-p", 0, 1, "tokens at least this share of the likeliest"),
    whole("max_tokens", "Most tokens of an answer", 1, huge, "up to the end of the context"),
    whole("seed", "Seed", -(2 ** 53) + 1, 2 ** 53 - 1, "the same seed gives the same answer"),
    lines("stop", "Stop at these texts, one on each line", 4, ""),
  ] },
  { title: "Repetition", list: [
    number("repetition_penalty", "Repetition penalty", 0.01, 100, "1 is off"),
    number("frequency_penalty", "Frequency penalty", -2, 2, "0 is off"),
    number("presence_penalty", "Presence penalty", -2, 2, "0 is off"),
    number("dry_multiplier", "DRY multiplier", 0, 100, "0 is off"),
    number("dry_base", "DRY base", 1, 100, "1.75"),
    whole("dry_allowed_length", "DRY allowed length", 1, huge, "2"),
    whole("dry_penalty_last_n", "DRY looks at as many tokens", -1, huge, "-1 is all"),
    lines("bad_words", "Words that must not occur, one on each line", 64, ""),
  ] },
  { title: "Other samplers", list: [
    number("typical_p", "Typical-p", 0, 1, "1 is off"),
    number("top_n_sigma", "Top-n-sigma", -1, 100, "0 is off"),
    number("xtc_probability", "XTC probability", 0, 1, "0 is off"),
    number("xtc_threshold", "XTC threshold", 0, 1, "0.1"),
    number("dynatemp_range", "Dynamic temperature, range", 0, 2, "0 is off"),
    number("dynatemp_exponent", "Dynamic temperature, exponent", 0, 100, "1"),
    whole("mirostat", "Mirostat", 0, 2, "0 is off, 2 is on"),
    number("mirostat_tau", "Mirostat tau, in bits", 0, 100, "5"),
    number("mirostat_eta", "Mirostat eta", 0, 1, "0.1"),
  ] },
  { title: "Tools and structure", list: [
    json("tools", "Tools, as the API's JSON array", "array",
      "for example [{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": \"object\"}}}]"),
    json("response_format", "JSON Schema of the answer", "object", "for example {\"type\": \"object\"}"),
  ] },
  { title: "More parameters", list: [
    json("extra", "Any parameters of the API, as a JSON object", "object", "for example {\"chat_template_kwargs\": {\"enable_thinking\": false}}"),
  ] },
];

export const controls = groups.flatMap((g) => g.list);

// What the page itself decides.
const reserved = ["messages", "model", "stream", "stream_options", "n"];

// read returns the value of a control's text: undefined if it is empty. It throws what is wrong with it.
export function read(control, text) {
  if (text.trim() === "") return undefined;
  const { kind, min, max, most, label } = control;
  if (kind === "lines") {
    const list = text.split("\n").filter((line) => line !== "");
    if (list.length > most) throw new Error(`${label}: at most ${most}`);
    return list;
  }
  if (kind === "json") {
    let value;
    try { value = JSON.parse(text); } catch (err) { throw new Error(`${label}: ${err.message}`); }
    const form = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
    if (form !== control.form) throw new Error(`${label}: it is no ${control.form}`);
    if (control.name === "extra") for (const name of reserved) if (name in value) throw new Error(`${label}: the page sets "${name}" itself`);
    return value;
  }
  const value = Number(text);
  if (!Number.isFinite(value) || kind === "integer" && !Number.isSafeInteger(value)) {
    throw new Error(`${label}: want a ${kind === "integer" ? "whole " : ""}number`);
  }
  if (value < min || value > max) throw new Error(`${label}: want a number from ${min} to ${max === huge ? "2³¹-1" : max}`);
  return value;
}

// parameters returns the part of a request that controls make. values are their texts by name. An error has the name of
// the control that is at fault.
export function parameters(values, logprobs) {
  const out = logprobs ? { logprobs: true, top_logprobs: 5, return_token_ids: true, return_token_origins: true } : {};
  for (const control of controls) {
    let value;
    try {
      value = read(control, values[control.name] ?? "");
    } catch (err) {
      throw Object.assign(err, { control: control.name });
    }
    if (control.name === "extra") Object.assign(out, value);
    else if (control.name === "response_format" && value) {
      out.response_format = { type: "json_schema", json_schema: { name: "answer", schema: value } };
    }
    else if (value !== undefined) out[control.name] = value;
  }
  return out;
}
