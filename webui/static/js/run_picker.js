// Selects for the run and the snapshot.
import { fetchJson } from "./api.js";
import { address, byId, element, formatNumber, loadState, saveState, setOptions } from "./dom.js";
import { isNamed } from "./kept.js";
import { hasReplies, pathOf } from "./labels.js";
import { isIncomplete } from "./permalink.js";
import { isTraining } from "./run_fields.js";
import { addSearch } from "./select_search.js";

const PAUSE = 3000; // milliseconds between two looks at a run that trains, or for the first run

/** A run's name without its timestamp. */
export const shortName = (run) => run.replace(/^\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_/, "");

export const isSnapshot = (name) => name !== "latest" && name !== "best";

/** "step 2,000" for the snapshot "2k", or "latest" or "best" with the step of the weights if it is known. */
export function snapshotLabel(name, step = null) {
  if (!isSnapshot(name)) return step === null ? name : `${name}, step ${formatNumber(step)}`;
  const steps = Math.round(Number.parseFloat(name) * ({ k: 1e3, M: 1e6 }[name.at(-1)] ?? 1));
  return `step ${Number.isNaN(steps) ? name : formatNumber(steps)}`;
}

/** What to do if there is no run for a page. */
export const trainingHint = (config = "quickstart") => [" Train one with ", element("code", {}, `seq2seq-chat train configs/${config}.json`), "."];

/** "quickstart · latest, step 10 · beam 5"; the answer's step, if there is an answer. */
export function modelLabel({ run, snapshot, decoding, answer }) {
  const method = decoding.method ?? "";
  const width = method === "beam" && decoding.beam_width ? ` ${decoding.beam_width}` : "";
  return [shortName(run), snapshotLabel(snapshot, answer?.step), method + width].filter(Boolean).join(" · ");
}

/**
 * Two selects; `onRun(details)` is called after a run was selected and loaded, and after its state changed, with null if
 * there is none for this page. Selecting a run of another page's task opens that page; `path` is that of this page, or
 * null if it offers only runs of the tasks that it accepts. A run that is deleted stays selected, and is reported to
 * `onError`.
 */
export class RunPicker {
  constructor(onRun, onError, path = null, accepts = path === null ? hasReplies : (task) => pathOf(task) === path) {
    Object.assign(this, { onRun, onError, path, accepts });
    this.runSelect = byId("run");
    this.snapshotSelect = byId("snapshot");
    addSearch(this.runSelect, "Find a run");
    this.details = null;
    this.runs = new Map(); // by name, as in the list of the server
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
    return this.runs.get(this.runSelect.value)?.task ?? null;
  }

  get hasRuns() {
    return this.runs.size > 0;
  }

  /**
   * Fill both selects; `initial` ({run, snapshot}), the URL (?run=…&snapshot=…) or else the previous selection determines
   * the initial values.
   */
  async start(initial = null) {
    const query = new URLSearchParams(location.search);
    const requested = initial ?? (query.get("run") ? { run: query.get("run"), snapshot: query.get("snapshot") } : null);
    const remembered = loadState(this.stateName(this.path === "/" ? null : this.path)); // "Talk to it" opens the last run of any task
    try {
      await this.updateRuns(requested ? await this.fullName(requested.run) : remembered?.run);
      const named = isNamed && !initial && this.runs.has(this.wanted?.run) ? this.wanted : null;
      if (named) this.runSelect.value = named.run;
      await this.loadRun((named ?? requested ?? remembered)?.snapshot);
    } catch (error) {
      this.onError(error);
    }
    setInterval(() => { if (this.isChanging && document.visibilityState === "visible") this.refresh(); }, PAUSE);
  }

  /** The name of the run with this name or beginning; of a missing one, the same. */
  async fullName(name) {
    return (await fetchJson(`/api/runs/${encodeURIComponent(name)}`).catch(() => ({ name }))).name;
  }

  /** Whether there may be a first run, one that was moved back, or newer weights, at any time. */
  get isChanging() {
    const run = this.runs.get(this.runSelect.value);
    return run === undefined || isTraining(run) || isTraining(this.details ?? run);
  }

  /** The selection is remembered for each page, and the last one of all for pages without a task; a reload keeps it. */
  save() {
    if (!this.details) return; // the run is missing
    const { run, snapshot } = this.selection;
    for (const path of [null, pathOf(this.details.task)]) saveState(this.stateName(path), { run, snapshot });
    if (new URLSearchParams(location.search).has("run")) history.replaceState(null, "", `?${new URLSearchParams({ run, snapshot })}${location.hash}`);
  }

