// The page for translations: a text, the translation of each of its lines, and the details of one line.
import { ApiError, chat } from "./api.js";
import { Composer } from "./composer.js";
import { DecodingForm } from "./decoding.js";
import { ConversationList } from "./conversation_list.js";
import { byId, copyToClipboard, element, formatSeconds, loadState, onEscape, saveState } from "./dom.js";
import { isNamed, newId, noteMissing, showKept, titleOf } from "./kept.js";
import { attention, facts, hypotheses, unknownWords } from "./explanation.js";
import { capitalize, labelsOf } from "./labels.js";
import { errorMessage, warning } from "./messages.js";
import { linkTo, noteIncomplete, notRepeatable, offerLink, openedLink } from "./permalink.js";
import { RunPicker, modelLabel, trainingHint } from "./run_picker.js";
import { searchLink } from "./search_request.js";
import { tokenElement } from "./tokens.js";

const MAX_LINES = 100;
const MAX_REQUESTS = 8; // at a time; the server decodes them as one batch
const MAX_EXAMPLES = 4;
const labels = labelsOf("translation");
const form = new DecodingForm();
const picker = new RunPicker(showRun, (error) => { note.textContent = error.message; }, "/translate");
const longestLine = (text) => text.split("\n").reduce((longest, line) => Math.max(longest, [...line].length), 0);
const composer = new Composer(translate, { keepsText: true, maxHeight: 420, length: longestLine });
const note = byId("note");
const output = byId("output");

/** The lines of the text: {source, answer, error, element}; a line without answer and error waits, unless it is blank. */
let lines = [];
let shown = null; // the line whose details are shown
let pending = null; // the AbortController of the current requests
let model = null; // which translates the lines
let isChosen = false; // whether the user has chosen another run since the last one was shown
let link = null; // whose translation is shown again
let references = new Map(); // by source, of the run's samples
const list = new ConversationList("translate", open);

function showRun(details) {
  note.textContent = "";
  if (details === null) {
    note.replaceChildren("No translation runs yet.", ...trainingHint("dates"));
    return;
  }
  form.setRun(details);
  references = new Map(details.samples.map(({ source, target }) => [source, target]));
  drawExamples();
  if (!details.config) note.textContent = `This run cannot be loaded: ${details.reason}`;
  else if (details.state === "training") note.textContent = `This run is still training; ${labels.outputs} come from its newest checkpoint.`;
  else if (details.state === "failed") note.textContent = `Training of this run failed${details.reason ? `: ${details.reason}` : "."}`;
  if (isChosen) translateAgain();
  isChosen = false;
}

/** Sources of the run's samples to try, as long as nothing is translated. */
function drawExamples() {
  const show = (source) => {
    composer.setText(source);
    composer.send(translate);
  };
  const buttons = [...references.keys()].slice(0, MAX_EXAMPLES).map((source) => element("button", { type: "button", class: "btn btn-soft", dir: "auto", click: () => show(source) }, source));
  byId("example-buttons").replaceChildren(...buttons);
  byId("examples").hidden = lines.length > 0 || !buttons.length;
}

function translate(text) {
  const sources = text.split("\n").map((line) => line.trim());
  if (!picker.selection.run) {
    note.textContent ||= "There is no run to translate with yet.";
    return false;
  }
  if (sources.length > MAX_LINES) {
    note.textContent = `At most ${MAX_LINES} lines can be translated at a time, not ${sources.length}.`;
    return false;
  }
  note.textContent = "";
  pending?.abort();
  const before = JSON.stringify([lines.map(({ source }) => source), model?.run, model?.snapshot]);
  if (before !== JSON.stringify([sources, picker.selection.run, picker.selection.snapshot])) list.show({ id: newId() });
  lines = sources.map((source) => ({ source, answer: null, error: null, element: element("li") }));
  shown = null;
  output.classList.toggle("several", lines.length > 1);
  output.replaceChildren(...lines.map((line) => line.element));
  request(lines);
  return true;
}

/** Translate the same text after another run or snapshot was selected. */
function translateAgain() {
  if (lines.length) translate(lines.map((line) => line.source).join("\n"));
}

