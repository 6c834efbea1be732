// One run: how it stands, how it learned, what it said, and what it is made of.
import { ask, picture, withToken } from "./api.js";
import { curvesFigure } from "./curves.js";
import { ago, byId, element, number } from "./dom.js";

const name = decodeURIComponent(location.pathname.split("/").at(-1));
const note = byId("note");
let shown = null;

function fact(title, ...value) {
  return element("div", { class: "fact" }, element("span", { class: "fact-title" }, title), element("span", { class: "fact-value" }, value));
}

function facts(run) {
  const share = run.steps ? Math.min(1, run.step / run.steps) : null;
  const buttons = element("div", { class: "fact-actions" },
    element("a", { class: "btn btn-sm btn-primary", href: `/?run=${encodeURIComponent(run.name)}` }, "Chat"),
    element("a", { class: "btn btn-sm btn-soft", href: `/compare?run=${encodeURIComponent(run.name)}` }, "Side by side"));
  return [
    fact("State", element("span", { class: `state ${run.state}` }, run.state)),
    fact("Step", number(run.step), run.steps ? element("span", { class: "quiet" }, ` of ${number(run.steps)}`) : null,
      share === null ? null : element("progress", { max: "1", value: share.toFixed(4), "aria-label": `${Math.round(share * 100)} percent of the planned steps` })),
    fact("Best perplexity", run.best_perplexity === null ? "–" : number(run.best_perplexity), run.best_step === null ? null : element("span", { class: "quiet" }, ` at ${number(run.best_step)}`)),
    fact("Snapshots", String(run.snapshots.filter((one) => one !== "latest" && one !== "best").length)),
    fact("Changed", ago(run.changed)),
    buttons,
    run.reason ? element("p", { class: "reason wide" }, run.reason) : null,
  ].filter(Boolean);
}

/** For each utterance the replies in the order of steps: how the model grew. */
function samples(lines) {
  if (!lines.length) return element("p", { class: "quiet" }, "None yet; they come with each validation.");
  const bySource = new Map();
  for (const line of lines) {
    if (!bySource.has(line.source)) bySource.set(line.source, []);
    bySource.get(line.source).push(line);
  }
  return element("div", { class: "samples" }, [...bySource].slice(0, 50).map(([source, replies]) => element("div", { class: "sample" },
    element("p", { class: "sample-source", dir: "auto" }, source),
    element("ol", {}, replies.slice(-12).map((line) => element("li", {}, element("span", { class: "sample-step" }, number(line.step)), element("span", { dir: "auto" }, line.reply || "(nothing)")))),
    element("p", { class: "quiet sample-target" }, "in the corpus: ", element("span", { dir: "auto" }, replies.at(-1).target)))));
}

function checks(found) {
  if (!found) return element("p", { class: "quiet" }, "This experiment was not checked. ", element("code", {}, "seq2seq-chat check CONFIG"), " finds out in minutes whether its model can learn.");
  const rows = found.checks.map((line) => element("tr", {},
    element("th", { scope: "row" }, line.check), element("td", {}, element("span", { class: `state ${line.passed ? "finished" : "failed"}` }, line.passed ? "passed" : "failed")),
    element("td", {}, line.figure, line.detail ? element("p", { class: "quiet mb-0" }, line.detail) : null), element("td", { class: "quiet" }, line.threshold)));
  return element("div", {}, element("p", { class: "quiet" }, `${found.passed ? "All passed" : "Not all passed"}, ${found.time}.`),
    element("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Checks" }, element("table", { class: "table table-sm" },
      element("thead", {}, element("tr", {}, ["Check", "Verdict", "Found", "Must be"].map((title) => element("th", { scope: "col" }, title)))), element("tbody", {}, rows))));
}

function config(settings) {
  if (!settings) return element("p", { class: "reason" }, "The configuration cannot be read.");
  const simple = Object.entries(settings).filter(([, value]) => value === null || typeof value !== "object" || Array.isArray(value));
  const sections = Object.entries(settings).filter(([, value]) => value !== null && typeof value === "object" && !Array.isArray(value));
  return element("div", { class: "config" }, list(simple), sections.map(([title, values]) => element("details", { class: "more" }, element("summary", {}, title), list(Object.entries(values)))));
}

function list(entries) {
  return element("dl", {}, entries.flatMap(([key, value]) => [element("dt", {}, key), element("dd", { dir: "auto" }, typeof value === "string" ? value : JSON.stringify(value))]));
}

async function report(files) {
  byId("report-section").hidden = !files.length;
  const parts = files.map((file) => {
    const path = `/files/${encodeURIComponent(name)}/${encodeURIComponent(file)}`;
    const title = file.replaceAll("--", " / ").replace(/\.[a-z]+$/, "").replaceAll("_", " ");
    if (file.endsWith(".html")) return element("p", {}, element("a", { href: withToken(path), target: "_blank", rel: "noopener" }, `Open ${title}`));
    const image = element("img", { alt: title, loading: "lazy" });
    picture(path).then((address) => { image.src = address; }, () => image.replaceWith("(cannot be shown)"));
    return element("figure", {}, image, element("figcaption", { class: "quiet" }, title));
  });
  byId("report").replaceChildren(...parts);
}

function show(run) {
  document.title = `${run.name} · seq2seq-chat`;
  byId("name").textContent = run.name;
  note.textContent = "";
  byId("content").hidden = false;
  byId("facts").replaceChildren(...facts(run));
  const changed = (part) => JSON.stringify(shown?.[part]) !== JSON.stringify(run[part]);
  if (changed("curves")) byId("curves").replaceChildren(curvesFigure(run.curves) ?? element("p", { class: "quiet" }, "Nothing was measured yet."));
  if (changed("samples")) byId("samples").replaceChildren(samples(run.samples));
  if (changed("checks")) byId("checks").replaceChildren(checks(run.checks));
  if (changed("files")) report(run.files);
  if (changed("config") || shown === null) byId("config").replaceChildren(config(run.config));
  shown = run;
}

async function follow() {
  let pause = 15_000;
  if (document.visibilityState === "visible") {
    try {
      const run = await ask(`/api/runs/${encodeURIComponent(name)}`);
      show(run);
      if (run.state === "training") pause = 3000;
    } catch (error) {
      note.textContent = error.message;
      if (shown === null) byId("name").textContent = name;
      pause = 5000;
    }
  }
  setTimeout(follow, pause);
}

follow();
