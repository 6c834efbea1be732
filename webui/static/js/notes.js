// Notes about runs: a star, hidden or not, and a text.
import { fetchJson } from "./api.js";
import { ask, byId, element } from "./dom.js";

/** Change some of the notes of a run; the notes that are then stored. */
export function saveNotes(run, changes) {
  return fetchJson(`/api/runs/${encodeURIComponent(run.name)}/notes`, { method: "PUT", body: { ...run.notes, ...changes } });
}

/** Ask for the text of a note; null if the dialog was cancelled. */
export async function askForNote(run) {
  byId("note-run").textContent = run.name;
  byId("note-text").value = run.notes.text;
  return (await ask(byId("note-dialog"))) === "save" ? byId("note-text").value.trim() : null;
}

/** A button that shows and toggles the star of a run; `onToggle` saves it. */
export function starButton({ name, notes: { star } }, onToggle) {
  return element("button", { type: "button", class: "star", "aria-pressed": String(star), "aria-label": `Star ${name}`, title: star ? "Remove the star" : "Star", click: onToggle }, star ? "★" : "☆");
}
