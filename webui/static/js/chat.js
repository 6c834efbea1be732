// The page for chatting with one model at a time.
import { ApiError, streamChat } from "./api.js";
import { Composer } from "./composer.js";
import { Conversation, replyOf } from "./conversation.js";
import { asMarkdown, asText } from "./conversation_files.js";
import { ConversationList } from "./conversation_list.js";
import { DecodingForm } from "./decoding.js";
import { byId, copyToClipboard, download, element, onEscape, timedName } from "./dom.js";
import { noteMissing, showKept } from "./kept.js";
import { linkTo, noteIncomplete, notRepeatable, offerLink, openedLink } from "./permalink.js";
import { RunPicker, trainingHint } from "./run_picker.js";
import { pendingReply, turnElements } from "./turn_view.js";

const MAX_HISTORY = 1_000_000; // characters in a request; the server uses fewer, and says so
const STARTERS = ["Hello!", "How are you?", "Who are you?", "Tell me a joke."];

let hint = ""; // about the run
let pending = null; // {turn, controller} of the current request
const states = new Map(); // of turns by id, as turnElements() expects them
const boxes = new Map(); // the elements of turns by id
const form = new DecodingForm();
const picker = new RunPicker(showRun, showError, "/");
const composer = new Composer(send);
const log = byId("log");
const scroll = byId("scroll");
const note = byId("note");
const list = new ConversationList("chat", open, ({ id, title }) => { if (id === list.id) conversation.title = title; });
let conversation = new Conversation({ id: list.id });
const actions = { edit, select, showReply, request: requestReply, copy: copyReply, link: copyLink, history: recentHistory };

function showRun(details) {
  note.textContent = "";
  const turns = details?.context_turns ?? 0; // 0 if its configuration is invalid
  byId("reads").textContent = turns > 1 ? `reads the last ${turns} messages` : turns && "reads one message" || "";
  if (details === null) {
    note.replaceChildren(picker.hasRuns ? "No run to chat with: none has a checkpoint yet. It will appear here." : "No runs yet. The first will appear here.", ...trainingHint());
    byId("welcome").hidden = true; // there is nobody to talk to
    return;
  }
  form.setRun(details);
  draw();
  if (!details.config) note.textContent = `This run cannot be loaded: ${details.reason}`;
  else if (details.newest_step === null) note.textContent = "This run has no checkpoint yet; wait for its training to save one, or choose another.";
  else if (details.state === "training") note.textContent = "This run is still training; replies come from its newest checkpoint.";
  else if (details.state === "failed") note.textContent = `Training of this run failed${details.reason ? `: ${details.reason}` : "."}`;
  hint = note.textContent;
}

function showError(error) {
  note.textContent = error.message;
}

function isScrolledToEnd() {
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 120;
}

function scrollToEnd() {
  scroll.scrollTop = scroll.scrollHeight;
}

/** Show the turns of the current path; elements of turns that remain are kept, with what is open in them. */
function draw() {
  const { path } = conversation;
  byId("welcome").hidden = path.length > 0;
  for (const turn of path) if (!boxes.has(turn.id)) drawTurn(turn);
  const wanted = path.map((turn) => boxes.get(turn.id));
  for (const box of [...log.children]) if (!wanted.includes(box)) box.remove();
  wanted.forEach((box, index) => { if (log.children[index] !== box) log.insertBefore(box, log.children[index] ?? null); });
}

function drawTurn(turn) {
  if (!boxes.has(turn.id)) boxes.set(turn.id, element("div", { class: "turn-box" }));
  const box = boxes.get(turn.id);
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.action : null;
  box.replaceChildren(...turnElements(turn, conversation.versionsOf(turn), states.get(turn.id), actions));
  if (focused) (box.querySelector(`[data-action="${focused}"]:enabled`) ?? composer.text).focus();
}

