// Permanent links: all that models need to give a reply or a conversation again, and what it was, to compare.
import { copyToClipboard, element } from "./dom.js";

/** The address of this page with a value, in the part of the URL that browsers do not send to servers. */
export function linkTo(name, value) {
  return `${location.href.replace(/[?#].*$/, "")}#${new URLSearchParams({ [name]: JSON.stringify(value) })}`;
}

let isCut = false; // the link that was opened

/**
 * The value of the link that was opened; null if there is none, or `isValid` does not accept it: see noteIncomplete.
 * A link that is pasted into the address of an open page is opened as well.
 */
export function openedLink(name, isValid) {
  addEventListener("hashchange", () => { if (linked(name) !== null) location.reload(); });
  const text = linked(name);
  if (text === null) return null;
  history.replaceState(null, "", location.pathname + location.search); // a reload shows the page as it is then
  try {
    const value = JSON.parse(text);
    if (isValid(value)) return value;
  } catch {
    // it was cut
  }
  isCut = true;
  return null;
}

/** Whether a link was opened that does not contain what it should. */
export const isIncomplete = () => isCut;

/** Tell if the link that was opened is incomplete. */
export function noteIncomplete(note) {
  if (isCut) note.textContent = "This link is incomplete. Copy it again.";
}

const linked = (name) => new URLSearchParams(location.hash.slice(1)).get(name);

/** Copy a link to `what` to the clipboard, and show it in an element. */
export async function offerLink(note, link, what) {
  const message = await copyToClipboard(link, `link to this ${what}`, "Copy the address of this ");
  note.replaceChildren(message, " ", element("a", { href: link, target: "_blank", rel: "noopener" }, "link"));
}

/** Why the `what` of a link cannot be computed again; `error` is the server's. */
export const notRepeatable = (what, error) => `The ${what} cannot be computed again: ${error.message.replace(/\.$/, "")}.`;
