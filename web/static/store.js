// What the browser keeps: conversations and settings in localStorage, keys there or only for the tab. Nothing here fails:
// a browser without storage, or with a full one, keeps things until the page is closed, and saveChat says so.

import { valid } from "./tree.js";

const chatPrefix = "kvasir.chat.", settingsKey = "kvasir.settings", keysKey = "kvasir.keys";

function read(storage, key) {
  try { return JSON.parse(storage().getItem(key)); } catch { return null; }
}

function write(storage, key, value) {
  try { storage().setItem(key, JSON.stringify(value)); return true; } catch { return false; }
}

const local = () => window.localStorage, tab = () => window.sessionStorage; // naming them may throw

export function loadChats() {
  let names = [];
  try { names = Object.keys(local()).filter((k) => k.startsWith(chatPrefix)); } catch { /* no storage */ }
  const chats = names.map((k) => read(local, k)).filter(valid);
  for (const node of chats.flatMap((c) => c.nodes).filter((n) => n.live)) { // the page was closed before the answer's end
    delete node.live;
    node.info = { ...node.info, finish: "stopped" };
  }
  return chats.sort((a, b) => b.updated - a.updated);
}

// saveChat returns false if the browser's storage is full or absent.
export function saveChat(chat) {
  if (write(local, chatPrefix + chat.id, chat)) return true;
  const slim = { ...chat, nodes: chat.nodes.map(({ tokens, prompt, ...rest }) => rest) }; // tokens take the most room
  return write(local, chatPrefix + chat.id, slim);
}

export function deleteChat(id) {
  try { local().removeItem(chatPrefix + id); } catch { /* no storage */ }
}

export function loadSettings() {
  const s = read(local, settingsKey);
  const settings = s !== null && typeof s === "object" ? s : {};
  if (settings.values === null || typeof settings.values !== "object") settings.values = {};
  return settings;
}

export const saveSettings = (settings) => write(local, settingsKey, settings);

export function loadKeys() {
  const kept = read(local, keysKey), k = kept ?? read(tab, keysKey);
  const text = (v) => typeof v === "string" ? v : "";
  return { api: text(k?.api), admin: text(k?.admin), remember: kept !== null };
}

export function saveKeys({ api, admin, remember }) {
  try { local().removeItem(keysKey); tab().removeItem(keysKey); } catch { /* no storage */ }
  if (api || admin) write(remember ? local : tab, keysKey, { api, admin });
}
