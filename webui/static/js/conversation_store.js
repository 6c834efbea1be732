// The conversations that this browser keeps, in IndexedDB; without it, for as long as the page is open.
import { address } from "./dom.js";

const NAME = `conversations:${address("/")}`;
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

/** Returns whether it is kept when the page is closed. */
export async function saveConversation(record) {
  try {
    await result((await store("readwrite")).put(record));
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