  stateName(path) {
    return path === null ? "model" : `model:${path}`;
  }

  /** Update the list of runs, and the snapshots if the selected run has newer weights; unless forced, not too often. */
  async refresh(force = false) {
    if (!force && Date.now() - (this.updatedAt ?? 0) < PAUSE / 2) return;
    this.updatedAt = Date.now();
    try {
      await this.updateRuns();
      const run = this.runs.get(this.runSelect.value);
      const shown = this.details;
      if (run && (shown?.name !== run.name || shown.newest_step !== run.newest_step || shown.state !== run.state)) await this.loadRun();
    } catch {
      // keep the old list
    }
  }

  async updateRuns(initial = null) {
    const { runs } = await fetchJson("/api/runs");
    const selected = initial ?? this.runSelect.value; // may have changed during the request
    this.updatedAt = Date.now();
    this.runs = new Map(runs.map((run) => [run.name, run]));
    const offered = runs.filter((run) => this.path !== null || this.accepts(run.task)); // the others lead to another page
    const options = offered.map((run) => [run.name, runTitle(run)]);
    const isMissing = Boolean(selected) && !this.runs.has(selected);
    if (isMissing) options.unshift([selected, `${selected} (deleted)`]);
    setOptions(this.runSelect, options);
    this.runSelect.value = selected;
    if (!this.runSelect.value) this.selectDefault(); // nothing was selected, or a run that is not offered
    if (isMissing && this.reported !== selected) this.onError(new Error(`There is no run “${selected}”. It may have been moved or deleted; choose another.`));
    this.reported = isMissing ? selected : null;
    if (isMissing) this.details = null;
  }

  /** The newest run with weights for this page; at a first visit the newest of all, which may open its own page, unless a note is to be read here. */
  selectDefault() {
    const isFirstVisit = this.path === "/" && location.pathname === address("/") && !isIncomplete() && loadState("model") === null;
    const usable = [...this.runs.values()].filter((run) => run.newest_step !== null);
    this.runSelect.value = (isFirstVisit ? usable[0] : usable.find((run) => this.accepts(run.task)))?.name ?? "";
  }

  /** Select a run if it is there, with a snapshot; before the runs are known, start() does it if the address names a record. */
  async select({ run, snapshot }) {
    this.wanted = { run, snapshot };
    if (!this.runs.has(run)) return;
    this.runSelect.value = run;
    await this.loadRun(snapshot);
  }

  async loadRun(snapshot = null) {
    const name = this.runSelect.value;
    if (!this.runs.has(name)) {
      this.details = null;
      this.snapshotSelect.replaceChildren();
      if (!name) this.onRun(null);
      return;
    }
    const { task } = this;
    if (!this.accepts(task)) {
      const other = address(`${pathOf(task)}?${new URLSearchParams(snapshot ? { run: name, snapshot } : { run: name })}`);
      if (!this.details) return location.replace(other); // so that Back does not lead here again
      this.runSelect.value = this.details.name; // seen on return to this page
      location.assign(other);
      return;
    }
    let details;
    try {
      details = await fetchJson(`/api/runs/${encodeURIComponent(name)}`);
    } catch (error) {
      this.onError(error);
      return;
    }
    if (this.runSelect.value === name) this.show(details, snapshot); // else another run was selected in the meantime
  }

  show(details, snapshot) {
    const isUpdate = this.details?.name === details.name && this.details.state === details.state;
    this.details = details;
    const selected = snapshot ?? this.snapshotSelect.value; // may have changed during the request
    setOptions(this.snapshotSelect, details.snapshots.map((name) => [name, snapshotTitle(name, details)]));
    this.snapshotSelect.value = details.snapshots.includes(selected) ? selected : details.snapshots[0];
    this.save();
    if (!isUpdate) this.onRun(details);
  }
}

function runTitle(run) {
  const state = run.state === "finished" ? "" : `, ${run.state}`;
  const [time] = run.name.match(/^\d{4}-\d\d-\d\d_\d\d-\d\d/) ?? []; // last, as phones cut the end
  return `${shortName(run.name)} (${run.newest_step === null ? "no checkpoint yet" : `step ${formatNumber(run.step)}`}${state})${time ? ` · ${time.replace("_", " ").replace(/-(\d\d)$/, ":$1")}` : ""}`;
}

/** "latest (step 20)" or "step 10", for a select. */
export function snapshotTitle(name, details) {
  const step = { latest: details.newest_step, best: details.best_step }[name] ?? null;
  return step === null ? snapshotLabel(name) : `${name} (step ${formatNumber(step)})`;
}
