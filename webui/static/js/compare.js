// The page for sending the same text to several runs or snapshots, in columns.
import { ApiError, chat } from "./api.js";
import { Composer } from "./composer.js";
import { DecodingForm, decodingLabel } from "./decoding.js";
import { ConversationList } from "./conversation_list.js";
import { byId, copyToClipboard, element, loadState, onEscape, saveState } from "./dom.js";
import { newId, noteMissing, showKept, titleOf } from "./kept.js";
import { labelsOf } from "./labels.js";
import { errorMessage, replyMessage, typingIndicator, userMessage } from "./messages.js";
import { RunPicker, isSnapshot, shortName, snapshotLabel, trainingHint } from "./run_picker.js";

const MAX_COLUMNS = 12;
const MAX_REQUESTS = 4; // at a time
const PENDING = "pending";
const STOPPED = "stopped";
const form = new DecodingForm();
const picker = new RunPicker(showRun, (error) => { note.textContent = error.message; });
const composer = new Composer(send);
const lanes = byId("lanes");
const note = byId("note");

/** Columns {run, snapshot, task, decoding} and turns {id, time, text, results}, with a result per column: {reply}, {error}, PENDING, STOPPED or null. */
let columns = loadState("columns") ?? [];
let turns = [];
const list = new ConversationList("compare", open);
let pending = null; // the AbortController of the current requests
const cells = new Map(); // the elements of results, by turn

function showRun(details) {
  note.textContent = "";
  if (details) form.setRun(details);
  else note.replaceChildren("No runs to compare yet.", ...trainingHint());
}

const isSame = (one, other) => one.run === other.run && one.snapshot === other.snapshot && JSON.stringify(one.decoding) === JSON.stringify(other.decoding);

function selectedColumn() {
  return { ...picker.selection, task: picker.task, decoding: form.value };
}

function addColumns(candidates) {
  const added = candidates.filter((column) => !columns.some((existing) => isSame(existing, column)));
  if (columns.length + added.length > MAX_COLUMNS) note.textContent = `There can be at most ${MAX_COLUMNS} columns.`;
  else note.textContent = added.length ? "" : "This column already exists.";
  for (const column of added.slice(0, MAX_COLUMNS - columns.length)) {
    columns.push(column);
    for (const turn of turns) turn.results.push(null);
  }
  save();
  draw();
}

/** The tasks of the columns; runs whose configuration is invalid have none. */
function tasks() {
  return new Set(columns.map((column) => column.task).filter(Boolean));
}

function removeColumn(index) {
  columns.splice(index, 1);
  for (const turn of turns) {
    turn.results.splice(index, 1);
    cells.get(turn)?.splice(index, 1);
  }
  save();
  draw();
}

const content = () => ({ title: titleOf(turns[0]?.text ?? ""), columns, turns });

const save = () => turns.length && list.keep(content(), note);

/** Show a comparison, or an empty one with the same columns. */
function open(record, isNext = true) {
  stop();
  list.show(record, isNext);
  columns = record.columns ?? columns;
  turns = (record.turns ?? []).map(({ results, ...turn }) => ({ ...turn, results: results.map((result) => (result === PENDING ? STOPPED : result)) }));
  cells.clear();
  draw();
}

/** Show the columns and turns; results that are shown already keep their elements, with what is open in them. */
function draw() {
  saveState("columns", columns); // also if nothing was sent
  lanes.hidden = !columns.length;
  const different = tasks().size > 1 ? [...tasks()].join(" and ") : null;
  byId("mixed").textContent = different && `The columns have different tasks, ${different}, so their answers to the same text cannot be compared.`;
  byId("welcome").hidden = columns.length > 0;
  lanes.style.setProperty("--columns", String(columns.length));
  const heads = columns.map((column, index) => {
    const remove = element("button", { type: "button", class: "btn-close", "aria-label": `Remove column ${shortName(column.run)}, ${column.snapshot}`, click: () => removeColumn(index) });
    const settings = element("button", { type: "button", class: "action", title: "Use the settings that are chosen under Decoding" }, decodingLabel(column.decoding ?? form.value));
    settings.addEventListener("click", () => {
      column.decoding = form.value;
      save();
      draw();
    });
    return element("div", { class: "lane-head", title: column.run }, element("div", {}, element("h2", { dir: "auto" }, snapshotLabel(column.snapshot)),
      element("span", { class: "muted", dir: "auto" }, shortName(column.run)), settings), remove);
  });
  lanes.replaceChildren(...heads, ...turns.flatMap((turn) => [element("div", { class: "turn" }, userMessage(turn.text)), ...turnCells(turn)]));
}

