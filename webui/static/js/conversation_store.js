// The conversations that this browser keeps, in IndexedDB; without it, for as long as the page is open.
import { OWNER } from "./dom.js";

const NAME = `conversations:${OWNER}`;
const STORE = "conversations";
const inMemory = new Map(); // what could not be stored

function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

let database = null;
function open() {
  database ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return database;
}

async function store(mode = "readonly") {
  return (await open()).transaction(STORE, mode).objectStore(STORE);
}

/** All conversations, the last changed first. */
export async function allConversations() {
  const stored = await store().then((one) => result(one.getAll())).catch(() => []);
  const records = new Map([...stored, ...inMemory.values()].map((record) => [record.id, record]));
  return [...records.values()].sort((one, other) => other.changed.localeCompare(one.changed));
}

/** The record of a conversation; undefined if there is none. */
export async function loadConversation(id) {
  return inMemory.get(id) ?? store().then((one) => result(one.get(id))).catch(() => undefined);
}

/** A record with the turns and replies that another tab has added to the stored one. */
export function merged(record, stored) {
  const turns = new Map(record.turns.map((turn) => [turn.id, turn]));
  for (const other of stored?.turns ?? []) {
    const turn = turns.get(other.id);
    if (!turn) {
      const hasCurrent = [...turns.values()].some((one) => one.isCurrent && one.parent === other.parent && one.follows === other.follows);
      turns.set(other.id, hasCurrent ? { ...other, isCurrent: false } : other);
    } else {
      const known = new Set(turn.replies.map(({ time }) => time));
      const added = other.replies.filter(({ time }) => !known.has(time));
      if (added.length) turns.set(turn.id, { ...turn, replies: [...turn.replies, ...added] });
    }
  }
  return { ...record, turns: [...turns.values()] };
}

/** Returns whether it is kept when the page is closed. What other tabs have stored of it is kept, too. */
export async function saveConversation(record) {
  try {
    const conversations = await store("readwrite");
    await result(conversations.put(merged(record, await result(conversations.get(record.id)))));
    inMemory.delete(record.id);
    return true;
  } catch {
    inMemory.set(record.id, record); // the storage is disabled or full
    return false;
  }
}

export async function deleteConversation(id) {
  inMemory.delete(id);
  await store("readwrite").then((one) => result(one.delete(id))).catch(() => {});
}
