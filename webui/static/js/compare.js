// The same words to several runs or snapshots, in columns.
import { chat, Fault } from "./api.js";
import { Chooser } from "./chooser.js";
import { Composer } from "./composer.js";
import { DecodingForm } from "./decoding.js";
import { byId, copy, download, element, keep, kept } from "./dom.js";
import { faultMessage, replyMessage, typing } from "./reply.js";

const MOST_LANES = 12;
const form = new DecodingForm(() => {});
const chooser = new Chooser(showRun, (error) => { byId("note").textContent = error.message; });
const composer = new Composer(say);
const lanes = byId("lanes");
const note = byId("note");

/** Columns {run, snapshot}, and what was said: {text, answers: [of each column, null where there is none]}. */
let columns = [];
let turns = [];

function showRun(page) {
  note.textContent = page ? "" : "There is no run yet. Train one first.";
  if (page) form.offer(page.decoding);
}

const shortName = (run) => run.replace(/^\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_/, "");
const columnTitle = ({ snapshot }) => (snapshot === "latest" || snapshot === "best" ? snapshot : `step ${snapshot}`);
const same = (one, other) => one.run === other.run && one.snapshot === other.snapshot;

function addColumns(wanted) {
  const fresh = wanted.filter((column) => !columns.some((known) => same(known, column)));
  if (columns.length + fresh.length > MOST_LANES) note.textContent = `There is room for ${MOST_LANES} columns.`;
  else note.textContent = fresh.length ? "" : "This is a column already.";
  for (const column of fresh.slice(0, MOST_LANES - columns.length)) {
    columns.push(column);
    for (const turn of turns) turn.answers.push(null);
  }
  draw();
}

function removeColumn(place) {
  columns.splice(place, 1);
  for (const turn of turns) turn.answers.splice(place, 1);
  draw();
}

function draw() {
  keep("columns", columns);
  keep("turns", turns.slice(-50));
  lanes.hidden = !columns.length;
  byId("welcome").hidden = columns.length > 0;
  lanes.style.setProperty("--columns", String(columns.length));
  const heads = columns.map((column, place) => {
    const remove = element("button", { type: "button", class: "btn-close", "aria-label": `Remove the column ${shortName(column.run)}, ${column.snapshot}` });
    remove.addEventListener("click", () => removeColumn(place));
    return element("div", { class: "lane-head", title: column.run }, element("div", {}, element("h2", { dir: "auto" }, columnTitle(column)),
      element("span", { class: "quiet", dir: "auto" }, shortName(column.run))), remove);
  });
  lanes.replaceChildren(...heads, ...turns.flatMap(drawTurn));
}

function drawTurn(turn) {
  const cells = turn.answers.map((answer, place) => element("div", { class: "lane", "data-place": place },
    answer?.told ? replyMessage(answer.told, columnTitle(columns[place])) : answer?.fault ? faultMessage(answer.fault, () => askAgain(turn, columns[place])) : answer === "waiting" ? typing(columnTitle(columns[place])) : element("p", { class: "quiet" }, "–")));
  return [element("div", { class: "turn" }, element("div", { class: "message you" }, element("span", { class: "visually-hidden" }, "You: "), element("p", { class: "said", dir: "auto" }, turn.text))), ...cells];
}

function say(text) {
  if (!columns.length && chooser.chosen.run) addColumns([chooser.chosen]);
  if (!columns.length || turns.some((turn) => turn.answers.includes("waiting"))) return false;
  const turn = { text, answers: columns.map(() => "waiting") };
  turns.push(turn);
  draw();
  byId("scroll").scrollTop = byId("scroll").scrollHeight;
  Promise.all(columns.map((column) => answer(turn, column))).then(() => {
    const told = turn.answers.filter((one) => one?.told).length;
    byId("told").textContent = `${told} of ${turn.answers.length} replied.`;
  });
  return true;
}

function askAgain(turn, column) {
  turn.answers[columns.indexOf(column)] = "waiting";
  draw();
  answer(turn, column);
}

async function answer(turn, column) {
  const place = columns.indexOf(column);
  const earlier = turns.slice(0, turns.indexOf(turn));
  const history = earlier.flatMap((one) => (one.answers[place]?.told ? [one.text, one.answers[place].told.reply] : [])).slice(-Number(document.body.dataset.mostHistory));
  let found;
  try {
    found = { told: await chat({ run: column.run, snapshot: column.snapshot === "latest" ? null : column.snapshot, text: turn.text, history, decoding: form.value }) };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    found = { fault: error.message };
  }
  const now = columns.indexOf(column); // it may have moved, or be gone
  if (now < 0 || !turns.includes(turn)) return;
  turn.answers[now] = found;
  draw();
  byId("scroll").scrollTop = byId("scroll").scrollHeight;
}

function asText() {
  return turns.map((turn) => [`you: ${turn.text}`, ...turn.answers.map((one, place) => `${shortName(columns[place].run)} ${columns[place].snapshot}: ${one?.told?.reply ?? "–"}`)].join("\n")).join("\n\n") + "\n";
}

byId("add").addEventListener("click", () => chooser.chosen.run && addColumns([chooser.chosen]));
byId("grow").addEventListener("click", () => {
  const page = chooser.page;
  if (!page) return;
  const steps = page.snapshots.filter((snapshot) => snapshot !== "latest" && snapshot !== "best");
  if (!steps.length) note.textContent = "This run has no snapshots.";
  else addColumns(steps.slice(-MOST_LANES).map((snapshot) => ({ run: page.name, snapshot })));
});
byId("new").addEventListener("click", () => {
  turns = [];
  draw();
  composer.text.focus();
});
byId("copy").addEventListener("click", async () => {
  note.textContent = (await copy(asText())) ? "The conversation is in the clipboard." : "The browser does not let this page copy; download it instead.";
});
byId("download-json").addEventListener("click", () => download("side_by_side.json", "application/json", JSON.stringify({ columns, turns }, null, 2)));

columns = kept("columns") ?? [];
turns = (kept("turns") ?? []).map((turn) => ({ ...turn, answers: turn.answers.map((one) => (one === "waiting" ? null : one)) }));
draw();
composer.fit();
try {
  await chooser.start();
} catch (error) {
  note.textContent = error.message;
}
