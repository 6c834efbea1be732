// Helpers for the DOM, formatting and storage. Text is always inserted as text, so that no message can become markup.

/** element("p", {class: "muted", click: onClick}, "text", otherElement, …); attributes that are null or false are omitted. */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svgElement(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** The address of a path of this server, which may be below another path, behind a proxy. */
export const address = (path) => document.body.dataset.root + path;

export const byId = (id) => document.getElementById(id);

/** Whether a key is Enter, and does not end the input of a character, which in Safari only the old code 229 tells. */
export const isEnter = (event) => event.key === "Enter" && !event.isComposing && event.keyCode !== 229;

/** Name the cells of table rows by the titles of their columns, for screens on which each row is shown as a list. */
export function labelCells(rows, titles) {
  for (const row of rows) [...row.cells].forEach((cell, index) => { cell.dataset.label = titles[index]; });
  return rows;
}

/** Give a <select> these options, [[value, title], …]; those that remain are kept, so that an open list stays open. */
export function setOptions(select, options) {
  const existing = new Map([...select.options].map((option) => [option.value, option]));
  const wanted = options.map(([value, title]) => {
    const option = existing.get(value) ?? new Option(title, value);
    if (option.text !== title) option.text = title;
    return option;
  });
  if (wanted.length !== select.options.length || wanted.some((option, index) => select.options[index] !== option)) {
    const { value } = select;
    select.replaceChildren(...wanted);
    select.value = value;
  }
}

const fourDigits = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
export const formatNumber = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : fourDigits.format(value));

/** "1 run", "2 runs". */
export const counted = (count, one, many = `${one}s`) => `${formatNumber(count)} ${count === 1 ? one : many}`;

export const formatSeconds = (value) => (value < 0.95 ? `${Math.max(1, Math.round(value * 1000))} ms` : `${value.toFixed(1)} s`);

const relativeTime = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
/** "3 minutes ago"; `time` is in seconds since 1970. */
export function timeAgo(time) {
  const elapsed = time - Date.now() / 1000;
  for (const [unit, length] of [["year", 31557600], ["month", 2629800], ["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(elapsed) >= length) return relativeTime.format(Math.round(elapsed / length), unit);
  }
  return "just now";
}

/** A name for a file, such as "conversation_2026-05-04_17-03-22.json". */
export const timedName = (name, extension) => `${name}_${new Date().toLocaleString("sv").replaceAll(":", "-").replace(" ", "_")}.${extension}`;

/** Offer a file for download. */
export function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Copy text, called `name`, to the clipboard, which browsers allow on https and localhost only; returns a message for the user. */
export async function copyToClipboard(text, name, otherwise) {
  try {
    await navigator.clipboard.writeText(text);
    return `The ${name} was copied to the clipboard.`;
  } catch {
    return `The browser does not allow copying. ${otherwise}`;
  }
}

/** Show a dialog; returns the value of the button that closes it, "cancel" if that was Escape. */
export function ask(dialog) {
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => { dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true }); });
}

/** Call `stop` when Escape is pressed, unless that closes a panel or a menu. */
export function onEscape(stop) {
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector(".offcanvas.show, .dropdown-menu.show")) stop();
  });
}

/** Whose pages keep something in this browser: the run and weights of an exported file, or the server and its root path. */
export const OWNER = document.body.dataset.owner ?? address("/");

/** What `use()` returns; null if the storage is disabled or full, or what it contains cannot be read. */
export function withStorage(use) {
  try {
    return use();
  } catch {
    return null;
  }
}

/** Load what this tab has kept, or else what was kept last in any tab; null if there is nothing. */
export const loadState = (name) => withStorage(() => JSON.parse(sessionStorage.getItem(`${OWNER}:${name}`) ?? localStorage.getItem(`${OWNER}:${name}`)));

export function saveState(name, value) {
  withStorage(() => { for (const storage of [sessionStorage, localStorage]) storage.setItem(`${OWNER}:${name}`, JSON.stringify(value)); });
}
