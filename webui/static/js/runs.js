// All runs in a table, which follows them while they train.
import { ask } from "./api.js";
import { ago, byId, element, number } from "./dom.js";

const table = byId("runs");
const note = byId("note");
const rows = new Map(); // name → row and what it shows, so that a table is not made anew under somebody's eyes

export function stateBadge(state) {
  return element("span", { class: `state ${state}` }, state);
}

function cells(run) {
  const share = run.steps ? Math.min(1, run.step / run.steps) : null;
  const progress = share === null ? null : element("progress", { max: "1", value: share.toFixed(4), "aria-label": `${Math.round(share * 100)} percent of the planned steps` });
  const href = `/runs/${encodeURIComponent(run.name)}`;
  return [
    element("th", { scope: "row" }, element("a", { href, dir: "auto" }, run.name), run.reason ? element("p", { class: "reason" }, run.reason) : null),
    element("td", {}, stateBadge(run.state)),
    element("td", { class: "step" }, number(run.step), run.steps ? element("span", { class: "quiet" }, ` of ${number(run.steps)}`) : null, progress),
    element("td", {}, run.best_perplexity === null ? "–" : number(run.best_perplexity), run.best_step === null ? null : element("span", { class: "quiet" }, ` at ${number(run.best_step)}`)),
    element("td", {}, element("time", { datetime: new Date(run.changed * 1000).toISOString(), title: new Date(run.changed * 1000).toLocaleString() }, ago(run.changed))),
    element("td", { class: "actions" }, element("a", { class: "btn btn-sm btn-soft", href: `/?run=${encodeURIComponent(run.name)}`, "aria-label": `Chat with ${run.name}` }, "Chat")),
  ];
}

function show(runs) {
  table.hidden = !runs.length;
  byId("empty").hidden = runs.length > 0;
  const training = runs.filter((run) => run.state === "training").length;
  note.textContent = runs.length ? `${number(runs.length)} ${runs.length === 1 ? "run" : "runs"}${training ? `, ${training} training now` : ""}` : "";
  const names = new Set(runs.map((run) => run.name));
  for (const [name, { row }] of rows) {
    if (!names.has(name)) {
      row.remove();
      rows.delete(name);
    }
  }
  runs.forEach((run, place) => {
    const shown = JSON.stringify([run, ago(run.changed)]);
    let known = rows.get(run.name);
    if (!known) rows.set(run.name, (known = { row: element("tr") }));
    if (known.shown !== shown) {
      const focused = known.row.contains(document.activeElement) ? [...known.row.querySelectorAll("a")].indexOf(document.activeElement) : -1;
      known.row.replaceChildren(...cells(run));
      if (focused >= 0) known.row.querySelectorAll("a")[focused]?.focus();
      known.shown = shown;
    }
    const body = table.tBodies[0];
    if (body.rows[place] !== known.row) body.insertBefore(known.row, body.rows[place] ?? null);
  });
  return training > 0;
}

async function follow() {
  let lively = false;
  if (document.visibilityState === "visible") {
    try {
      lively = show((await ask("/api/runs")).runs);
    } catch (error) {
      note.textContent = error.message;
    }
  }
  setTimeout(follow, lively ? 2000 : 4000);
}

if (table) follow();
