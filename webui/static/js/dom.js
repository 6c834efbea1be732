// Elements, made in one place: text always goes in as text, so that nothing a model or a person says becomes markup.

/** element("p", {class: "quiet", title: "…"}, "text", otherElement, …); attributes of null or false are left out. */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for a drawing. */
export function drawing(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

export const byId = (id) => document.getElementById(id);

const places = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
export const number = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : places.format(value));

export const seconds = (value) => (value < 0.95 ? `${Math.max(1, Math.round(value * 1000))} ms` : `${value.toFixed(1)} s`);

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
/** "3 minutes ago", for seconds since 1970. */
export function ago(time) {
  const passed = time - Date.now() / 1000;
  for (const [unit, length] of [["year", 31557600], ["month", 2629800], ["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(passed) >= length) return relative.format(Math.round(passed / length), unit);
  }
  return "just now";
}

/** Give a file to the person. */
export function download(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Put text into the clipboard; browsers offer that on https and on localhost only. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** What was kept under a name in this tab, or null. */
export function kept(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name));
  } catch {
    return null;
  }
}

export function keep(name, value) {
  try {
    sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    // full, or forbidden: the page goes on without
  }
}
