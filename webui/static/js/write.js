// The page for language models: a prompt, and the texts with which one or two snapshots continue it.
import { fetchLines } from "./api.js";
import { byId, formatNumber, formatSeconds } from "./dom.js";
import { RunPicker, shortName, snapshotLabel } from "./run_picker.js";
import { WrittenText } from "./written_text.js";

const NONE = "";
const note = byId("note");
const other = byId("other");
const picker = new RunPicker(showRun, (error) => { note.textContent = error.message; }, "/write");

let shownRun = null; // whose settings the form has
let pending = null; // the AbortController of the texts that are being written

function showRun(details) {
  note.textContent = "";
  if (details === null) {
    note.textContent = `No language models yet. Train one with "task": "language_model" in its configuration.`;
    return;
  }
  const selected = other.value;
  other.replaceChildren(new Option("–", NONE), ...details.snapshots.map((name) => new Option(snapshotLabel(name), name)));
  if (details.name === shownRun && details.snapshots.includes(selected)) other.value = selected;
  if (details.name !== shownRun) byId("temperature").value = details.config?.decoding.temperature ?? 1;
  shownRun = details.name;
  if (!details.config) note.textContent = `This run cannot be loaded: ${details.reason}`;
  else if (details.state === "training") note.textContent = "This run is still training; its newest checkpoint writes.";
  else if (details.state === "failed") note.textContent = `Training of this run failed${details.reason ? `: ${details.reason}` : "."}`;
}

/** The seed of the form, or a new one, so that two snapshots use the same. */
function chooseSeed() {
  const { value } = byId("seed");
  return value === "" ? crypto.getRandomValues(new Uint32Array(1))[0] >>> 1 : Number(value);
}

async function write() {
  if (!picker.selection.run) return;
  pending?.abort();
  const controller = pending = new AbortController();
  const { run, snapshot } = picker.selection;
  const body = {
    run, prompt: byId("text").value, temperature: Number(byId("temperature").value), length: Number(byId("length").value), seed: chooseSeed(),
  };
  const snapshots = other.value === NONE ? [snapshot] : [snapshot, other.value];
  const texts = snapshots.map((name) => new WrittenText(`${shortName(run)} · ${snapshotLabel(name)}`, body.prompt));
  byId("texts").classList.toggle("single", texts.length === 1);
  byId("texts").replaceChildren(...texts.map((text) => text.node));
  byId("details").hidden = true;
  byId("stop").hidden = false;
  await Promise.all(texts.map((text, index) => stream(text, { ...body, snapshot: snapshots[index] }, controller.signal)));
  if (pending === controller) finish();
}

/** Request a text, and show it as it is written. */
async function stream(text, body, signal) {
  const count = () => `${formatNumber(text.tokens.length)} tokens · seed ${body.seed}`;
  try {
    for await (const line of fetchLines("/api/generate", body, signal)) {
      if (line.tokens) text.add(line.tokens);
      else if (line.error) text.fail(line.error);
      else text.status.textContent = `${count()} · ${formatSeconds(line.seconds)}`;
    }
  } catch (error) {
    if (error.name === "AbortError") text.status.textContent = `Stopped · ${count()}`;
    else text.fail(error.message);
  }
}

function finish() {
  pending = null;
  byId("stop").hidden = true;
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  write();
});
byId("composer").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  byId("composer").requestSubmit();
});
byId("stop").addEventListener("click", () => {
  pending?.abort();
  byId("send").focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") pending?.abort();
});
picker.start();
