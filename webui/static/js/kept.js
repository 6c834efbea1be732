// What this browser keeps, by the same rules on all pages, which docs/web.md describes: records of what was sent and
// answered in IndexedDB, or without it for as long as the page is open. A record is {id, kind, title, changed, …}.
import { OWNER, address, loadState, saveState, withStorage } from "./dom.js";

/** The kinds of records, each of the page at /kind. */
export const KINDS = { chat: "conversation", compare: "comparison", talk: "two models", translate: "translation", write: "text" };
const NAME = `conversations:${OWNER}`;
const STORE = "conversations";
const ADDRESS = new RegExp(`/(${Object.keys(KINDS).join("|")})/([0-9a-f]{24})$`);
const IS_FILE = document.body.dataset.owner !== undefined; // an exported page, which has one address
const inMemory = new Map(); // what could not be stored
const seen = new Set(); // the ids of all records that this page has found or stored

/** Random, as crypto.randomUUID() is missing on pages that are loaded by http from another machine. */
export const newId = () => [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** Whether a value of a file is an id. */
export const isId = (value) => typeof value === "string" && /^[0-9a-f]{24}$/.test(value);

/** The first words of a text, as a title. */
export const titleOf = (text) => text.trim().slice(0, 80);

/** Whether the page was opened at the address of a record, whose run it then selects; a reload keeps the one that is selected. */
export const isNamed = ADDRESS.test(location.pathname) && performance.getEntriesByType("navigation")[0]?.type !== "reload";
let shown = namedId(); // the id in the address

function namedId() {
  return ADDRESS.exec(location.pathname)?.[2] ?? null;
}

function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function complete(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error);
  });
}

let database = null;
function open() {
  database ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    request.onsuccess = () => {
      request.result.onclose = () => { database = null; }; // the browser has closed it
      resolve(request.result);
    };
    request.onerror = () => reject(request.error);
  });
  return database;
}

async function store(mode = "readonly") {
  return (await open()).transaction(STORE, mode).objectStore(STORE);
}

const withKind = (record) => record && { kind: "chat", ...record }; // earlier versions kept conversations only

/** All records, the last changed first. */
export async function allRecords() {
  const stored = await store().then((one) => result(one.getAll())).catch(() => []);
  const records = new Map([...stored, ...inMemory.values()].map((record) => [record.id, withKind(record)]));
  for (const id of records.keys()) seen.add(id);
  return [...records.values()].sort((one, other) => other.changed.localeCompare(one.changed));
}

/** A record; undefined if there is none. */
export async function loadRecord(id) {
  const record = withKind(inMemory.get(id) ?? await store().then((one) => result(one.get(String(id)))).catch(() => undefined));
  if (record) seen.add(id);
  return record;
}

/** A conversation with the turns and replies that another tab has added to the stored one. */
export function mergedTurns(record, stored) {
  const turns = new Map(record.turns.map((turn) => [turn.id, turn]));
  const before = new Map(stored.turns.map((turn) => [turn.id, turn]));
  for (const other of stored.turns) {
    const turn = turns.get(other.id);
    if (!turn) {
      const followed = before.get(other.parent)?.replies[other.follows]?.time; // that reply may now have another place
      const follows = followed ? turns.get(other.parent).replies.findIndex(({ time }) => time === followed) : other.follows;
      const hasCurrent = [...turns.values()].some((one) => one.isCurrent && one.parent === other.parent && one.follows === follows);
      turns.set(other.id, { ...other, follows, isCurrent: other.isCurrent && !hasCurrent });
    } else {
      const known = new Set(turn.replies.map(({ time }) => time));
      const added = other.replies.filter(({ time }) => !known.has(time));
      if (added.length) turns.set(turn.id, { ...turn, stopped: other.stopped, replies: [...turn.replies, ...added] });
    }
  }
  return { ...record, turns: [...turns.values()] };
}

/** A comparison with the turns, the replies and the columns that another tab has added; a removed one comes back if it was asked since. */
function mergedColumns(record, stored) {
  const [own, other] = [record, stored].map(({ turns }) => new Map(turns.map((turn) => [turn.id, turn])));
  const added = stored.turns.filter(({ id }) => !own.has(id));
  const placeIn = (columns, column) => columns.findIndex((one) => JSON.stringify(one) === JSON.stringify(column));
  const isLacking = (column, index) => placeIn(record.columns, column) < 0 && added.some(({ results }) => results[index]);
  const columns = [...record.columns, ...stored.columns.filter(isLacking)];
  const places = columns.map((column) => placeIn(stored.columns, column));
  const better = (one, two) => (one?.reply || !two?.reply ? one ?? two : two) ?? null;
  const resultsOf = ({ id }) => places.map((place, index) => better(own.get(id)?.results[index], other.get(id)?.results[place]));
  const turns = [...record.turns, ...added].map((turn) => ({ ...turn, results: resultsOf(turn) }));
  return { ...record, columns, turns: turns.sort((one, two) => one.time - two.time) };
}

