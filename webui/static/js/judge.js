// The page of blind evaluations: a table of them, and the form of a new one.
import { fetchJson } from "./api.js";
import { DecodingForm } from "./decoding.js";
import { address, byId, counted, element, formatNumber, labelCells, loadState, saveState } from "./dom.js";
import { RunPicker, modelLabel, trainingHint } from "./run_picker.js";

const form = new DecodingForm();
const note = byId("note");
const prompts = byId("prompts");
const title = byId("evaluation-name");
const picker = new RunPicker((details) => (details ? form.setRun(details) : note.replaceChildren("No run to judge yet.", ...trainingHint())), report);
const { texts = [], ...kept } = loadState("evaluation") ?? {}; // the form, which a reload keeps
let columns = kept.columns ?? []; // {run, snapshot, decoding}

function report(error) {
  note.textContent = error.message;
}

function lines() {
  return prompts.value.split("\n").map((line) => line.trim()).filter(Boolean);
}

function saveDraft() {
  saveState("evaluation", { columns, texts: lines(), title: title.value });
}

function countPrompts() {
  const count = lines().length;
  saveDraft();
  byId("prompt-count").textContent = count ? counted(count, "prompt") : "";
}

function setPrompts(texts) {
  prompts.value = texts.map((text) => text.replace(/\s+/g, " ").trim()).filter(Boolean).join("\n");
  countPrompts();
}

function drawColumns() {
  saveDraft();
  byId("columns").replaceChildren(...columns.map((column, index) => {
    const label = modelLabel(column);
    const remove = () => {
      columns = columns.filter((_, other) => other !== index);
      drawColumns();
    };
    return element("li", { title: `${column.run}\n${JSON.stringify(column.decoding)}` }, element("span", { dir: "auto" }, label),
      element("button", { type: "button", class: "btn-close", "aria-label": `Remove ${label}`, click: remove }));
  }));
}

function addColumn() {
  const { run, snapshot } = picker.selection;
  const { n_best: _, ...decoding } = form.value; // a column has one reply
  const column = { run, snapshot, decoding };
  note.textContent = "";
  if (!run) return;
  if (columns.some((other) => JSON.stringify(other) === JSON.stringify(column))) note.textContent = "This column already exists; choose another run, snapshot or decoding setting.";
  else columns.push(column);
  drawColumns();
}

async function start() {
  if (columns.length < 2) throw new Error("Add at least two columns to compare.");
  if (!lines().length) throw new Error("Write at least one prompt, or take some from a corpus or a file.");
  const asName = title.value.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[-._]+|-+$/g, "");
  const body = { name: asName || "evaluation", columns, prompts: lines() };
  const { name } = await fetchJson("/api/evaluations", { body });
  saveState("evaluation", {});
  location.assign(address(`/judge/${encodeURIComponent(name)}`));
}

async function showEvaluations() {
  const { evaluations, damaged } = await fetchJson("/api/evaluations");
  byId("damaged").replaceChildren(...damaged.flatMap((one) => [" Damaged: ", element("a", { href: address(`/judge/${encodeURIComponent(one)}`), dir: "auto" }, one), "."]));
  const table = byId("evaluations");
  table.hidden = !evaluations.length;
  const titles = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  table.tBodies[0].replaceChildren(...labelCells(evaluations.map((one) => element("tr", {},
    element("th", { scope: "row" }, element("a", { href: address(`/judge/${encodeURIComponent(one.name)}`), dir: "auto" }, one.name)),
    [one.columns, one.prompts, one.votes, one.judges].map((count) => element("td", { class: "num" }, formatNumber(count))))), titles));
}

byId("add").addEventListener("click", addColumn);
prompts.addEventListener("input", countPrompts);
title.addEventListener("input", saveDraft);
byId("from-corpus").addEventListener("click", async () => {
  note.textContent = "";
  try {
    setPrompts((await fetchJson(`/api/runs/${encodeURIComponent(picker.selection.run)}/prompts`)).prompts);
  } catch (error) {
    report(error);
  }
});
byId("from-file").addEventListener("change", async ({ target }) => {
  if (target.files.length) setPrompts((await target.files[0].text()).split("\n"));
  target.value = "";
});
byId("new-evaluation").addEventListener("submit", (event) => {
  event.preventDefault();
  start().catch(report);
});

title.value = kept.title ?? title.value;
setPrompts(texts);
drawColumns();
showEvaluations().catch(report);
await picker.start();
