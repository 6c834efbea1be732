// A turn of a conversation: the message, its reply or what happened instead, and what can be done with both.
import { replyOf } from "./conversation.js";
import { counted, element, isEnter } from "./dom.js";
import { labelsOf } from "./labels.js";
import { errorMessage, replyMessage, typingIndicator, userMessage } from "./messages.js";
import { modelLabel } from "./run_picker.js";
import { searchLink } from "./search_request.js";

/**
 * The elements of a turn. `state` is undefined, {indicator} or {error}; `actions` are the functions
 * edit(turn, text), select(turn), showReply(turn, index), request(turn), copy(turn), link(turn), and history(turn), which
 * returns the messages before the turn.
 */
export function turnElements(turn, versions, state, actions) {
  const reply = replyOf(turn);
  return [
    turn.before?.length ? element("p", { class: "muted before" }, `After ${counted(turn.before.length, "earlier message")}, which the link contains.`) : null,
    messageElement(turn, versions, state, actions),
    reply && !state?.indicator ? replyElements(turn, reply, actions) : null,
    outcome(turn, state, actions),
  ].flat().filter(Boolean);
}

/** What is shown until the reply is complete; `show(text)` shows the part of it that is known. */
export function pendingReply() {
  const text = element("p", { class: "message-text", dir: "auto" });
  const indicator = typingIndicator("The model", () => !text.textContent);
  const node = element("div", { class: "pending", "aria-busy": "true" }, text, indicator);
  return { node, show: (part) => { text.textContent = part; }, note: (reason) => { indicator.querySelector(".typing-note").textContent = reason; } };
}

function messageElement(turn, versions, state, actions) {
  const box = element("div", { class: "your-turn" });
  const show = () => {
    const edit = button("Edit", "edit", () => box.replaceChildren(editor(turn, actions.edit, show)));
    edit.disabled = Boolean(state?.indicator);
    const index = versions.indexOf(turn);
    const select = (other) => actions.select(versions[other]);
    box.replaceChildren(userMessage(turn.text), element("div", { class: "turn-actions", "aria-live": "off" }, switcher("message", index, versions.length, select), edit));
  };
  show();
  return box;
}

function editor(turn, onSave, onCancel) {
  const text = element("textarea", { class: "form-control", rows: 3, dir: "auto", "aria-label": "Edit your message" });
  text.value = turn.text;
  const form = element("form", { class: "edit" }, text, element("div", { class: "turn-actions" },
    button("Cancel", "cancel", onCancel), element("button", { type: "submit", class: "btn btn-sm btn-primary" }, "Send")));
  const save = () => text.value.trim() && onSave(turn, text.value.trim());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    save();
  });
  text.addEventListener("keydown", (event) => {
    if (isEnter(event) && !event.shiftKey) {
      event.preventDefault();
      save();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      onCancel();
    }
  });
  requestAnimationFrame(() => text.focus());
  return form;
}

function replyElements(turn, reply, actions) {
  const search = (style) => searchLink({ ...reply, text: turn.text, history: actions.history(turn) }, style);
  const again = button("Another reply", "again", () => actions.request(turn, true));
  return [
    reply.linked ? element("p", { class: `linked ${reply.linked.isSame ? "" : "warning"}`, role: "status" }, reply.linked.note) : null,
    element("div", { class: "message model" }, element("span", { class: "visually-hidden" }, "Model: "), replyMessage(reply.answer, modelLabel(reply), labelsOf("conversation"), search())),
    element("div", { class: "turn-actions", "aria-live": "off" }, switcher("reply", turn.shown, turn.replies.length, (index) => actions.showReply(turn, index)),
      reply.answer.reply.trim() ? button("Copy", "copy", () => actions.copy(turn)) : null, again, button("Link", "link", () => actions.link(turn)), search("action")),
  ];
}

function outcome(turn, state, actions) {
  if (state?.indicator) return state.indicator.node;
  const text = turn.stopped ? element("p", { class: "message-text", dir: "auto" }, turn.stopped) : null;
  if (state?.error) return [text, errorMessage(state.error, () => actions.request(turn))];
  const isStopped = turn.stopped !== undefined;
  if (replyOf(turn) && !isStopped) return null;
  const stopped = element("p", { class: "stopped", role: "status" }, isStopped ? "Stopped. " : "No reply. ",
    button(replyOf(turn) ? "Another reply" : "Reply", "retry", () => actions.request(turn)));
  return [text, stopped];
}

function button(text, action, click) {
  return element("button", { type: "button", class: "action", "data-action": action, click }, text);
}

/** "‹ 1/2 ›" to switch between versions; null if there is only one. */
function switcher(name, index, count, select) {
  if (count < 2) return null;
  const step = (sign, title, by) => {
    const node = button(sign, `${title}-${name}`, () => select(index + by));
    node.setAttribute("aria-label", `${title} version of the ${name}`);
    node.disabled = index + by < 0 || index + by >= count;
    return node;
  };
  return element("span", { class: "switcher" }, step("‹", "Previous", -1), element("span", {}, `${index + 1}/${count}`), step("›", "Next", 1));
}
