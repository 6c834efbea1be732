// The workbench of runs: search, sort, filter, star, note, hide, and compare those that are selected.
import { fetchJson } from "./api.js";
import { address, byId, counted, element, formatNumber, loadState, saveState, timeAgo } from "./dom.js";
import { followRuns } from "./events.js";
import { CurvePanel } from "./curve_panel.js";
import { askForNote, saveNotes, starButton } from "./notes.js";
import { ORDERS, finder, isShown, sorted } from "./run_filter.js";
import { bestPerplexity, isTraining, stateBadge, stepProgress, useOf } from "./run_fields.js";
import { shortName } from "./run_picker.js";

const MAX_SELECTED = 20;
const table = byId("runs");
const note = byId("note");
const rows = new Map(); // name → {row, content}: only rows with new content are redrawn
const runs = new Map(); // name → summary
let settings = {}; // of runs by name, once they are searched
const selected = new Set(loadState("compared-runs") ?? []);
const curves = new CurvePanel(byId("curves"));
let isOpen = false; // the comparison
let order = { by: "newest", isReversed: false };

const compared = () => [...selected].filter((name) => runs.has(name)); // the others were deleted
const filters = () => ({ search: byId("search").value.trim(), state: byId("state").value, task: byId("task").value, starred: byId("starred").checked, hidden: byId("hidden").checked });

/** Put filters, order and comparison into the address, and the scroll position beside it; if it `isNext`, Back leads to the last one. */
function saveView(isNext = false) {
  const sort = order.by === "newest" ? "" : order.by;
  const entries = Object.entries({ ...filters(), sort, reversed: order.isReversed }).filter(([, value]) => value);
  if (isOpen) entries.push(...[...selected].map((name) => ["run", name]));
  history[isNext ? "pushState" : "replaceState"]({ scroll: scrollY }, "", entries.length ? `?${new URLSearchParams(entries)}` : location.pathname);
}

/** Take them from the address, which a reload and Back keep. */
function readView() {
  const view = new URLSearchParams(location.search);
  order = { by: view.get("sort") in ORDERS ? view.get("sort") : "newest", isReversed: view.has("reversed") };
  byId("sort").value = order.by;
  for (const id of ["search", "state", "task"]) byId(id).value = view.get(id) ?? "";
  for (const id of ["starred", "hidden"]) byId(id).checked = view.has(id);
  isOpen = view.has("run");
  if (isOpen) selected.clear();
  for (const name of view.getAll("run").slice(0, MAX_SELECTED)) selected.add(name);
}

function cell(label, ...content) {
  return element("td", { class: "stack", "data-label": label }, content);
}

function cells(run) {
  const use = useOf(run);
  const changed = new Date(run.changed * 1000);
  const select = element("input", { type: "checkbox", class: "form-check-input", "aria-label": `Compare ${run.name}` });
  select.checked = selected.has(run.name);
  select.addEventListener("change", () => toggle(run.name, select));
  const button = (text, label, click) => element("button", { type: "button", class: "btn btn-sm btn-soft", "aria-label": `${label} ${run.name}`, click }, text);
  return [
    element("td", {}, select),
    element("td", {}, starButton(run, () => change(run, { star: !run.notes.star }))),
    element("th", { scope: "row" }, element("a", { href: address(`/runs/${encodeURIComponent(run.name)}`), dir: "auto" }, run.name),
      run.notes.text ? element("p", { class: "note-text", dir: "auto" }, run.notes.text) : null, run.reason ? element("p", { class: "reason" }, run.reason) : null),
    element("td", { class: "stack" }, stateBadge(run.state)),
    element("td", { class: "stack step", "data-label": "step" }, stepProgress(run)),
    cell("perplexity", bestPerplexity(run)),
    cell("BLEU", run.best_bleu === null ? "–" : formatNumber(run.best_bleu)),
    cell("changed", element("time", { datetime: changed.toISOString(), title: changed.toLocaleString() }, timeAgo(run.changed))),
    element("td", { class: "actions" }, element("a", { class: "btn btn-sm btn-soft", href: use.href, "aria-label": `${use.verb} with ${run.name}` }, use.verb),
      button("Note", "Edit the note of", () => editNote(run)),
      button(run.notes.hidden ? "Show" : "Hide", run.notes.hidden ? "Show" : "Hide", () => change(run, { hidden: !run.notes.hidden }))),
  ];
}

