// The page of one run: state, learning curves, sample replies, checks, report, configuration.
import { fetchImage, fetchJson, openingForm } from "./api.js";
import { CurvePanel } from "./curve_panel.js";
import { address, byId, counted, element, formatNumber, timeAgo } from "./dom.js";
import { followRuns } from "./events.js";
import { labelsOf } from "./labels.js";
import { askForNote, saveNotes, starButton } from "./notes.js";
import { QuestionTable } from "./questions.js";
import { bestPerplexity, stateBadge, stepProgress, useOf } from "./run_fields.js";
import { isSnapshot } from "./run_picker.js";

const name = decodeURIComponent(location.pathname.split("/").at(-1));
const note = byId("note");
const questions = new QuestionTable(name);
const curves = new CurvePanel(byId("curves"));
let shown = null;

function fact(title, ...value) {
  return element("div", { class: "fact" }, element("span", { class: "fact-title" }, title), element("span", { class: "fact-value" }, value));
}

function facts(run) {
  const use = useOf(run);
  const buttons = element("div", { class: "fact-actions" },
    element("a", { class: "btn btn-sm btn-primary", href: use.href }, use.verb),
    element("a", { class: "btn btn-sm btn-soft", href: address(`/compare?run=${encodeURIComponent(run.name)}`) }, "Compare"));
  return [
    fact("State", stateBadge(run.state)),
    fact("Step", stepProgress(run)),
    fact("Best perplexity", bestPerplexity(run)),
    run.best_bleu === null ? null : fact("Best BLEU", formatNumber(run.best_bleu)),
    fact("Snapshots", String(run.snapshots.filter(isSnapshot).length)),
    fact("Changed", timeAgo(run.changed)),
    buttons,
    run.reason ? element("p", { class: "reason wide" }, run.reason) : null,
  ].filter(Boolean);
}

/** The outputs for each source, ordered by step. */
function samples({ samples: lines, state }, labels) {
  if (!lines.length) return element("p", { class: "muted" }, state === "finished" ? "None." : "None yet; each validation adds some.");
  const bySource = new Map();
  for (const line of lines) {
    if (!bySource.has(line.source)) bySource.set(line.source, []);
    bySource.get(line.source).push(line);
  }
  return element("div", { class: "samples" }, [...bySource].slice(0, 50).map(([source, replies]) => element("div", { class: "sample" },
    element("p", { class: "sample-source", dir: "auto" }, source),
    element("ol", {}, replies.slice(-12).map((line) => element("li", {}, element("span", { class: "sample-step" }, formatNumber(line.step)), element("span", { dir: "auto" }, line.reply || "(empty)")))),
    element("p", { class: "muted sample-target" }, `${labels.reference}: `, element("span", { dir: "auto" }, replies.at(-1).target)))));
}

function checks(result) {
  if (!result) return element("p", { class: "muted" }, "This experiment has not been checked. Run ", element("code", {}, "seq2seq-chat check CONFIG"), " to see within minutes whether its model can learn.");
  const rows = result.checks.map((check) => element("tr", {},
    element("th", { scope: "row" }, check.check), element("td", {}, check.passed ? stateBadge("finished", "passed") : stateBadge("failed")),
    element("td", {}, check.figure, check.detail ? element("p", { class: "muted mb-0" }, check.detail) : null), element("td", { class: "muted" }, check.threshold)));
  return element("div", {}, element("p", { class: "muted" }, `${result.passed ? "All passed" : "Some failed"}, ${result.time}.`),
    element("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Checks" }, element("table", { class: "table table-sm" },
      element("thead", {}, element("tr", {}, ["Check", "Result", "Measured", "Required"].map((title) => element("th", { scope: "col" }, title)))), element("tbody", {}, rows))));
}

function config(settings) {
  if (!settings) return element("p", { class: "reason" }, "The configuration is invalid.");
  const isSection = ([, value]) => value !== null && typeof value === "object" && !Array.isArray(value);
  const entries = Object.entries(settings);
  return element("div", { class: "config" }, definitions(entries.filter((entry) => !isSection(entry))), entries.filter(isSection).map(([title, values]) => element("details", { class: "more" }, element("summary", {}, title), definitions(Object.entries(values)))));
}

