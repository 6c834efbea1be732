// The table of all runs, updated while they train.
import { fetchJson } from "./api.js";
import { address, byId, element, formatNumber, timeAgo } from "./dom.js";
import { bestPerplexity, isTraining, poll, stateBadge, stepProgress, useOf } from "./run_fields.js";

const table = byId("runs");
const note = byId("note");
const rows = new Map(); // name → {row, content}: only rows with new content are redrawn

function cells(run) {
  const href = address(`/runs/${encodeURIComponent(run.name)}`);
  const use = useOf(run);
  const changed = new Date(run.changed * 1000);
  return [
    element("th", { scope: "row" }, element("a", { href, dir: "auto" }, run.name), run.reason ? element("p", { class: "reason" }, run.reason) : null),
    element("td", {}, stateBadge(run.state)),
    element("td", { class: "step" }, stepProgress(run)),
    element("td", {}, bestPerplexity(run)),
    element("td", {}, element("time", { datetime: changed.toISOString(), title: changed.toLocaleString() }, timeAgo(run.changed))),
    element("td", { class: "actions" }, element("a", { class: "btn btn-sm btn-soft", href: use.href, "aria-label": `${use.verb} with ${run.name}` }, use.verb)),
  ];
}

function describe(runs) {
  if (!runs.length) return "";
  const training = runs.filter(isTraining).length;
  return `${formatNumber(runs.length)} ${runs.length === 1 ? "run" : "runs"}${training ? `, ${training} training` : ""}`;
}

function removeRows(names) {
  for (const [name, { row }] of rows) {
    if (!names.has(name)) {
      row.remove();
      rows.delete(name);
    }
  }
}

function updateRow(run) {
  const content = JSON.stringify([run, timeAgo(run.changed)]);
  if (!rows.has(run.name)) rows.set(run.name, { row: element("tr") });
  const entry = rows.get(run.name);
  if (entry.content !== content) {
    const focused = [...entry.row.querySelectorAll("a")].indexOf(document.activeElement);
    entry.row.replaceChildren(...cells(run));
    if (focused >= 0) entry.row.querySelectorAll("a")[focused]?.focus();
    entry.content = content;
  }
  return entry.row;
}

function show(runs) {
  table.hidden = !runs.length;
  byId("empty").hidden = runs.length > 0;
  note.textContent = describe(runs);
  removeRows(new Set(runs.map((run) => run.name)));
  const body = table.tBodies[0];
  runs.forEach((run, index) => {
    const row = updateRow(run);
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
}

poll(async () => {
  try {
    const { runs } = await fetchJson("/api/runs");
    show(runs);
    return runs.some(isTraining) ? 2000 : 4000;
  } catch (error) {
    note.textContent = error.message;
    return 4000;
  }
}, 4000);