function turnCells(turn) {
  if (!cells.has(turn)) cells.set(turn, []);
  const shown = cells.get(turn);
  while (shown.length < columns.length) shown.push(element("div", { class: "lane" }, resultElement(turn, turn.results[shown.length], columns[shown.length])));
  return shown;
}

/** Set one result, and draw it alone. */
function setResult(turn, column, result) {
  const index = columns.indexOf(column); // the column may have moved or been removed
  if (index < 0 || !turns.includes(turn)) return;
  turn.results[index] = result;
  turnCells(turn)[index].replaceChildren(resultElement(turn, result, column));
  save();
}

function resultElement(turn, result, column) {
  const label = snapshotLabel(column.snapshot);
  if (result === PENDING) return typingIndicator(label);
  if (result?.reply) return replyMessage(result.reply, label, labelsOf(column.task));
  if (result?.error) return errorMessage(result.error, () => request(turn, [column]));
  if (result === STOPPED) return errorMessage("Stopped.", () => request(turn, [column]));
  return element("button", { type: "button", class: "btn btn-sm btn-soft", click: () => request(turn, [column]) }, "Reply"); // the column is newer than the turn
}

function scrollToEnd() {
  byId("scroll").scrollTop = byId("scroll").scrollHeight;
}

function send(text) {
  if (!columns.length && picker.selection.run) addColumns([selectedColumn()]);
  if (!columns.length || pending) return false;
  const turn = { id: newId(), time: Date.now(), text, results: columns.map(() => null) };
  turns.push(turn);
  save();
  draw();
  request(turn, columns);
  scrollToEnd();
  return true;
}

/** Request the replies of columns, a few at a time. Every other turn begins with the last, which the server still has in memory. */
async function request(turn, requested) {
  if (pending) return;
  const controller = pending = new AbortController();
  showPending();
  const waiting = turns.length % 2 ? [...requested] : [...requested].reverse();
  for (const column of waiting) setResult(turn, column, PENDING);
  const work = async () => {
    for (let column = waiting.shift(); column; column = waiting.shift()) setResult(turn, column, await resultOf(turn, column, controller.signal));
  };
  await Promise.all(Array.from({ length: MAX_REQUESTS }, work));
  pending = null;
  showPending();
  byId("progress").textContent = `${turn.results.filter((result) => result?.reply).length} of ${turn.results.length} answered.`;
}

async function resultOf(turn, column, signal) {
  if (signal.aborted || !columns.includes(column)) return STOPPED;
  const snapshot = column.snapshot === "latest" ? null : column.snapshot;
  const body = { run: column.run, snapshot, text: turn.text, history: history(turn, columns.indexOf(column)), decoding: column.decoding ?? form.value };
  try {
    const reply = await chat(body, signal);
    return reply.run === column.run ? { reply } : { error: `The run “${column.run}” no longer exists.` };
  } catch (error) {
    if (error.name === "AbortError") return STOPPED;
    if (!(error instanceof ApiError)) throw error;
    return { error: error.message };
  }
}

/** The conversation of a column before a turn, as the API expects it. */
function history(turn, index) {
  if (columns[index].task === "translation") return []; // it has none
  const previous = turns.slice(0, turns.indexOf(turn)).filter(({ results }) => results[index]?.reply);
  return previous.flatMap(({ text, results }) => [text, results[index].reply.reply]);
}

function showPending() {
  const focused = document.activeElement === byId("stop");
  byId("stop").hidden = pending === null;
  byId("send").hidden = pending !== null;
  if (focused) composer.text.focus();
}

function stop() {
  pending?.abort();
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
  else addColumns(snapshots.slice(-MAX_COLUMNS).map((snapshot) => ({ run: picker.details.name, snapshot, task: picker.details.task, decoding: form.value })));
});
byId("new").addEventListener("click", () => {
  open({});
  composer.text.focus();
});
byId("stop").addEventListener("click", stop);
onEscape(stop);
byId("copy").addEventListener("click", async () => { note.textContent = await copyToClipboard(asText(), "comparison", "Download the comparison instead."); });
byId("download-json").addEventListener("click", () => list.download(content(), "comparison"));

draw();
await showKept("compare", open);
composer.resize();
await picker.start();
noteMissing(note);
