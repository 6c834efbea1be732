// A text that a language model writes: its tokens, shaded by their probability, and the alternatives of one of them.
import { byId, copyToClipboard, download, element, timedName } from "./dom.js";
import { shortName, snapshotLabel } from "./run_picker.js";

const INVISIBLE = { " ": "␣", "\n": "↵", "\t": "⇥", "": "(nothing)" };
const visible = (text) => INVISIBLE[text] ?? text;
const percent = (probability) => `${(100 * probability).toFixed(1)} %`;

export class WrittenText {
  /** `request` is a request of the HTTP interface; `onLink(text)` offers a link to this text, `onDownload()` all as JSON. */
  constructor(request, onLink, onDownload) {
    this.request = request;
    this.title = element("h2", { dir: "auto" });
    this.tokens = []; // as in the HTTP interface
    this.spans = [];
    this.setStep(request.step);
    this.text = element("div", { class: "written", dir: "auto", role: "group", "aria-label": "Text" },
      element("span", { class: "prompt" }, request.prompt));
    this.status = element("p", { class: "hint", role: "status" }, "Waiting for the model …");
    this.note = element("p", { class: "text-note", role: "status" });
    const button = (name, click) => element("button", { type: "button", class: "btn btn-sm btn-soft ms-1", click }, name);
    this.actions = element("div", { hidden: true },
      button("Copy", async () => { this.note.textContent = await copyToClipboard(request.prompt + this.value, "text", "Select the text and copy it."); }),
      button("Download", () => download(timedName("text", "txt"), "text/plain", request.prompt + this.value)), button("JSON", onDownload), button("Link", () => onLink(this)));
    this.node = element("section", { class: "pane" }, element("div", { class: "pane-head" }, this.title), this.text,
      element("div", { class: "pane-foot" }, this.status, this.actions), this.note);
    this.text.addEventListener("pointerover", (event) => this.show(this.spans.indexOf(event.target)));
    this.text.addEventListener("focusin", (event) => this.show(this.spans.indexOf(event.target)));
    this.text.addEventListener("keydown", (event) => this.move(event));
  }

  /** Name the model, with the step of its weights once it is known. */
  setStep(step) {
    this.step = step;
    this.title.textContent = `${shortName(this.request.run)} · ${snapshotLabel(this.request.snapshot, step)}`;
  }

  /** The text without its prompt. */
  get value() {
    return this.tokens.map(({ text }) => text).join("");
  }

  /** Show that the text has ended, and what is worth a remark. */
  end(status, remarks = []) {
    this.status.textContent = status;
    this.note.textContent = remarks.join(" ");
    this.actions.hidden = !this.tokens.length;
  }

  add(tokens) {
    const spans = tokens.map((token) => {
      const span = element("span", { class: token.text.startsWith("\n") ? "token line-break" : "token", tabindex: "-1" }, token.text);
      span.style.setProperty("--surprise", 1 - token.probability);
      return span;
    });
    if (!this.spans.length) spans[0]?.setAttribute("tabindex", "0"); // one stop of the tab key; arrow keys do the rest
    this.status.textContent = "Writing …";
    this.tokens.push(...tokens);
    this.spans.push(...spans);
    this.text.append(...spans);
  }

  fail(message) {
    this.end("");
    this.text.after(element("p", { class: "written-error", role: "alert" }, message));
  }

  move(event) {
    const here = this.spans.indexOf(document.activeElement);
    const targets = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: this.spans.length - 1 };
    const span = this.spans[targets[event.key]];
    if (here < 0 || !span) return;
    event.preventDefault();
    this.spans[here].setAttribute("tabindex", "-1");
    span.setAttribute("tabindex", "0");
    span.focus();
  }

  /** Show the alternatives of a token. */
  show(index) {
    if (index < 0) return;
    const { text, probability, alternatives } = this.tokens[index];
    document.querySelector(".token.shown")?.classList.remove("shown");
    document.querySelector(".token[aria-describedby]")?.removeAttribute("aria-describedby");
    this.spans[index].classList.add("shown");
    this.spans[index].setAttribute("aria-describedby", "details");
    const rows = alternatives.map((one) => element("tr", { class: one.text === text.trimStart() || one.text === text ? "chosen" : null },
      element("td", { dir: "auto" }, visible(one.text)), element("td", { class: "num" }, percent(one.probability))));
    byId("details").replaceChildren(element("h2", {}, `${visible(text)} · ${percent(probability)}`),
      element("table", { "aria-label": "Most probable tokens" }, element("tbody", {}, rows)));
    byId("details").hidden = false;
  }
}