/** Request the translations of lines, in their order; an error that is not about one line stops the others. */
async function request(requested) {
  const controller = pending = new AbortController();
  model = link ?? { ...picker.selection, decoding: form.value };
  if (model.decoding.method === "sample") model.decoding.seed ??= crypto.getRandomValues(new Uint32Array(1))[0] >>> 1; // for a link
  const waiting = requested.filter((line) => line.source);
  for (const line of requested) Object.assign(line, { answer: null, error: null, waits: Boolean(line.source) });
  requested.forEach(drawLine);
  update();
  list.keep(content(), note);
  const work = async () => {
    for (let line = waiting.shift(); line && !controller.signal.aborted; line = waiting.shift()) {
      try {
        line.answer = await fetchAnswer(line.source, model, controller.signal);
      } catch (error) {
        if (error.name !== "AbortError" && !(error instanceof ApiError)) throw error;
        if (error instanceof ApiError) line.error = error.message;
        if (error instanceof ApiError && error.status !== 413) controller.abort();
        if (error.status === 404) picker.refresh(true);
      }
      line.waits = false;
      if (lines.includes(line)) drawLine(line);
      if (pending !== controller) return;
      if (shown === null) showFirst();
      list.keep(content(), note);
    }
  };
  await Promise.all(Array.from({ length: MAX_REQUESTS }, work));
  if (pending !== controller) return;
  pending = null;
  for (const line of requested.filter((one) => one.waits)) drawLine(Object.assign(line, { waits: false }));
  if (shown === null) showFirst();
  update(lines.find((line) => line.answer)?.answer.label ?? "");
  if (link) compareWithLink();
}

function content() {
  const { run, snapshot } = model;
  const kept = lines.map(({ source, answer }) => ({ source, answer }));
  return { title: titleOf(lines.map(({ source }) => source).join(" ")), model: { run, snapshot }, lines: kept };
}

/** Show a record, as it was, or an empty page. */
function open(record, isNext = true) {
  pending?.abort();
  pending = null;
  list.show(record, isNext);
  shown = null;
  lines = (record.lines ?? []).map(({ source, answer }) => ({ source, answer, error: null, element: element("li") }));
  composer.setText(lines.map(({ source }) => source).join("\n"));
  saveState("source", composer.text.value);
  model = record.model ?? null;
  if (model) picker.select(model);
  output.classList.toggle("several", lines.length > 1);
  output.replaceChildren(...lines.map((line) => line.element));
  lines.forEach(drawLine);
  showFirst();
  update(lines.find((line) => line.answer)?.answer.label ?? "");
}

/** Tell whether the translations come from the link that was opened; later ones do not. */
function compareWithLink() {
  const now = lines.map((line) => line.answer?.reply ?? "");
  const { error } = lines.find((line) => line.error) ?? {};
  const then = ` When the link was made, it was: “${link.replies.join(" ")}”`;
  if (error) note.textContent = notRepeatable(labels.output, { message: error }) + then;
  else if (lines.every(({ source, answer }) => answer || !source)) note.textContent = now.join("\n") === link.replies.join("\n") ? `The same ${labels.output} as when the link was made.` : `The model now translates differently.${then}`;
  link = null;
}

function isTranslationLink({ run, snapshot, decoding, text, replies }) {
  return [run, snapshot, text, ...replies].every((value) => typeof value === "string") && typeof decoding === "object";
}

async function copyLink() {
  const { model, step } = lines.find((line) => line.answer).answer;
  const content = { ...model, step, text: lines.map((line) => line.source).join("\n"), replies: lines.map((line) => line.answer?.reply ?? "") };
  await offerLink(note, linkTo("translation", content), labels.output);
}

async function fetchAnswer(text, { run, snapshot, decoding, step }, signal) {
  const body = { run, snapshot: snapshot === "latest" ? null : snapshot, step, text, history: [], decoding };
  const answer = await chat(body, signal, (reason) => { byId("status").textContent = reason; });
  return { ...answer, model: { run, snapshot, decoding }, label: modelLabel({ run, snapshot, decoding, answer }) };
}

function drawLine(line) {
  const number = lines.indexOf(line) + 1;
  line.element.className = `line${line.source ? "" : " blank"}${line === shown ? " shown" : ""}`;
  const button = element("button", { type: "button", class: "line-number", "aria-pressed": String(line === shown), "aria-label": `Details of line ${number}` }, String(number));
  button.addEventListener("click", () => showDetails(line));
  line.element.onclick = () => { if (line.answer && getSelection().isCollapsed) showDetails(line); };
  line.element.replaceChildren(...(lines.length > 1 && line.source ? [button] : []), element("div", { class: "line-body" }, body(line)));
}

