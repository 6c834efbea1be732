// The message box: Enter sends, Shift + Enter starts a new line, arrow up recalls the last message.
import { byId, formatNumber } from "./dom.js";

export class Composer {
  /** `onSend(text)` returns false if the message was not accepted. */
  constructor(onSend) {
    this.text = byId("text");
    this.sent = [];
    this.maxLength = Number(document.body.dataset.maxTextLength);
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(onSend);
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.send(onSend);
      } else if (event.key === "ArrowUp" && this.text.value === "" && this.sent.length) {
        event.preventDefault();
        this.setText(this.sent.at(-1));
      }
    });
    this.text.addEventListener("input", () => this.resize());
  }

  send(onSend) {
    const text = this.text.value.trim();
    if (text && onSend(text) !== false) {
      this.sent.push(text);
      this.setText("");
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
    this.text.style.height = `${Math.min(this.text.scrollHeight, 180)}px`;
    const length = [...this.text.value].length;
    const isLong = length > this.maxLength * 0.8;
    byId("count").textContent = isLong ? ` · ${formatNumber(length)} of ${formatNumber(this.maxLength)} characters` : "";
    byId("count").classList.toggle("over-limit", length > this.maxLength);
  }
}
