// The replies of all checkpoints of a run to the same questions, as a table that grows while the run trains.
import { ApiError, fetchJson } from "./api.js";
import { byId, element, formatNumber, loadState, saveState } from "./dom.js";
import { hasReplies } from "./labels.js";
import { isTraining } from "./run_fields.js";

const PAUSE = 3000; // milliseconds between two looks for new checkpoints, also while the page is in the background

export class QuestionTable {
  constructor(name) {
    this.name = name;
    this.questions = byId("questions");
    this.note = byId("ask-note");
    this.run = null;
    this.failed = new Map(); // error messages by the step whose weights could not be used
    this.drawn = "";
    this.isAsking = false;
    this.isStarted = loadState(`questions:${name}`) ?? false; // go on after a reload, and when there is a new checkpoint
    this.questions.value = loadState("questions") ?? this.questions.value;
    byId("ask").addEventListener("click", () => {
      this.isStarted = true;
      this.failed.clear();
      saveState(`questions:${name}`, true);
      this.update();
    });
    this.questions.addEventListener("change", () => this.setQuestions(this.questions.value));
    byId("questions-file").addEventListener("change", async ({ target }) => {
      if (target.files.length) this.setQuestions(await target.files[0].text());
      target.value = "";
    });
    setInterval(() => { if (this.isStarted && this.run && isTraining(this.run)) this.update(); }, PAUSE);
  }

  get lines() {
    return this.questions.value.split("\n").map((line) => line.trim()).filter(Boolean);
  }

  setQuestions(text) {
    this.questions.value = text;
    saveState("questions", text);
    this.update();
  }

  /** Show a run, which may have new checkpoints. */
  show(run) {
    this.run = run;
    byId("questions-section").hidden = !hasReplies(run.task) || run.newest_step === null;
    if (!byId("questions-section").hidden) this.update();
  }

  /** Show the stored replies; if started, ask the checkpoints that have not replied, one after the other. */
  async update() {
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      let step = await this.ask(null);
      while (this.isStarted && step !== undefined) {
        this.note.textContent = `Step ${formatNumber(step)} is replying …`;
        step = await this.ask(step);
      }
      this.note.textContent = [...this.failed.values()].at(-1) ?? "";
    } catch (error) {
      this.note.textContent = error.message;
    }
    this.isAsking = false;
  }

  /** Show the replies of all checkpoints, after the reply of a step unless it is null; returns the step to ask next. */
  async ask(step) {
    const { lines } = this;
    if (!lines.length) return this.draw([], []);
    const { answers, unanswered } = await this.request(lines, step);
    if (lines.join("\n") !== this.lines.join("\n")) return this.ask(null); // edited during the request
    this.draw(lines, answers);
    return unanswered.find((other) => !this.failed.has(other));
  }

  async request(questions, step) {
    const path = `/api/runs/${encodeURIComponent(this.name)}/answers`;
    try {
      return await fetchJson(path, { body: { questions, step } });
    } catch (error) {
      if (step === null || !(error instanceof ApiError) || error.status === 0) throw error;
      if (error.status !== 404) this.failed.set(step, error.message); // 404: training has deleted these weights
      return fetchJson(path, { body: { questions } });
    }
  }

  draw(questions, answers) {
    const drawn = JSON.stringify([questions, answers]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const old = byId("answers").querySelector(".table-wrap");
    const isAtEnd = old === null || old.scrollLeft + old.clientWidth > old.scrollWidth - 5;
    const rows = questions.map((question, index) => element("tr", {}, element("th", { scope: "row", dir: "auto" }, question), answers.map(({ replies }, column) => {
      const reply = replies[index];
      const isNew = column === 0 || reply !== answers[column - 1].replies[index];
      return element("td", { dir: "auto", class: isNew && reply !== null ? null : "muted" }, reply === null ? "–" : reply || "(empty)");
    })));
    byId("answers").replaceChildren(answers.length ? element("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Replies to the same questions" },
      element("table", { class: "table answers" }, element("caption", {}, element("span", {}, "Replies with the decoding settings of the run; those equal to the previous checkpoint's are pale.")),
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Question"), answers.map(({ step }) => element("th", { scope: "col" }, `step ${formatNumber(step)}`)))),
        element("tbody", {}, rows))) : "");
    const wrap = byId("answers").querySelector(".table-wrap");
    if (wrap) wrap.scrollLeft = isAtEnd ? wrap.scrollWidth : old.scrollLeft; // new columns are at the end
  }
}
