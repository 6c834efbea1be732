// Where one writes: enter sends, shift-enter breaks the line, arrow up brings back what was said before.
import { byId, number } from "./dom.js";

export class Composer {
  constructor(onSend) {
    this.text = byId("text");
    this.said = [];
    this.limit = Number(document.body.dataset.mostCharacters);
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(onSend);
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.send(onSend);
      } else if (event.key === "ArrowUp" && this.text.value === "" && this.said.length) {
        event.preventDefault();
        this.write(this.said.at(-1));
      }
    });
    this.text.addEventListener("input", () => this.fit());
  }

  send(onSend) {
    const text = this.text.value.trim();
    if (text && onSend(text) !== false) {
      this.said.push(text);
      this.write("");
    }
    this.text.focus();
  }

  write(text) {
    this.text.value = text;
    this.fit();
  }

  fit() {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight, 180)}px`;
    const length = [...this.text.value].length;
    const much = length > this.limit * 0.8;
    byId("count").textContent = much ? ` · ${number(length)} of ${number(this.limit)} characters` : "";
    byId("count").classList.toggle("over", length > this.limit);
  }
}
