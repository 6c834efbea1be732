// The replies of all snapshots of a run to the same questions, as a table that grows while the run trains.
import { fetchJson } from "./api.js";
import { byId, element, formatNumber, loadState, saveState } from "./dom.js";
import { hasReplies } from "./labels.js";
import { isSnapshot } from "./run_picker.js";

export class QuestionTable {
  constructor(name) {
    this.name = name;
    this.questions = byId("questions");
    this.note = byId("ask-note");
    this.snapshots = [];
    this.answers = new Map(); // snapshot → {step, replies}
    this.isAsking = false;
    this.isStarted = loadState(`questions:${name}`) ?? false; // go on after a reload, and when there is a new snapshot
    this.questions.value = loadState("questions") ?? this.questions.value;
    byId("ask").addEventListener("click", () => {
      this.isStarted = true;
      saveState(`questions:${name}`, true);
      this.ask();
    });
    this.questions.addEventListener("change", () => this.setQuestions(this.questions.value));
    byId("questions-file").addEventListener("change", async ({ target }) => {
      if (target.files.length) this.setQuestions(await target.files[0].text());
      target.value = "";
    });
  }

  get lines() {
    return this.questions.value.split("\n").map((line) => line.trim()).filter(Boolean);
  }

  setQuestions(text) {
    this.questions.value = text;
    saveState("questions", text);
    this.answers.clear();
    this.draw();
    if (this.isStarted) this.ask();
  }

  /** Show a run, which may have new snapshots. */
  show(run) {
    this.snapshots = run.snapshots.filter(isSnapshot);
    byId("questions-section").hidden = !hasReplies(run.task) || !this.snapshots.length;
    if (this.isStarted && !byId("questions-section").hidden) this.ask();
  }

  /** Ask the snapshots that have not replied yet, one after the other, newest first. */
  async ask() {
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      for (let next = this.next(); next !== undefined; next = this.next()) {
        this.note.textContent = `Snapshot ${next} is replying …`;
        const { lines } = this;
        const answer = await fetchJson(`/api/runs/${encodeURIComponent(this.name)}/answers`, { body: { snapshot: next, questions: lines } });
        if (lines.join("\n") === this.lines.join("\n")) this.answers.set(next, answer);
        this.draw();
      }
      this.note.textContent = "";
    } catch (error) {
      this.note.textContent = error.message;
    }
    this.isAsking = false;
  }

  next() {
    return this.lines.length ? this.snapshots.findLast((snapshot) => !this.answers.has(snapshot)) : undefined;
  }

  draw() {
    const columns = this.snapshots.filter((snapshot) => this.answers.has(snapshot)).map((snapshot) => this.answers.get(snapshot));
    const rows = this.lines.map((question, index) => element("tr", {}, element("th", { scope: "row", dir: "auto" }, question), columns.map(({ replies }, column) => {
      const isNew = column === 0 || replies[index] !== columns[column - 1].replies[index];
      return element("td", { dir: "auto", class: isNew ? null : "muted" }, replies[index] || "(empty)");
    })));
    byId("answers").replaceChildren(columns.length ? element("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Replies to the same questions" },
      element("table", { class: "table answers" }, element("caption", {}, "Replies with the decoding settings of the run; those equal to the previous snapshot's are pale."),
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Question"), columns.map(({ step }) => element("th", { scope: "col" }, `step ${formatNumber(step)}`)))),
        element("tbody", {}, rows))) : "");
  }
}