async function change(run, changes) {
  try {
    runs.set(run.name, { ...runs.get(run.name), notes: await saveNotes(runs.get(run.name), changes) });
    draw();
  } catch (error) {
    note.textContent = error.message;
  }
}

async function editNote(run) {
  const text = await askForNote(runs.get(run.name));
  if (text !== null) await change(run, { text });
}

function describe(shown) {
  if (!runs.size) return "";
  const training = [...runs.values()].filter(isTraining).length;
  if (!shown) return `None of ${counted(runs.size, "run")} matches; change the search or the filters.`;
  return `${shown < runs.size ? `${formatNumber(shown)} of ` : ""}${counted(runs.size, "run")}${training ? `, ${training} training` : ""}`;
}

function updateRow(run) {
  const content = JSON.stringify([run, timeAgo(run.changed)]);
  if (!rows.has(run.name)) rows.set(run.name, { row: element("tr") });
  const entry = rows.get(run.name);
  if (entry.content !== content) {
    const controls = () => [...entry.row.querySelectorAll("a, button, input")];
    const focused = controls().indexOf(document.activeElement);
    entry.row.replaceChildren(...cells(run));
    entry.row.classList.toggle("is-hidden", run.notes.hidden);
    if (focused >= 0) controls()[focused]?.focus();
    entry.content = content;
  }
  return entry.row;
}

function draw() {
  byId("filters").hidden = !runs.size;
  byId("empty").hidden = runs.size > 0;
  const chosen = filters();
  const find = finder(chosen.search);
  const shown = find ? sorted([...runs.values()].filter((run) => isShown(run, settings[run.name] ?? {}, { ...chosen, find })), order) : [];
  note.textContent = find ? describe(shown.length) : "This is not a valid regular expression; close its brackets, or leave out the slashes.";
  table.hidden = !shown.length;
  const body = table.tBodies[0];
  const wanted = shown.map(updateRow);
  const isUnchanged = wanted.length === body.rows.length && wanted.every((row, index) => body.rows[index] === row);
  if (!isUnchanged) {
    const { activeElement } = document;
    body.replaceChildren(...wanted);
    if (body.contains(activeElement)) activeElement.focus();
  }
}

let loading = null;
/** Load the settings of all runs if they are searched and a run's are missing. */
function loadSettings() {
  if (!filters().search || [...runs.keys()].every((name) => name in settings)) return;
  loading ??= fetchJson("/api/settings").then((all) => {
    ({ settings } = all);
    draw();
  }).catch((error) => { note.textContent = error.message; }).finally(() => { loading = null; });
}

function toggle(name, checkbox) {
  const isFull = compared().length >= MAX_SELECTED;
  if (checkbox.checked && isFull) checkbox.checked = false;
  else if (checkbox.checked) selected.add(name);
  else selected.delete(name);
  showSelection();
  saveView();
  if (isFull && !checkbox.checked && compared().length === MAX_SELECTED) byId("selection-count").textContent = `At most ${MAX_SELECTED} runs can be compared at once.`;
}

function showSelection() {
  const names = compared();
  saveState("compared-runs", [...selected]);
  for (const [name, { row }] of rows) row.querySelector("input").checked = selected.has(name);
  byId("selection").hidden = !names.length;
  byId("selection-count").textContent = `${counted(names.length, "run")} selected`;
  compare();
}

function openComparison(isOpened) {
  const isNext = isOpen !== isOpened;
  isOpen = isOpened;
  saveView(isNext);
  return compare();
}

/** Show the comparison of the selected runs; called again while one of them is training. */
async function compare() {
  const names = compared();
  byId("comparison").hidden = !isOpen || !names.length;
  if (byId("comparison").hidden) return;
  try {
    const result = await fetchJson(`/api/comparison?${new URLSearchParams(names.map((name) => ["run", name]))}`);
    if (names.join() !== compared().join()) return; // changed in the meantime
    byId("comparison-error").textContent = "";
    curves.show(result.runs.map((name) => ({ name, curves: result.curves[name] })));
    byId("differences").replaceChildren(differencesTable(result, curves.colors));
  } catch (error) {
    byId("comparison-error").textContent = error.message;
  }
}

