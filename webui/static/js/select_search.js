// Finding an option of a long <select> by typing: a button beside it, which opens a dialog with a search field and a list.
import { element, formatNumber, isEnter, svgElement } from "./dom.js";

const FEW = 8; // options that need no search
const SHOWN = 100; // options in the list

/** Whether every word of a search occurs in a text. */
export function matches(text, search) {
  const lower = text.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}

/** Add the button to a select; `title` is the dialog's. A choice changes the select as its user does. */
export function addSearch(select, title) {
  const icon = svgElement("svg", { viewBox: "0 0 24 24", width: 16, height: 16, "aria-hidden": "true" },
    svgElement("path", { d: "M10 4a6 6 0 1 0 3.6 10.8l4.8 4.8 1.4-1.4-4.8-4.8A6 6 0 0 0 10 4zm0 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8z" }));
  const button = element("button", { type: "button", class: "btn btn-sm btn-soft", "aria-label": title, "aria-haspopup": "dialog", hidden: true }, icon);
  const row = element("div", { class: "select-row" });
  select.replaceWith(row);
  row.append(select, button);
  button.addEventListener("click", () => openSearch(select, title));
  new MutationObserver(() => { button.hidden = select.options.length <= FEW; }).observe(select, { childList: true });
}

function openSearch(select, title) {
  const field = element("input", { type: "text", id: "find", class: "form-control", role: "combobox", "aria-expanded": "true", "aria-controls": "found", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false" });
  const list = element("ul", { id: "found", role: "listbox", "aria-label": title });
  const note = element("p", { class: "muted", role: "status" });
  const close = element("button", { type: "button", class: "btn-close", "aria-label": "Close" });
  const dialog = element("dialog", { class: "find-dialog", "aria-labelledby": "find-title" },
    element("div", { class: "find-head" }, element("label", { id: "find-title", for: "find" }, title), close), field, note, list);
  let active = 0;

  const activate = (index) => {
    active = Math.max(0, Math.min(index, list.children.length - 1));
    [...list.children].forEach((item, other) => item.setAttribute("aria-selected", String(other === active)));
    field.setAttribute("aria-activedescendant", list.children[active]?.id ?? "");
    list.children[active]?.scrollIntoView({ block: "nearest" });
  };
  const choose = (item) => {
    dialog.close();
    select.value = item.dataset.value;
    select.dispatchEvent(new Event("change"));
  };
  const show = () => {
    const options = [...select.options];
    const found = options.filter((option) => matches(option.text, field.value));
    list.replaceChildren(...found.slice(0, SHOWN).map((option, index) => element("li", { id: `found-${index}`, role: "option", "data-value": option.value, dir: "auto" }, option.text)));
    note.textContent = `${formatNumber(found.length)} of ${formatNumber(options.length)}${found.length > SHOWN ? `; the first ${SHOWN} are shown` : ""}`;
    activate(0);
  };
  field.addEventListener("input", show);
  field.addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (move) activate(active + move);
    else if (isEnter(event) && list.children[active]) choose(list.children[active]);
    else return;
    event.preventDefault();
  });
  list.addEventListener("click", ({ target }) => { if (target.closest("li")) choose(target.closest("li")); });
  dialog.addEventListener("keydown", (event) => event.stopPropagation()); // no shortcuts of the page
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    select.focus();
  });
  document.body.append(dialog);
  show();
  activate(Math.max(0, [...list.children].findIndex((item) => item.dataset.value === select.value)));
  dialog.showModal();
  field.focus();
}
