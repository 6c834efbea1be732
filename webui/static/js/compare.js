// The page for sending the same text to several runs or snapshots, in columns.
import { ApiError, chat } from "./api.js";
import { Composer } from "./composer.js";
import { DecodingForm } from "./decoding.js";
import { byId, copyToClipboard, download, element, loadState, saveState } from "./dom.js";
import { labelsOf } from "./labels.js";
import { errorMessage, replyMessage, typingIndicator, userMessage } from "./messages.js";
import { RunPicker, isSnapshot, shortName, snapshotLabel } from "./run_picker.js";

const MAX_COLUMNS = 12;
const MAX_SAVED = 50; // turns restored after a reload
const PENDING = "pending";
const form = new DecodingForm();
const picker = new RunPicker(showRun, (error) => { note.textContent = error.message; });
const composer = new Composer(send);
const lanes = byId("lanes");
const note = byId("note");

/** Columns {run, snapshot, task} and turns {text, results}, with a result per column: {reply}, {error}, PENDING or null. */
let columns = [];
let turns = [];

function showRun(details) {
  note.textContent = details ? "" : "No runs to compare yet. Train one first.";
  if (details) form.setRun(details);
}

const isSame = (one, other) => one.run === other.run && one.snapshot === other.snapshot;

function selectedColumn() {
  return { ...picker.selection, task: picker.task };
}

function addColumns(candidates) {
  const added = candidates.filter((column) => !columns.some((existing) => isSame(existing, column)));
  if (columns.length + added.length > MAX_COLUMNS) note.textContent = `There can be at most ${MAX_COLUMNS} columns.`;
  else note.textContent = added.length ? "" : "This column already exists.";
  for (const column of added.slice(0, MAX_COLUMNS - columns.length)) {
    columns.push(column);
    for (const turn of turns) turn.results.push(null);
  }
  draw();
}

/** The tasks of the columns; runs whose configuration is invalid have none. */
function tasks() {
  return new Set(columns.map((column) => column.task).filter(Boolean));
}

function removeColumn(index) {
  columns.splice(index, 1);
  for (const turn of turns) turn.results.splice(index, 1);
  draw();
}

function draw() {
  saveState("columns", columns);
  saveState("turns", turns.slice(-MAX_SAVED));
  lanes.hidden = !columns.length;
  const different = tasks().size > 1 ? [...tasks()].join(" and ") : null;
  byId("mixed").textContent = different && `The columns have different tasks, ${different}, so their answers to the same text cannot be compared.`;
  byId("welcome").hidden = columns.length > 0;
  lanes.style.setProperty("--columns", String(columns.length));
  const heads = columns.map((column, index) => {
    const remove = element("button", { type: "button", class: "btn-close", "aria-label": `Remove column ${shortName(column.run)}, ${column.snapshot}` });
    remove.addEventListener("click", () => removeColumn(index));
    return element("div", { class: "lane-head", title: column.run }, element("div", {}, element("h2", { dir: "auto" }, snapshotLabel(column.snapshot)),
      element("span", { class: "muted", dir: "auto" }, shortName(column.run))), remove);
  });
  lanes.replaceChildren(...heads, ...turns.flatMap(drawTurn));
}

function drawTurn(turn) {
  const cells = turn.results.map((result, index) => element("div", { class: "lane" }, drawResult(turn, result, columns[index])));
  return [element("div", { class: "turn" }, userMessage(turn.text)), ...cells];
}

function drawResult(turn, result, column) {
  const label = snapshotLabel(column.snapshot);
  if (result === PENDING) return typingIndicator(label);
  if (result?.reply) return replyMessage(result.reply, label, labelsOf(column.task));
  if (result?.error) return errorMessage(result.error, () => retry(turn, column));
  return element("p", { class: "muted" }, "–");
}

function scrollToEnd() {
  byId("scroll").scrollTop = byId("scroll").scrollHeight;
}

function send(text) {
  if (!columns.length && picker.selection.run) addColumns([selectedColumn()]);
  if (!columns.length || turns.some((turn) => turn.results.includes(PENDING))) return false;
  const turn = { text, results: columns.map(() => PENDING) };
  turns.push(turn);
  draw();
  scrollToEnd();
  Promise.all(columns.map((column) => requestReply(turn, column))).then(() => {
    const replies = turn.results.filter((result) => result?.reply).length;
    byId("progress").textContent = `${replies} of ${turn.results.length} answered.`;
  });
  return true;
}

function retry(turn, column) {
  turn.results[columns.indexOf(column)] = PENDING;
  draw();
  requestReply(turn, column);
}

/** The conversation of a column before a turn, as the API expects it. */
function history(turn, index) {
  if (columns[index].task === "translation") return []; // it has none
  const previous = turns.slice(0, turns.indexOf(turn)).filter(({ results }) => results[index]?.reply);
  return previous.flatMap(({ text, results }) => [text, results[index].reply.reply]).slice(-Number(document.body.dataset.maxHistory));
}

async function requestReply(turn, column) {
  const snapshot = column.snapshot === "latest" ? null : column.snapshot;
  const body = { run: column.run, snapshot, text: turn.text, history: history(turn, columns.indexOf(column)), decoding: form.value };
  let result;
  try {
    result = { reply: await chat(body) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    result = { error: error.message };
  }
  const index = columns.indexOf(column); // the column may have moved or been removed
  if (index < 0 || !turns.includes(turn)) return;
  turn.results[index] = result;
  draw();
  scrollToEnd();
}

function asText() {
  const reply = (result, column) => `${shortName(column.run)} ${column.snapshot}: ${result?.reply?.reply ?? "–"}`;
  return turns.map((turn) => [`${labelsOf([...tasks()][0]).you}: ${turn.text}`, ...turn.results.map((result, index) => reply(result, columns[index]))].join("\n")).join("\n\n") + "\n";
}

byId("add-column").addEventListener("click", () => picker.selection.run && addColumns([selectedColumn()]));
byId("add-snapshots").addEventListener("click", () => {
  if (!picker.details) return;
  const snapshots = picker.details.snapshots.filter(isSnapshot);
  if (!snapshots.length) note.textContent = "This run has no snapshots.";
  else addColumns(snapshots.slice(-MAX_COLUMNS).map((snapshot) => ({ run: picker.details.name, snapshot, task: picker.details.task })));
});
byId("new").addEventListener("click", () => {
  turns = [];
  draw();
  composer.text.focus();
});
byId("copy").addEventListener("click", async () => { note.textContent = await copyToClipboard(asText(), "comparison", "Download the comparison instead."); });
byId("download-json").addEventListener("click", () => download("comparison.json", "application/json", JSON.stringify({ columns, turns }, null, 2)));

columns = loadState("columns") ?? [];
turns = (loadState("turns") ?? []).map(({ text, results = columns.map(() => null) }) => ({ text, results: results.map((result) => (result === PENDING ? null : result)) }));
draw();
composer.resize();
await picker.start();