/** Draw and store what has changed in a turn. */
function update(turn) {
  if (conversation.path.includes(turn)) drawTurn(turn);
  else boxes.delete(turn.id); // another version of an earlier message is shown
  for (const version of conversation.versionsOf(turn)) if (version !== turn) boxes.delete(version.id);
  draw();
  list.keep(conversation.record, note);
}

function open(record, isNext = true) {
  if (pending) list.keep(conversation.record, note); // the reply as far as it has come
  stop();
  list.show(record, isNext);
  conversation = new Conversation({ ...record, id: list.id });
  states.clear();
  boxes.clear();
  log.replaceChildren();
  draw();
  scrollToEnd();
  composer.text.focus();
  composer.sent = conversation.path.map((turn) => turn.text);
  const last = conversation.path.map(replyOf).findLast(Boolean);
  if (last) picker.select(last);
}

function canRequest() {
  if (!pending && !picker.selection.run) note.textContent ||= "There is no run to chat with yet.";
  return !pending && Boolean(picker.selection.run);
}

function send(text) {
  if (!canRequest()) return false;
  requestReply(conversation.add(text));
  return true;
}

function edit(turn, text) {
  if (canRequest()) requestReply(conversation.add(text, turn));
}

function select(turn) {
  conversation.select(turn);
  update(turn);
}

function showReply(turn, index) {
  conversation.showReply(turn, index);
  update(turn);
}

/** The newest messages before a turn, as many as a request may have. */
function recentHistory(turn) {
  const texts = conversation.history(turn);
  let length = 0;
  const isTooLong = (text) => (length += text.length) > MAX_HISTORY;
  return texts.slice(texts.findLastIndex(isTooLong) + 1);
}

/** The settings of the form; for another reply by the same model and settings, sampling gets a new seed. */
function decodingFor(turn, another) {
  const decoding = form.value;
  if (!another) return decoding;
  const { run, snapshot } = picker.selection;
  const previous = turn.replies.findLast((reply) => !reply.isAnother) ?? replyOf(turn); // which the form gave
  const settings = ({ seed, ...others }) => JSON.stringify(others);
  const isSame = previous.run === run && previous.snapshot === snapshot && settings(previous.decoding) === settings(decoding);
  return isSame || decoding.method === "sample" ? { ...form.valueFor("sample"), seed: null } : decoding;
}

async function requestReply(turn, another = false) {
  if (!canRequest()) return;
  note.textContent = hint;
  const { run, snapshot } = picker.selection;
  const decoding = decodingFor(turn, another);
  const { context_turns: contextTurns = 1 } = picker.details ?? {};
  const body = { run, snapshot: snapshot === "latest" ? null : snapshot, text: turn.text, history: recentHistory(turn), decoding };
  const earlier = turn.replies.map((reply) => reply.answer.reply);
  await answer(turn, body, (reply) => ({ run, snapshot, decoding, contextTurns, answer: reply, time: new Date().toISOString(), isAnother: another && decoding.method === "sample" }));
  const same = another ? earlier.indexOf(replyOf(turn)?.answer.reply) : -1;
  if (same >= 0 && turn.replies.length > earlier.length) note.textContent = `The same words as in reply ${same + 1}.`;
}

/** Request a reply to a turn; `asReply(answer)` is what is stored. Returns the error, if there is one. */
async function answer(turn, body, asReply) {
  const indicator = pendingReply();
  const controller = new AbortController();
  const asked = conversation;
  pending = { turn, controller };
  states.set(turn.id, { indicator });
  update(turn);
  scrollToEnd();
  showPending();
  const showText = (text) => {
    const follow = isScrolledToEnd();
    indicator.show(text);
    turn.stopped = text;
    if (conversation === asked) list.keepGrowing(() => asked.record, note);
    if (follow) scrollToEnd();
  };
  let failure = null;
  try {
    const reply = await streamChat(body, controller.signal, showText, indicator.note);
    if (reply.run !== body.run) throw new ApiError(`The run “${body.run}” no longer exists; “${reply.run}” is a different one.`, 404);
    asked.addReply(turn, asReply(reply));
    states.delete(turn.id);
  } catch (error) {
    failure = error;
    if (error.name === "AbortError") turn.stopped ??= "";
    else if (!(error instanceof ApiError)) console.error(error);
    states.set(turn.id, { error: error.name === "AbortError" ? null : error.message });
    if (error.status === 404) picker.refresh(true);
  }
  const follow = isScrolledToEnd();
  if (pending?.turn === turn) pending = null;
  showPending();
  if (conversation === asked) update(turn);
  if (follow) scrollToEnd();
  return failure;
}