function validations({ step, loss, bleu }) {
  if (!step.length) return "";
  const cell = (value) => element("td", { class: "num" }, value === null || value === undefined ? "–" : formatNumber(value));
  const withBleu = bleu.some((value) => value !== null);
  const rows = step.map((at, index) => element("tr", {}, cell(at), cell(loss[index]), cell(loss[index] === null ? null : Math.exp(loss[index])), withBleu ? cell(bleu[index]) : null)).slice(-200);
  const titles = ["Step", "Loss", "Perplexity", ...(withBleu ? ["BLEU"] : [])];
  return element("details", { class: "more" }, element("summary", {}, "Validations as a table"),
    element("table", { class: "table table-sm numbers" }, element("thead", {}, element("tr", {}, titles.map((title) => element("th", { scope: "col", class: "num" }, title)))), element("tbody", {}, rows)));
}

function showNotes(run) {
  byId("run-note").textContent = run.notes.text;
  byId("edit-note").textContent = run.notes.text ? "Edit the note" : "Add a note";
  byId("star").replaceChildren(starButton(run, () => changeNotes({ star: !run.notes.star })));
}

function definitions(entries) {
  return element("dl", {}, entries.flatMap(([key, value]) => [element("dt", {}, key), element("dd", { dir: "auto" }, typeof value === "string" ? value : JSON.stringify(value))]));
}

function report(files) {
  byId("report-section").hidden = !files.length;
  const pathOf = (file) => `/files/${encodeURIComponent(name)}/${encodeURIComponent(file)}`;
  const titleOf = (file) => file.replaceAll("--", " / ").replace(/\.[a-z]+$/, "").replaceAll("_", " ");
  const pages = files.filter((file) => file.endsWith(".html"));
  const images = files.filter((file) => !pages.includes(file));
  const figure = (file) => {
    const image = element("img", { alt: titleOf(file) });
    fetchImage(pathOf(file)).then((url) => { image.src = url; }, () => image.replaceWith("(could not be loaded)"));
    return element("figure", {}, image, element("figcaption", { class: "muted" }, titleOf(file)));
  };
  const figures = element("details", { class: "more" }, element("summary", {}, counted(images.length, "figure")));
  figures.addEventListener("toggle", () => figures.append(...images.map(figure)), { once: true });
  byId("report").replaceChildren(...pages.map((file) => openingForm(pathOf(file), `Open ${titleOf(file)}`)), images.length ? figures : "");
}

function show(run) {
  document.title = `${run.name} · seq2seq-chat`;
  byId("name").textContent = run.name;
  note.textContent = "";
  byId("content").hidden = false;
  const labels = labelsOf(run.task);
  byId("samples-title").textContent = `Sample ${labels.outputs}`;
  byId("facts").replaceChildren(...facts(run));
  const changed = (key) => JSON.stringify(shown?.[key]) !== JSON.stringify(run[key]);
  if (changed("curves")) {
    curves.show([{ name: run.name, curves: run.curves }]);
    byId("validations").replaceChildren(validations(run.curves.validation));
  }
  showNotes(run);
  questions.show(run);
  if (changed("samples") || changed("state")) byId("samples").replaceChildren(samples(run, labels));
  if (changed("checks")) byId("checks").replaceChildren(checks(run.checks));
  if (changed("files")) report(run.files);
  if (changed("config") || shown === null) byId("config").replaceChildren(config(run.config));
  shown = run;
}

async function refresh() {
  try {
    show(await fetchJson(`/api/runs/${encodeURIComponent(name)}`));
  } catch (error) {
    note.textContent = error.message;
    if (shown === null) byId("name").textContent = name;
  }
}

async function changeNotes(changes) {
  try {
    shown.notes = await saveNotes(shown, changes);
    showNotes(shown);
  } catch (error) {
    note.textContent = error.message;
  }
}

byId("edit-note").addEventListener("click", async () => {
  const text = await askForNote(shown);
  if (text !== null) await changeNotes({ text });
});
await refresh();
followRuns((runs, removed, isFirst) => {
  const run = runs.find((other) => other.name === shown?.name);
  if (run) note.textContent = ""; // the server is back
  const isNews = run && Object.keys(run).some((key) => JSON.stringify(run[key]) !== JSON.stringify(shown[key]));
  if (shown === null || isNews || removed.includes(shown.name) || (isFirst && !run)) refresh();
}, (error) => { note.textContent = error.message; });
