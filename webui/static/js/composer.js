// The message box: Enter sends, Shift + Enter starts a new line, arrow up recalls earlier messages.
import { byId, formatNumber, isEnter } from "./dom.js";

export class Composer {
  /** `onSend(text)` returns false if the text was not accepted; then, or if `keepsText`, it stays in the box. */
  constructor(onSend, { keepsText = false, maxHeight = 180, length = (text) => [...text].length } = {}) {
    Object.assign(this, { keepsText, maxHeight, length });
    this.text = byId("text");
    this.sent = [];
    this.maxLength = Number(document.body.dataset.maxTextLength);
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(onSend);
    });
    this.text.addEventListener("keydown", (event) => {
      if (isEnter(event) && !event.shiftKey) {
        event.preventDefault();
        this.send(onSend);
      } else if (event.key === "ArrowUp" && (this.text.value === "" || this.text.value === this.sent[this.recalled])) {
        event.preventDefault();
        this.recalled = Math.max(0, this.text.value === "" ? this.sent.length - 1 : this.recalled - 1);
        this.setText(this.sent[this.recalled] ?? "");
      }
    });
    this.text.addEventListener("input", () => this.resize());
  }

  send(onSend) {
    const text = this.text.value.trim();
    const isTooLong = this.length(text) > this.maxLength; // the count says so
    if (text && !isTooLong && onSend(text) !== false) {
      this.sent.push(text);
      if (!this.keepsText) this.setText("");
    }
    this.text.focus();
  }

  setText(text) {
    this.text.value = text;
    this.resize();
  }

  /** Fit the height to the text, and show the number of characters when it approaches the limit. */
  resize() {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight, this.maxHeight)}px`;
    const length = this.length(this.text.value);
    const isLong = length > this.maxLength * 0.8;
    byId("count").textContent = isLong ? ` · ${formatNumber(length)} of ${formatNumber(this.maxLength)} characters${length > this.maxLength ? "; shorten the text" : ""}` : "";
    byId("count").classList.toggle("over-limit", length > this.maxLength);
  }
}