function showPending() {
  const focused = document.activeElement;
  byId("stop").hidden = pending === null;
  byId("send").hidden = pending !== null;
  if (focused === byId("stop") || document.activeElement === document.body) composer.text.focus();
}

function stop() {
  pending?.controller.abort();
}

async function copyReply(turn) {
  note.textContent = await copyToClipboard(replyOf(turn).answer.reply, "reply", "Select the reply and copy it.");
}

async function copyLink(turn) {
  const reply = replyOf(turn);
  const history = recentHistory(turn).slice(-Math.max(0, reply.contextTurns - 1) || Infinity);
  await offerLink(note, linkTo("reply", replyLink(reply, turn.text, reply.contextTurns > 1 ? history : [])), "reply");
}

/** What a permanent link to a reply contains. */
function replyLink({ run, snapshot, decoding, answer }, text, history) {
  const seeded = answer.seed === null ? decoding : { ...decoding, seed: answer.seed };
  return { run, snapshot, step: answer.step, decoding: seeded, history, text, reply: answer.reply };
}

function isReplyLink({ run, snapshot, decoding, history, text, reply }) {
  return [run, snapshot, text, reply, ...history].every((value) => typeof value === "string") && typeof decoding === "object";
}

/** Ask for the reply of a permanent link again, and tell whether it is the same, or why it is not known. */
async function openLink(link) {
  open({});
  const turn = Object.assign(conversation.add(link.text), { before: link.history });
  const { run, snapshot, step, decoding, text, history } = link;
  const then = `When the link was made, it was: “${link.reply}”`;
  const asReply = (reply) => ({
    run, snapshot, decoding, contextTurns: history.length + 1, answer: reply, time: new Date().toISOString(),
    linked: reply.reply === link.reply
      ? { isSame: true, note: "The same reply as when the link was made." }
      : { isSame: false, note: `The model now replies differently, perhaps because the program has changed. ${then}` },
  });
  const failure = await answer(turn, { run, snapshot: snapshot === "latest" ? null : snapshot, step, text, history, decoding }, asReply);
  if (!(failure instanceof ApiError)) return;
  states.set(turn.id, { error: `${notRepeatable("reply", failure)} ${then}` });
  drawTurn(turn);
}

byId("stop").addEventListener("click", stop);
byId("new").addEventListener("click", () => open({}));
byId("copy").addEventListener("click", async () => { note.textContent = await copyToClipboard(asText(conversation), "conversation", "Download the conversation instead."); });
byId("download-text").addEventListener("click", () => download(timedName("conversation", "txt"), "text/plain", asText(conversation)));
byId("download-markdown").addEventListener("click", () => download(timedName("conversation", "md"), "text/markdown", asMarkdown(conversation)));
byId("download-json").addEventListener("click", () => list.download(conversation.record, "conversation"));
onEscape(stop);
byId("starters").append(...STARTERS.map((text) => element("button", { type: "button", class: "btn btn-soft", click: () => send(text) && composer.text.focus() }, text)));
composer.resize();
const link = openedLink("reply", isReplyLink);
await showKept("chat", open, link);
composer.text.focus({ preventScroll: true });
if (link) form.use({ ...link.decoding, seed: null }); // later replies have seeds of their own
await picker.start(link);
noteMissing(note);
noteIncomplete(note);
if (link) openLink(link);
