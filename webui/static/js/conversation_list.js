// The panel with all conversations of this browser: open, rename, delete, import.
import { fromJson } from "./conversation_files.js";
import { allConversations, deleteConversation, saveConversation } from "./conversation_store.js";
import { byId, counted, element, timeAgo } from "./dom.js";

export class ConversationList {
  /** `onOpen(record)` is called to show a conversation, `onRename(record)` and `onDelete(record)` after the change. */
  constructor({ onOpen, onRename, onDelete }) {
    Object.assign(this, { onOpen, onRename, onDelete });
    this.panel = byId("conversations");
    this.note = byId("conversations-note");
    this.panel.addEventListener("show.bs.offcanvas", () => {
      this.note.replaceChildren();
      this.draw();
    });
    this.panel.addEventListener("hidden.bs.offcanvas", () => { if (document.activeElement === document.body) byId("text").focus(); });
    this.draw();
    byId("import").addEventListener("change", (event) => this.importFiles(event.target));
  }

  /** Show all conversations, of which the one with this id is the current one. */
  async draw(current = this.current) {
    this.current = current;
    const records = await allConversations();
    byId("conversation-list").replaceChildren(...records.map((record) => this.item(record)));
    byId("no-conversations").hidden = records.length > 0;
  }

  item(record) {
    const open = element("button", { type: "button", class: "conversation-title", dir: "auto", "data-bs-dismiss": "offcanvas", "data-bs-target": "#conversations" }, record.title,
      element("span", { class: "muted" }, timeAgo(Date.parse(record.changed) / 1000)));
    open.addEventListener("click", () => this.onOpen(record));
    const item = element("li", { "aria-current": record.id === this.current && "true" }, open);
    const action = (title, onClick) => {
      const button = element("button", { type: "button", class: "action", "aria-label": `${title} ${record.title}` }, title);
      button.addEventListener("click", onClick);
      return button;
    };
    item.append(action("Rename", () => item.replaceChildren(this.renameForm(record))), action("Delete", () => this.remove(record)));
    return item;
  }

  renameForm(record) {
    const input = element("input", { class: "form-control form-control-sm", "aria-label": "New name", maxlength: 200, dir: "auto", required: true });
    input.value = record.title;
    const form = element("form", { class: "rename" }, input, element("button", { type: "submit", class: "btn btn-sm btn-primary" }, "Save"));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      record.title = input.value.trim() || record.title;
      await saveConversation(record);
      this.onRename(record);
      this.draw();
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.draw();
    });
    requestAnimationFrame(() => input.select());
    return form;
  }

  /** Delete at once; the note offers to undo it. */
  async remove(record) {
    await deleteConversation(record.id);
    this.onDelete(record);
    const undo = element("button", { type: "button", class: "action" }, "Undo");
    undo.addEventListener("click", async () => {
      await saveConversation(record);
      this.note.replaceChildren();
      this.draw();
    });
    this.note.replaceChildren(`“${record.title}” was deleted. `, undo);
    await this.draw();
    undo.focus();
  }

  async importFiles(input) {
    const messages = [];
    for (const file of input.files) {
      try {
        const conversations = fromJson(await file.text());
        for (const { record } of conversations) await saveConversation(record);
        messages.push(`${file.name}: ${counted(conversations.length, "conversation")} imported.`);
      } catch (error) {
        messages.push(`${file.name}: ${error.message}`);
      }
    }
    input.value = "";
    this.note.textContent = messages.join(" ");
    this.draw();
  }
}
