// The panel with all that this browser keeps: find, open, rename, delete, download, import.
import { asJson, fromJson } from "./conversation_files.js";
import { byId, counted, download, element, timeAgo, timedName } from "./dom.js";
import { KINDS, allKept, allRecords, deleteRecord, forgetAll, importRecord, keep, loadRecord, newId, pathTo, remember, saveRecord } from "./kept.js";
import { matches } from "./select_search.js";

const TEXTS = new Set(["title", "text", "reply", "prompt", "source", "stopped"]);
const MAX_FILE_SIZE = 2 ** 28;

/** All that people and models have written in a record. */
function textsOf(value, key = "") {
  if (typeof value === "string") return TEXTS.has(key) ? [value] : [];
  if (value === null || typeof value !== "object" || key === "attention") return [];
  return Object.entries(value).flatMap(([name, one]) => textsOf(one, Array.isArray(value) ? key : name));
}

export class ConversationList {
  /**
   * `kind` is that of the page, on which `onOpen(record)` shows a record, {} for an empty one; `onRename(record)` is called
   * after the change.
   */
  constructor(kind, onOpen, onRename = () => {}) {
    Object.assign(this, { kind, onOpen, onRename, id: newId() }); // the id of what the page shows
    this.panel = byId("kept");
    this.note = byId("kept-note");
    this.panel.addEventListener("show.bs.offcanvas", () => {
      this.note.replaceChildren();
      this.fill();
    });
    this.panel.addEventListener("hidden.bs.offcanvas", () => { if (document.activeElement === document.body) byId("text").focus(); });
    this.draw();
    matchMedia("(min-width: 1400px)").addEventListener("change", () => this.draw()); // from which it is a side bar
    byId("kept-new").addEventListener("click", () => {
      onOpen({});
      byId("text").focus();
    });
    byId("find-kept").addEventListener("input", () => this.draw());
    byId("import").addEventListener("change", (event) => this.importFiles(event.target));
    byId("download-all").addEventListener("click", async () => download(timedName("conversations", "json"), "application/json", asJson(await allRecords())));
    byId("delete-all").addEventListener("click", async () => this.remove(await allRecords()));
  }

  /** Name a record in the address, {} for an empty page, and in the list; see `remember` in kept.js. */
  show({ id }, isNext = true) {
    this.id = id ?? newId();
    remember(this, isNext, !id);
    this.draw();
  }

  /** Keep what the page shows; `content` is the record without its id and kind. */
  async keep(content, note) {
    await keep({ ...content, id: this.id, kind: this.kind }, note);
    this.draw();
  }

  /** Keep what grows on the page, at most once a second; `content` returns the record. */
  keepGrowing(content, note) {
    if (Date.now() - (this.keptAt ?? 0) < 1000) return;
    this.keptAt = Date.now();
    this.keep(content(), note);
  }

  /** Offer what the page shows as a file, which can be imported. */
  download(content, name) {
    const record = { ...content, id: this.id, kind: this.kind, changed: new Date().toISOString() };
    download(timedName(name, "json"), "application/json", asJson([record]));
  }

  /** Update the list, if it can be seen. */
  async draw() {
    if (getComputedStyle(this.panel).visibility === "visible") await this.fill();
  }

  /** Show all records, or those that are searched for. */
  async fill() {
    const records = await allRecords();
    const search = byId("find-kept").value;
    const found = records.filter((record) => !search || matches(textsOf(record).join("\n"), search));
    if (document.activeElement.closest?.(".rename")) return;
    byId("kept-list").replaceChildren(...found.map((record) => this.item(record)));
    byId("kept-none").textContent = !records.length ? "None yet." : found.length ? "" : "None contains these words.";
    byId("download-all").disabled = byId("delete-all").disabled = !records.length;
  }

  item(record) {
    const { title, kind } = record;
    const time = timeAgo(Date.parse(record.changed) / 1000);
    const open = element("button", { type: "button", class: "kept-title", dir: "auto", "data-bs-dismiss": "offcanvas", "data-bs-target": "#kept" }, title || "(empty)",
      element("span", { class: "muted" }, kind === "chat" ? time : `${KINDS[kind]} · ${time}`));
    open.addEventListener("click", () => (kind === this.kind ? this.onOpen(record) : location.assign(pathTo(record))));
    const item = element("li", { "data-id": record.id, "aria-current": record.id === this.id && "true" }, open);
    const action = (name, click) => element("button", { type: "button", class: "action", "aria-label": `${name} ${title}`, click }, name);
    item.append(action("Rename", () => item.replaceChildren(this.renameForm(record))), action("Delete", () => this.remove([record], `“${title}”`)));
    return item;
  }

  renameForm(record) {
    const input = element("input", { class: "form-control form-control-sm", "aria-label": "New name", maxlength: 200, dir: "auto", required: true });
    input.value = record.title;
    const form = element("form", { class: "rename" }, input, element("button", { type: "submit", class: "btn btn-sm btn-primary" }, "Save"));
    const close = async () => {
      form.remove();
      await this.draw();
      this.focus(record);
    };
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      record.title = input.value.trim() || record.title;
      await saveRecord(record);
      this.onRename(record);
      close();
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close();
    });
    requestAnimationFrame(() => input.select());
    return form;
  }

  /** Move the focus to a record in the list, or to the search if it is not shown. */
  focus({ id }) {
    const item = [...byId("kept-list").children].find(({ dataset }) => dataset.id === id);
    (item?.querySelector("button") ?? byId("find-kept")).focus();
  }

  /** Delete records at once, all of them if there is no name; the note offers to undo it. */
  async remove(records, name = null) {
    const shown = records.find(({ id }) => id === this.id);
    if (shown) this.onOpen({}); // which keeps what was growing
    const { id: emptied } = this;
    await allKept();
    if (name === null) await forgetAll();
    else for (const { id } of records) await deleteRecord(id);
    const undo = element("button", { type: "button", class: "action" }, "Undo");
    undo.addEventListener("click", async () => {
      for (const record of records) await saveRecord(record);
      if (shown && this.id === emptied && !await loadRecord(emptied)) this.onOpen(shown); // nothing was sent since
      this.note.replaceChildren();
      await this.draw();
      this.focus(records[0]);
    });
    this.note.replaceChildren(`${name ?? "Everything"} was deleted. `, undo);
    await this.draw();
    undo.focus();
  }

  async importFiles(input) {
    const messages = [];
    for (const file of input.files) {
      try {
        if (file.size > MAX_FILE_SIZE) throw new Error("This file is larger than 256 MiB. Choose one that was downloaded here as JSON.");
        const records = fromJson(await file.text());
        let lost = 0;
        for (const record of records) lost += !(await importRecord(record));
        messages.push(`${file.name}: ${counted(records.length - lost, "entry", "entries")} imported.`);
        if (lost) messages.push(`${counted(lost, "entry", "entries")} will be lost when this page is closed: the browser's storage is full or disabled.`);
      } catch (error) {
        messages.push(`${file.name}: ${error.message}`);
      }
    }
    input.value = "";
    this.note.textContent = messages.join(" ");
    this.draw();
  }
}