function body(line) {
  if (line.error) return errorMessage(line.error, () => request(lines.filter((one) => one.source && !one.answer)));
  if (line.waits) return element("p", { class: "waiting" }, [1, 2, 3].map(() => element("span", { class: "dot", "aria-hidden": "true" })), element("span", { class: "visually-hidden" }, "Translating …"));
  if (!line.answer) return line.source ? element("p", { class: "stopped" }, "Stopped.") : null;
  const { reply, unknown_words: unknown, warnings } = line.answer;
  return [
    element("p", { class: reply.trim() ? "translated" : "translated placeholder-text", dir: "auto" }, reply.trim() ? reply : `(empty ${labels.output})`),
    warnings.map(warning),
    unknown.length ? element("p", { class: "words" }, "Not in the vocabulary:", unknown.map((word) => element("span", { class: "word" }, tokenElement(word)))) : null,
  ];
}

/** Show the details of the first line, as soon as it is translated. */
function showFirst() {
  const first = lines.find((line) => line.answer || line.waits);
  if (first?.answer) showDetails(first);
}

function showDetails(line) {
  const previous = shown;
  const focused = document.activeElement.closest?.(".line-number") && line.element.contains(document.activeElement);
  shown = line;
  for (const one of [previous, line]) if (one) drawLine(one);
  if (focused) line.element.querySelector(".line-number")?.focus();
  const { answer, source } = line;
  const details = byId("details");
  details.hidden = !answer?.source_words.length;
  if (details.hidden) return;
  const picture = attention(answer, labels, true);
  picture.classList.add("wide");
  const reference = references.get(source);
  const more = [["Model", answer.label], ...(reference === undefined ? [] : [[capitalize(labels.reference), reference]])];
  const link = answer.source_words.length ? searchLink({ ...answer.model, text: source, history: [] }) : null;
  details.replaceChildren(...(lines.length > 1 ? [element("p", { class: "of-line", dir: "auto" }, source)] : []),
    picture, hypotheses(answer, labels), element("div", {}, unknownWords(answer), facts(answer, labels, more), element("p", { class: "mt-3" }, link)));
}

/** The buttons, the examples and the status, which tells the model and the time when all is done. */
function update(model = "") {
  const answers = lines.flatMap((line) => line.answer ?? []);
  const isEmpty = !lines.length;
  byId("placeholder").hidden = !isEmpty;
  byId("examples").hidden = !isEmpty || !references.size;
  byId("details").hidden = shown === null;
  byId("copy").hidden = byId("link").hidden = byId("download-json").hidden = !answers.length || pending !== null;
  byId("stop").hidden = pending === null;
  byId("clear").hidden = isEmpty && !composer.text.value;
  const seconds = Math.max(0, ...answers.map((answer) => answer.seconds));
  byId("status").textContent = answers.length && model ? `${model} · ${formatSeconds(seconds)}` : "";
}

function stop() {
  pending?.abort();
  composer.text.focus();
}

function clear() {
  open({});
  note.textContent = "";
  stop();
}

async function copy() {
  const text = lines.map((line) => line.answer?.reply ?? "").join("\n");
  byId("status").textContent = await copyToClipboard(text, labels.output, `Select the ${labels.output} and copy it.`);
}

byId("stop").addEventListener("click", stop);
byId("clear").addEventListener("click", clear);
byId("copy").addEventListener("click", copy);
byId("link").addEventListener("click", copyLink);
byId("download-json").addEventListener("click", () => list.download(content(), "translation"));
byId("run").addEventListener("change", () => { isChosen = true; });
byId("snapshot").addEventListener("change", translateAgain);
composer.text.addEventListener("input", () => {
  saveState("source", composer.text.value);
  byId("clear").hidden = !lines.length && !composer.text.value;
});
onEscape(() => { if (pending) stop(); });

link = openedLink("translation", isTranslationLink);
const draft = isNamed ? null : loadState("source");
await showKept("translate", open, link);
composer.setText(link?.text ?? draft ?? composer.text.value);
composer.text.focus({ preventScroll: true });
if (link) form.use(link.decoding);
await picker.start(link);
noteMissing(note);
noteIncomplete(note);
if (link) translate(link.text);
