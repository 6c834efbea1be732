// Voting on the pairs of an evaluation: reply, vote, see the systems, next.
import { fetchJson } from "./api.js";
import { address, ask, byId, counted, download, element, formatNumber, loadState, saveState } from "./dom.js";
import { shortName } from "./run_picker.js";
import { resultTables } from "./votes.js";

const name = decodeURIComponent(location.pathname.split("/").at(-1));
const path = `/api/evaluations/${encodeURIComponent(name)}`;
const buttons = [...document.querySelectorAll(".choices button")];
const next = byId("next");
const undo = byId("undo");
const status = byId("status");
let judge = "";
let pair = null; // shown, and not voted on yet
let skipped = []; // pairs, which come again at the end
let last = null; // the index of the pair of the last vote, which can be taken back

function showReply(side, text) {
  const card = byId(side);
  card.classList.remove("preferred");
  const reply = card.querySelector(".message-text");
  reply.textContent = text.trim() ? text : "(empty)";
  reply.classList.toggle("placeholder-text", !text.trim());
  card.querySelector(".revealed").replaceChildren();
}

function reveal(side, system) {
  const step = system.step === null ? "" : ` · step ${formatNumber(system.step)}`;
  byId(side).querySelector(".revealed").append(element("strong", { dir: "auto", title: system.run }, shortName(system.run) + step), system.decoding);
}

function enable(isEnabled) {
  for (const button of [...buttons, byId("skip")]) button.disabled = !isEnabled;
}

async function showNext() {
  next.hidden = true;
  enable(false);
  status.textContent = "The models are replying …";
  pair = await fetchJson(`${path}/pair`, { body: { judge, skipped } });
  last = pair.last;
  showProgress(pair.voted, pair.items);
  for (const button of buttons) button.setAttribute("aria-pressed", "false");
  byId("prompt").textContent = pair.prompt;
  showReply("left", pair.left);
  showReply("right", pair.right);
  status.textContent = "";
  document.querySelectorAll(".prompt-box, .pair, .choices, #skip").forEach((part) => { part.hidden = pair.item === null; });
  if (pair.item === null && skipped.length) {
    status.textContent = `Only ${counted(skipped.length, "skipped pair")} left.`;
    next.hidden = false;
    next.focus();
    skipped = [];
  } else if (pair.item === null) {
    status.textContent = "Nothing is left to vote on; pairs with equal replies were left out. Thank you!";
    await showResults();
  } else {
    enable(true);
  }
  if (document.activeElement.matches("body, [hidden], [hidden] *")) byId("judging").focus({ preventScroll: true });
}

function showProgress(voted, items) {
  Object.assign(byId("progress"), { max: items, value: voted });
  byId("note").textContent = `${formatNumber(voted)} of ${formatNumber(items)} pairs`;
}

async function vote(choice) {
  const { item, voted, items } = pair;
  enable(false);
  const systems = await fetchJson(`${path}/votes`, { body: { judge, item, choice } });
  pair = null;
  last = item;
  for (const side of ["left", "right"]) reveal(side, systems[side]);
  if (choice === "left" || choice === "right") byId(choice).classList.add("preferred");
  for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.choice === choice));
  status.textContent = "Your vote is saved.";
  showProgress(voted + 1, items);
  next.hidden = false;
  next.focus();
  if (!byId("results").hidden) await showResults();
}

/** Take back the last vote; its pair comes again. */
async function takeBack() {
  enable(false);
  await fetchJson(`${path}/undo`, { body: { judge, item: last } });
  await showNext();
  status.textContent = "Your vote was taken back.";
  if (!byId("results").hidden) await showResults();
}

/** Run an action; an error is shown, with a hint if the server does not respond, and the pair can be voted on again. */
async function attempt(action, hint = "") {
  undo.hidden = true;
  try {
    await action();
  } catch (error) {
    status.textContent = error.status === 0 ? `${error.message} ${hint}` : error.message;
    enable(pair !== null && pair.item !== null);
    next.hidden = pair !== null && error.status !== 409;
  }
  undo.hidden = last === null;
}

async function showResults() {
  byId("results").replaceChildren(...resultTables(await fetchJson(path)));
  byId("results").hidden = false;
  byId("results-hint").hidden = true;
  byId("show-results").hidden = true;
}

byId("name").textContent = shortName(name);
byId("name").title = name;
byId("judge-name").value = loadState("judge") ?? "";
byId("judge-form").addEventListener("submit", (event) => {
  event.preventDefault();
  judge = byId("judge-name").value.trim();
  if (!judge) return;
  saveState("judge", judge);
  byId("judge-form").hidden = true;
  byId("judging").hidden = false;
  attempt(showNext);
});
const { evaluations, damaged } = await fetchJson("/api/evaluations").catch(() => ({ evaluations: [{ name }], damaged: [] }));
const exists = evaluations.some((one) => one.name === name);
if (damaged.includes(name)) byId("note").textContent = "This evaluation cannot be read. Restore its file evaluation.json, or delete it.";
else if (!exists) byId("note").textContent = "There is no such evaluation. It may have been moved or deleted; choose another.";
byId("judge-form").hidden = !exists; // now that the form is not submitted to the server
byId("results-hint").parentElement.hidden = !exists && !damaged.includes(name);
for (const button of buttons) button.addEventListener("click", () => attempt(() => vote(button.dataset.choice), "Your vote may not have been saved. Vote again; it counts only once."));
byId("skip").addEventListener("click", () => {
  skipped.push(pair.item);
  attempt(showNext);
});
next.addEventListener("click", () => attempt(showNext));
undo.addEventListener("click", () => attempt(takeBack));
byId("export").addEventListener("click", () => attempt(async () => download(`${name}.json`, "application/json", JSON.stringify(await fetchJson(`${path}/votes`), null, 1))));
byId("delete").addEventListener("click", () => attempt(async () => {
  if ((await ask(byId("delete-dialog"))) !== "delete") return;
  await fetchJson(path, { method: "DELETE" });
  location.replace(address("/judge"));
}));
byId("show-results").addEventListener("click", () => attempt(showResults));
document.addEventListener("keydown", (event) => {
  const button = [...buttons, byId("skip")][Number(event.key) - 1];
  const isTyping = event.target.closest("input, textarea, select, dialog");
  if (button && !button.disabled && !isTyping && !event.ctrlKey && !event.altKey && !event.metaKey && !byId("judging").hidden) button.click();
});
for (const id of ["judge-name", "start"]) byId(id).disabled = false; // before this script, the browser would send the form