function valueText(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return formatNumber(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

function row([key, values]) {
  return element("tr", {}, element("th", { scope: "row" }, key), values.map((value) => element("td", { dir: "auto" }, valueText(value))));
}

/** `comparison` is the response of `GET /api/comparison`; `colors` are the colors of the runs in a chart. */
function differencesTable({ runs, settings, figures }, colors) {
  const heads = runs.map((name) => {
    const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.setProperty("--color", colors.get(name) ?? "transparent");
    return element("th", { scope: "col", title: name }, swatch, element("a", { href: address(`/runs/${encodeURIComponent(name)}`), dir: "auto" }, shortName(name)));
  });
  const same = element("tr", {}, element("td", { colspan: runs.length + 1, class: "muted" }, runs.length > 1 ? "No setting differs." : "Select another run to see the settings that differ."));
  const settingRows = Object.entries(settings).map(row);
  const group = (title) => element("tr", {}, element("th", { scope: "colgroup", colspan: runs.length + 1 }, title));
  return element("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Settings that differ, and results" },
    element("table", { class: "table table-sm differences" },
      element("thead", {}, element("tr", {}, element("td"), heads)),
      element("tbody", {}, group("Settings that differ"), settingRows.length ? settingRows : same),
      element("tbody", {}, group("Results"), Object.entries(figures).map(row))));
}

function drawHead() {
  const head = table.tHead.rows[0];
  head.querySelectorAll("th:nth-child(n+3)").forEach((one) => one.remove());
  for (const [by, { title, highestFirst = false }] of Object.entries(ORDERS).filter(([by]) => by !== "newest")) {
    const button = element("button", { type: "button" }, title);
    button.addEventListener("click", () => sortBy(by, order.by === by && !order.isReversed));
    const direction = highestFirst !== order.isReversed ? "descending" : "ascending";
    head.append(element("th", { scope: "col", "aria-sort": order.by === by ? direction : null }, button));
  }
  head.append(element("th", { scope: "col" }, element("span", { class: "visually-hidden" }, "Actions")));
}

function sortBy(by, isReversed = false) {
  order = { by, isReversed };
  byId("sort").value = by;
  const focused = [...table.tHead.querySelectorAll("button")].indexOf(document.activeElement);
  drawHead();
  table.tHead.querySelectorAll("button")[focused]?.focus();
  draw();
  saveView();
}

byId("sort").append(...Object.entries(ORDERS).map(([by, { title }]) => new Option(title, by)));
byId("sort").addEventListener("change", () => sortBy(byId("sort").value));
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("input", () => {
  draw();
  loadSettings();
  saveView();
});
document.addEventListener("scrollend", () => saveView());
history.scrollRestoration = "manual";
let scroll = history.state?.scroll ?? null; // when the page was left
byId("select-shown").addEventListener("click", () => {
  for (const box of table.querySelectorAll("tbody input:not(:checked)")) if (compared().length < MAX_SELECTED) box.click();
});
byId("clear").addEventListener("click", () => {
  selected.clear();
  showSelection();
  saveView();
});
byId("close").addEventListener("click", () => openComparison(false));
byId("compare").addEventListener("click", async () => {
  await openComparison(true);
  byId("comparison").scrollIntoView({ block: "start" });
});
addEventListener("popstate", () => {
  readView();
  drawHead();
  draw();
  loadSettings();
  showSelection();
  scrollTo({ top: history.state?.scroll ?? 0, behavior: "instant" });
});
readView();
drawHead();
setInterval(draw, 30_000); // "2 minutes ago"
followRuns((changed, removed, isFirst) => {
  if (isFirst) for (const name of [...runs.keys()]) if (!changed.some((run) => run.name === name)) removed.push(name);
  for (const name of removed) {
    runs.delete(name);
    rows.delete(name);
  }
  for (const run of changed) runs.set(run.name, run);
  draw();
  loadSettings();
  if (scroll !== null) scrollTo({ top: scroll, behavior: "instant" });
  scroll = null;
  if (isFirst || removed.length || changed.some(({ name }) => selected.has(name))) showSelection();
}, (error) => { note.textContent = error.message; });
