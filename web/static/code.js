// Colours for code: comments, texts, numbers and keywords, by one small lexer for all languages. Its alternatives consume
// what they begin even without an end, so that it takes linear time.

import { make } from "./dom.js";

const words = (list) => new Set(list.split(" "));

const common = "if else for while do break continue return switch case default try catch finally throw new delete class " +
  "struct enum interface extends implements import export package const let var func function fn def lambda public private " +
  "protected static void int float double char bool string type in of is not and or true false null nil None True False " +
  "self this async await yield from as with pass raise except elif go defer chan map range select goto use mod pub mut " +
  "impl trait match where unsafe namespace using template typename virtual override auto then fi esac done local echo";
const sql = "select from where and or not insert into values update set delete create table drop alter join left right inner " +
  "outer on group by order limit having as distinct union null primary key index";

const families = [
  { names: words("python py ruby rb bash sh shell zsh console yaml yml toml dockerfile make makefile r perl"), comment: "#[^\\n]*", keywords: words(common) },
  { names: words("sql lua haskell hs ada"), comment: "--[^\\n]*", keywords: words(sql + " " + sql.toUpperCase() + " " + common) },
  { names: words("text txt markdown md plain diff"), comment: null },
  { names: null, comment: "\\/\\/[^\\n]*|\\/\\*[^]*?(?:\\*\\/|$)", keywords: words(common) },
];

const most = 100_000; // characters

// highlight returns nodes and strings that show a piece of code.
export function highlight(code, language) {
  const family = families.find((f) => f.names === null || f.names.has(language.toLowerCase()));
  if (family.comment === null || code.length > most) return [code];
  const lexer = new RegExp(`(${family.comment})|("(?:\\\\[^]|[^"\\\\\\n])*"?|'(?:\\\\[^]|[^'\\\\\\n])*'?|\`[^\`]*\`?)|` +
    "(\\b\\d[\\w.]*)|([A-Za-z_]\\w*)", "g");
  const out = [];
  let at = 0;
  for (const m of code.matchAll(lexer)) {
    const kind = m[1] !== undefined ? "comment" : m[2] !== undefined ? "text" : m[3] !== undefined ? "number" :
      family.keywords.has(m[4]) ? "keyword" : "";
    if (!kind) continue;
    out.push(code.slice(at, m.index), make("span", { class: "c-" + kind }, m[0]));
    at = m.index + m[0].length;
  }
  out.push(code.slice(at));
  return out;
}
