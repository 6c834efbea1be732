// Selects for the run and the snapshot.
import { fetchJson } from "./api.js";
import { address, byId, formatNumber, loadState, saveState, timeAgo } from "./dom.js";
import { hasReplies, pathOf } from "./labels.js";

/** A run's name without its timestamp. */
export const shortName = (run) => run.replace(/^\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_/, "");

export const isSnapshot = (name) => name !== "latest" && name !== "best";

/** "latest", "best" or "step 10". */
export const snapshotLabel = (name) => (isSnapshot(name) ? `step ${name}` : name);

/** "quickstart · step 10 · beam 5". */
export function modelLabel({ run, snapshot, decoding }) {
  const method = decoding.method ?? "";
  const width = method === "beam" && decoding.beam_width ? ` ${decoding.beam_width}` : "";
  return [shortName(run), snapshotLabel(snapshot), method + width].filter(Boolean).join(" · ");
}

/**
 * Two selects; `onRun(details)` is called after a run was selected and loaded, with null if there is none for this page.
 * Selecting a run of another page's task opens that page; `path` is that of this page, or null if it accepts every run
 * that replies.
 */
export class RunPicker {
  constructor(onRun, onError, path = null) {
    this.path = path;
    this.runSelect = byId("run");
    this.snapshotSelect = byId("snapshot");
    this.onRun = onRun;
    this.onError = onError;
    this.details = null;
    this.tasks = new Map(); // of the runs
    this.runSelect.addEventListener("change", () => this.loadRun());
    this.snapshotSelect.addEventListener("change", () => this.save());
    // the list may have changed since the page was loaded: update it before it is opened
    for (const event of ["focus", "pointerdown"]) this.runSelect.addEventListener(event, () => this.refresh());
  }

  get selection() {
    return { run: this.runSelect.value, snapshot: this.snapshotSelect.value || "latest" };
  }

  /** The task of the selected run; null if its configuration is invalid. */
  get task() {
    return this.tasks.get(this.runSelect.value) ?? null;
  }

  /** Fill both selects; the URL (?run=…&snapshot=…) or else the previous selection determines the initial values. */
  async start() {
    const query = new URLSearchParams(location.search);
    const initial = query.get("run") ? { run: query.get("run"), snapshot: query.get("snapshot") } : loadState(this.stateName(this.path));
    try {
      await this.updateRuns(initial?.run);
      if (!query.get("run") && !this.accepts(this.task)) this.selectDefault();
      await this.loadRun(initial?.snapshot);
    } catch (error) {
      this.onError(error);
    }
  }

  /** The selection is remembered for each page, and the last one of all for pages without a task. */
  stateName(path) {
    return path === null ? "model" : `model:${path}`;
  }

  save() {
    for (const path of [null, pathOf(this.details.task)]) saveState(this.stateName(path), this.selection);
  }

  get hasRuns() {
    return this.tasks.size > 0;
  }

  accepts(task) {
    return this.path === null ? hasReplies(task) : pathOf(task) === this.path;
  }

  async refresh() {
    if (Date.now() - (this.updatedAt ?? 0) < 3000) return;
    this.updatedAt = Date.now();
    try {
      await this.updateRuns(this.runSelect.value);
    } catch {
      // keep the old list
    }
  }

  async updateRuns(selected) {
    const { runs } = await fetchJson("/api/runs");
    this.updatedAt = Date.now();
    this.tasks = new Map(runs.map((run) => [run.name, run.task]));
    const { options } = this.runSelect;
    if (runs.length === options.length && runs.every((run, index) => options[index].value === run.name)) return;
    this.runSelect.replaceChildren(...runs.map((run) => new Option(this.runTitle(run), run.name)));
    if (runs.some((run) => run.name === selected)) this.runSelect.value = selected;
    else this.selectDefault();
  }

  /** The newest run for this page; at a first visit the newest of all, which may open its own page. */
  selectDefault() {
    const isFirstVisit = this.path === "/" && loadState("model") === null;
    const names = [...this.tasks.keys()];
    this.runSelect.value = (isFirstVisit ? names[0] : names.find((name) => this.accepts(this.tasks.get(name)))) ?? "";
  }

  runTitle(run) {
    const state = run.state === "finished" ? "" : `, ${run.state}`;
    return `${run.name} (step ${formatNumber(run.step)}${state})`;
  }

  async loadRun(snapshot = null) {
    const name = this.runSelect.value;
    if (!name) {
      this.details = null;
      this.snapshotSelect.replaceChildren();
      this.onRun(null);
      return;
    }
    const { task } = this;
    if (!this.accepts(task)) {
      this.runSelect.value = this.details?.name ?? ""; // seen on return to this page
      location.assign(address(`${pathOf(task)}?${new URLSearchParams(snapshot ? { run: name, snapshot } : { run: name })}`));
      return;
    }
    let details;
    try {
      details = await fetchJson(`/api/runs/${encodeURIComponent(name)}`);
    } catch (error) {
      this.onError(error);
      return;
    }
    if (this.runSelect.value !== name) return; // another run was selected in the meantime
    this.details = details;
    const selected = snapshot ?? this.snapshotSelect.value; // may have changed during the request
    this.snapshotSelect.replaceChildren(...details.snapshots.map((option) => new Option(this.snapshotTitle(option), option)));
    if (details.snapshots.includes(selected)) this.snapshotSelect.value = selected;
    this.save();
    this.onRun(details);
  }

  snapshotTitle(snapshot) {
    if (snapshot === "latest" && this.details.state === "training") return `latest (${timeAgo(this.details.changed)})`;
    return snapshot === "best" ? "best (of all validations)" : snapshotLabel(snapshot);
  }
}
