// The run and the snapshot to talk to.
import { ask } from "./api.js";
import { ago, byId, keep, kept, number } from "./dom.js";

const STATES = { training: "training", interrupted: "interrupted", failed: "failed" };

/** Two selects, filled by the server; `onRun(page)` is told each time another run was chosen and is known. */
export class Chooser {
  constructor(onRun, onFault) {
    this.run = byId("run");
    this.snapshot = byId("snapshot");
    this.onRun = onRun;
    this.onFault = onFault;
    this.page = null;
    this.run.addEventListener("change", () => this.load());
    this.snapshot.addEventListener("change", () => keep("model", this.chosen));
    // runs come and go while a page is open; the list is made anew when somebody is about to look at it
    for (const event of ["focus", "pointerdown"]) this.run.addEventListener(event, () => this.refresh());
  }

  get chosen() {
    return { run: this.run.value, snapshot: this.snapshot.value || "latest" };
  }

  /** Fill both, with what was chosen before or the address says (?run=…&snapshot=…). */
  async start() {
    const address = new URLSearchParams(location.search);
    const wanted = address.get("run") ? { run: address.get("run"), snapshot: address.get("snapshot") } : kept("model");
    await this.list(wanted?.run);
    await this.load(wanted?.snapshot);
  }

  async refresh() {
    if (Date.now() - (this.listed ?? 0) < 3000) return;
    this.listed = Date.now();
    try {
      await this.list(this.run.value);
    } catch {
      // the list as it was will do
    }
  }

  async list(wanted) {
    const { runs } = await ask("/api/runs");
    this.listed = Date.now();
    this.runs = runs;
    const same = runs.length === this.run.options.length && runs.every((run, place) => this.run.options[place].value === run.name);
    if (same) return;
    this.run.replaceChildren(...runs.map((run) => new Option(this.describe(run), run.name)));
    if (runs.some((run) => run.name === wanted)) this.run.value = wanted;
  }

  describe(run) {
    const state = STATES[run.state] ? `, ${STATES[run.state]}` : "";
    return `${run.name} (step ${number(run.step)}${state})`;
  }

  async load(wanted = null) {
    const name = this.run.value;
    if (!name) {
      this.page = null;
      this.snapshot.replaceChildren();
      this.onRun(null);
      return;
    }
    let page;
    try {
      page = await ask(`/api/runs/${encodeURIComponent(name)}`);
    } catch (error) {
      this.onFault(error);
      return;
    }
    if (this.run.value !== name) return; // another one was chosen meanwhile
    this.page = page;
    const before = wanted ?? this.snapshot.value; // which may have been chosen while the server was asked
    this.snapshot.replaceChildren(...page.snapshots.map((snapshot) => new Option(this.snapshotTitle(snapshot, page), snapshot)));
    if (page.snapshots.includes(before)) this.snapshot.value = before;
    keep("model", this.chosen);
    this.onRun(page);
  }

  snapshotTitle(snapshot, page) {
    if (snapshot === "latest") return page.state === "training" ? `latest (${ago(page.changed)})` : "latest";
    if (snapshot === "best") return "best (lowest validation loss)";
    return `step ${snapshot}`;
  }
}
