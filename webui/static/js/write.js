// The page for language models: a prompt, and the texts with which one or two snapshots continue it.
import { fetchLines } from "./api.js";
import { ConversationList } from "./conversation_list.js";
import { byId, counted, formatSeconds, loadState, onEscape, saveState } from "./dom.js";
import { isNamed, newId, noteMissing, showKept, titleOf } from "./kept.js";
import { linkTo, noteIncomplete, notRepeatable, offerLink, openedLink } from "./permalink.js";
import { RunPicker, snapshotTitle, trainingHint } from "./run_picker.js";
import { WrittenText } from "./written_text.js";

const NONE = "";
const FIELDS = ["text", "temperature", "top_k", "top_p", "length", "seed"]; // of the form, which a reload keeps
const note = byId("note");
const other = byId("other");
const picker = new RunPicker(showRun, (error) => { note.textContent = error.message; }, "/write");

let shownRun = null; // whose settings the form has
let pending = null; // the AbortController of the texts that are being written
let texts = []; // that are shown
const list = new ConversationList("write", open);

function showRun(details) {
  note.textContent = "";
  if (details === null) {
    note.replaceChildren("No language models yet.", ...trainingHint("shakespeare_quick"));
    return;
  }
  const selected = other.value;
  other.replaceChildren(new Option("–", NONE), ...details.snapshots.map((name) => new Option(snapshotTitle(name, details), name)));
  if (details.name === shownRun && details.snapshots.includes(selected)) other.value = selected;
  const settings = details.config?.decoding ?? {};
  for (const name of ["top_k", "top_p"]) byId(name).placeholder = settings[name] ?? "all";
  if (details.name !== shownRun) byId("temperature").value = settings.temperature ?? 1;
  shownRun = details.name;
  if (!details.config) note.textContent = `This run cannot be loaded: ${details.reason}`;
  else if (details.state === "training") note.textContent = "This run is still training; its newest checkpoint writes.";
  else if (details.state === "failed") note.textContent = `Training of this run failed${details.reason ? `: ${details.reason}` : "."}`;
}

const numberOf = (id) => (byId(id).value === "" ? null : Number(byId(id).value));

async function write() {
  const { run, snapshot } = picker.selection;
  if (!run) return;
  const seed = numberOf("seed") ?? crypto.getRandomValues(new Uint32Array(1))[0] >>> 1; // two snapshots use the same
  const settings = Object.fromEntries(["temperature", "top_k", "top_p", "length"].map((name) => [name, numberOf(name)]));
  const snapshots = other.value === NONE ? [snapshot] : [snapshot, other.value];
  await writeTexts(snapshots.map((name) => ({ run, snapshot: name, prompt: byId("text").value, ...settings, seed })));
}

/** Write the texts of requests side by side; the text of a link is compared with what it was. */
async function writeTexts(requests, linked = null) {
  leave();
  const controller = pending = new AbortController();
  list.show({ id: newId() });
  show(requests);
  byId("stop").hidden = false;
  await Promise.all(texts.map((text) => stream(text, controller.signal, linked)));
  if (pending === controller) finish();
}

function show(requests) {
  texts = requests.map((request) => new WrittenText(request, copyLink, () => list.download(content(), "text")));
  byId("texts").classList.toggle("single", texts.length === 1);
  byId("texts").replaceChildren(...texts.map((text) => text.node));
  byId("details").hidden = true;
}

/** Request a text, and show it as it is written. */
async function stream(text, signal, linked) {
  const count = () => `${counted(text.tokens.length, "token")} · seed ${text.request.seed}`;
  try {
    for await (const line of fetchLines("/api/generate", text.request, signal)) {
      if (line.tokens) {
        text.add(line.tokens);
        if (!signal.aborted) list.keepGrowing(content, note);
      } else if (line.error) text.fail(line.error);
      else {
        text.setStep(line.step ?? null);
        const comparison = !linked ? [] : [text.value === linked.text ? "The same text as when the link was made." : `The model now writes a different text. When the link was made, it was: “${linked.text}”`];
        text.end(`${count()} · ${formatSeconds(line.seconds)}`, [...comparison, ...(line.warnings ?? []).map((warning) => `Note: ${warning}.`)]);
      }
    }
  } catch (error) {
    if (error.name === "AbortError") text.end(`Stopped · ${count()}`);
    else text.fail(linked ? `${notRepeatable("text", error)} When the link was made, it was: “${linked.text}”` : error.message);
  }
}

async function copyLink(text) {
  await offerLink(text.note, linkTo("text", { ...text.request, step: text.step, text: text.value }), "text");
}

function isTextLink({ run, snapshot, prompt, text, length, seed }) {
  return [run, snapshot, prompt, text].every((value) => typeof value === "string") && [length, seed].every(Number.isInteger);
}

function content() {
  const shown = texts.map(({ request, step, tokens, status, note: remark }) => ({ request, step, tokens, status: pending ? "Stopped" : status.textContent, remark: remark.textContent }));
  const { run, prompt } = texts[0].request;
  return { title: titleOf(prompt || texts[0].value), run, fields: fields(), shown };
}

/** Keep the texts, unless nothing was written. */
function save() {
  if (texts.some(({ tokens }) => tokens.length)) list.keep(content(), note);
}

/** Stop what is being written, and keep it. */
function leave() {
  if (!pending) return;
  save();
  pending.abort();
  pending = null;
}

/** Show a record, as it was, or an empty page. */
function open(record, isNext = true) {
  leave();
  byId("stop").hidden = true;
  list.show(record, isNext);
  const { run, shown = [] } = record;
  if (run) setFields(record);
  if (run) picker.select(shown[0].request);
  show(shown.map(({ request }) => request));
  shown.forEach(({ step, tokens, status, remark }, index) => {
    texts[index].setStep(step);
    texts[index].add(tokens);
    texts[index].end(status, [remark]);
  });
}

const fields = () => FIELDS.map((name) => byId(name).value);

function setFields({ run, fields: values }) {
  shownRun = run;
  FIELDS.forEach((name, index) => { byId(name).value = values[index] ?? ""; });
}

function finish() {
  pending = null;
  byId("stop").hidden = true;
  save();
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
onEscape(() => pending?.abort());
addEventListener("pagehide", () => {
  saveState("prompt", { run: shownRun, fields: fields() }); // also if nothing was written
  if (pending) save();
});
const link = openedLink("text", isTextLink);
const draft = isNamed ? null : loadState("prompt");
await showKept("write", open, link);
if (link) setFields({ run: link.run, fields: FIELDS.map((name) => (name === "text" ? link.prompt : link[name]) ?? "") });
else if (draft) setFields(draft);
await picker.start(link);
noteMissing(note);
noteIncomplete(note);
if (link) {
  const { text, ...request } = link;
  writeTexts([request], link);
}