const MERGE = { chat: mergedTurns, compare: mergedColumns }; // the others are written once

/** Returns whether it is kept when the page is closed. What other tabs have stored of it is kept, too. */
export async function saveRecord(record) {
  seen.add(record.id);
  try {
    const records = await store("readwrite");
    const stored = await result(records.get(record.id));
    records.put(stored && MERGE[record.kind] ? MERGE[record.kind](record, stored) : record);
    await complete(records.transaction); // it fails later than the request if the storage is full
    inMemory.delete(record.id);
    return true;
  } catch {
    inMemory.set(record.id, record); // the storage is disabled or full
    return false;
  }
}

/** The same for the record of a file: it adds to what is kept under its id, and changes nothing of it. */
export async function importRecord(record) {
  const stored = await loadRecord(record.id);
  if (!stored) return saveRecord(record);
  if (MERGE[record.kind] && record.kind === stored.kind) return saveRecord(MERGE[record.kind](stored, record));
  const isSame = (key) => ["title", "changed"].includes(key) || JSON.stringify(record[key]) === JSON.stringify(stored[key]);
  return saveRecord(Object.keys(record).every(isSame) ? stored : { ...record, id: newId() });
}

export async function deleteRecord(id) {
  inMemory.delete(id);
  await store("readwrite").then((one) => result(one.delete(id))).catch(() => {});
}

/** The address of the page that shows a record. */
export const pathTo = ({ id, kind }) => address(`/${kind}/${id}`);

/**
 * Remember what a page shows for the next tab, and name it in the address, unless it is still empty; if it `isNext`, Back
 * leads to what was shown before.
 */
export function remember({ id, kind }, isNext = false, isEmpty = false) {
  saveState(`shown:${kind}`, id);
  if (IS_FILE) return;
  shown = isEmpty ? null : id;
  const path = isEmpty ? address(kind === "chat" ? "/" : `/${kind}`) : pathTo({ id, kind });
  if (path !== location.pathname) history[isNext ? "pushState" : "replaceState"](null, "", path + (isNext ? "" : location.search));
}

let keeping = Promise.resolve(); // one after another, as a page may change faster than its record is stored

/** Resolves when all that was to be kept so far is stored. */
export const allKept = () => keeping;

/** Keep what a page shows; `note` says if it is lost when the page is closed, or was deleted in another tab. */
export function keep(record, note) {
  remember(record);
  keeping = keeping.then(() => storeChanged(record, note));
  return keeping;
}

async function storeChanged(record, note) {
  const stored = await loadRecord(record.id);
  if (!stored && seen.has(record.id)) note.textContent = "This was deleted in another tab; now it is kept again.";
  const title = stored?.title || record.title; // it may have been renamed
  const isKept = await saveRecord({ ...record, title, changed: new Date().toISOString() });
  if (!isKept) note.textContent = "The browser does not keep this: its storage is full or disabled. Download or copy it instead.";
}

let isMissing = false; // what the address names

/**
 * Call `show(record, false)` with the record that the address names, or else the last one of its kind, unless the page was
 * opened by a link; and when Back or Forward leads to another record, with {} for an empty page.
 */
export async function showKept(kind, show, link = null) {
  addEventListener("popstate", async () => {
    const named = namedId();
    if (named !== shown) show((named && await loadRecord(named)) || {}, false);
  });
  if (link) return;
  const named = namedId();
  const record = await loadRecord(named ?? loadState(`shown:${kind}`));
  isMissing = named !== null && !record;
  if (record?.kind === kind) show(record, false);
}

/** Tell if there is no record with the name in the address. */
export function noteMissing(note) {
  if (isMissing) note.textContent = "Nothing is kept under this address in this browser. It may have been deleted, or be kept in another browser.";
}

/** Forget everything: all records, and what pages remember in the storage, except the theme and the token. */
export async function forgetAll() {
  for (const { id } of await allRecords()) await deleteRecord(id);
  withStorage(() => [sessionStorage, localStorage].forEach((storage) => {
    for (const key of Object.keys(storage)) if (key.startsWith(`${OWNER}:`)) storage.removeItem(key);
  }));
}
