// The page on which two models talk to each other, or one with itself.
import { ApiError, chat, fetchJson } from "./api.js";
import { DecodingForm } from "./decoding.js";
import { isTalk, markdownMessage } from "./conversation_files.js";
import { ConversationList } from "./conversation_list.js";
import { byId, copyToClipboard, counted, download, element, onEscape, timedName } from "./dom.js";
import { newId, noteMissing, showKept, titleOf } from "./kept.js";
import { pathOf } from "./labels.js";
import { errorMessage } from "./messages.js";
import { linkTo, noteIncomplete, notRepeatable, offerLink, openedLink } from "./permalink.js";
import { findLoop, repeatedTurn } from "./repetition.js";
import { RunPicker, modelLabel, shortName, snapshotLabel, snapshotTitle, trainingHint } from "./run_picker.js";
import { addSearch } from "./select_search.js";

const ITSELF = ""; // the partner of a model that talks with itself
const note = byId("note");
const actionNote = byId("action-note");
const log = byId("log");
const partner = byId("partner");
const partnerSnapshot = byId("partner-snapshot");
const form = new DecodingForm();
const picker = new RunPicker(showRun, (error) => { note.textContent = error.message; }, null, (task) => pathOf(task) === "/");

const link = openedLink("talk", isTalk);
const list = new ConversationList("talk", open);
let wantedPartner = link?.models[1]; // until the user chooses another
/** What is shown: {models: [{run, snapshot}, {run, snapshot}], decoding, seed, text, replies: [{text, step}]}, with replies of both in turns. */
let talk = null;
let pending = null; // the AbortController of a conversation

async function showRun(details) {
  note.textContent = "";
  if (details === null) {
    note.replaceChildren("No run to talk with yet.", ...trainingHint());
    return;
  }
  form.setRun(details);
  if (!details.config) note.textContent = `This run cannot be loaded: ${details.reason}`;
  const names = [...picker.runs.values()].filter((run) => run.newest_step !== null && picker.accepts(run.task) && run.name !== details.name).map((run) => run.name);
  const selected = wantedPartner?.run ?? partner.value;
  partner.replaceChildren(new Option("itself", ITSELF), ...names.map((name) => new Option(name, name)));
  if (names.includes(selected)) partner.value = selected;
  await showPartner();
}

async function showPartner() {
  const name = partner.value;
  try {
    const details = name === ITSELF ? picker.details ?? { snapshots: [] } : await fetchJson(`/api/runs/${encodeURIComponent(name)}`);
    if (partner.value !== name) return; // another was chosen during the request
    const selected = wantedPartner?.snapshot ?? partnerSnapshot.value; // may have changed during the request
    partnerSnapshot.replaceChildren(...details.snapshots.map((name) => new Option(snapshotTitle(name, details), name)));
    if (details.snapshots.includes(selected)) partnerSnapshot.value = selected;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    note.textContent = error.message;
  }
}

/** The two models: {run, snapshot}. */
function speakers() {
  const { run, snapshot } = picker.selection;
  return [{ run, snapshot }, { run: partner.value === ITSELF ? run : partner.value, snapshot: partnerSnapshot.value || "latest" }];
}

async function startTalk() {
  const models = speakers();
  if (!models[0].run) return;
  const seed = byId("seed").value === "" ? crypto.getRandomValues(new Uint32Array(1))[0] % 1_000_000_000 : Number(byId("seed").value);
  const text = byId("text").value.trim();
  if (!text) {
    note.textContent = "Write a first message, to which the first model replies.";
    return;
  }
  note.textContent = "";
  await converse({ models, decoding: form.value, seed, text, replies: [] }, Number(byId("turns").value));
}

/** Add replies to a conversation, which is shown; replies of a link are compared. */
async function converse(conversation, count, linked = null) {
  pending?.abort();
  const controller = pending = new AbortController();
  talk = conversation;
  list.show({ id: newId() });
  byId("stop").hidden = false;
  byId("actions").hidden = true;
  actionNote.textContent = "";
  log.replaceChildren();
  addTurn(talk.text, null);
  list.keep(content(), actionNote);
  try {
    for (let number = 0; number < count; number++) {
      byId("summary").textContent = `Turn ${number + 1} of ${count} …`;
      const answer = await chat(nextRequest(linked?.replies[number].step), controller.signal);
      if (pending !== controller) return;
      addReply({ text: answer.reply, step: answer.step });
      list.keep(content(), actionNote);
      if (!linked && byId("ends").checked && loopOf(texts())) break;
    }
    finish(linked && comparison(linked));
  } catch (error) {
    if (pending !== controller) return;
    if (error.name !== "AbortError" && !(error instanceof ApiError)) throw error;
    const isStopped = error.name === "AbortError";
    if (linked && !isStopped) linked.replies.slice(talk.replies.length).forEach(addReply);
    finish(isStopped ? "Stopped." : linked && `${notRepeatable("conversation", error)} It is shown as it was when the link was made.`);
    if (!linked && !isStopped) log.append(element("li", {}, errorMessage(error.message, startTalk)));
  }
}

/** Show the form and the turns of a record, as it was, or an empty page. */
function open(record, isNext = true) {
  pending?.abort();
  pending = null;
  list.show(record, isNext);
  log.replaceChildren();
  byId("summary").textContent = actionNote.textContent = "";
  byId("actions").hidden = byId("stop").hidden = true;
  talk = record.talk && { ...record.talk, replies: [] };
  if (!talk) return;
  wantedPartner = talk.models[1];
  picker.select(talk.models[0]).then(() => picker.details && showRun(picker.details));
  byId("text").value = talk.text;
  addTurn(talk.text, null);
  record.talk.replies.forEach(addReply);
  finish();
}

const content = () => ({ title: titleOf(talk.text), talk });

/** The request for the next turn, if given by the weights of a step; with sampling, each has its own seed. */
function nextRequest(step = null) {
  const { decoding, seed, replies, text } = talk;
  const history = [text, ...texts()];
  const { run, snapshot } = speakerOf(talk, replies.length);
  const settings = decoding.method === "sample" ? { ...decoding, seed: seed + replies.length } : decoding;
  return { run, snapshot: snapshot === "latest" ? null : snapshot, step, text: history.pop(), history, decoding: settings };
}

/** Whether the replies come from a link. */
function comparison(linked) {
  const first = talk.replies.findIndex(({ text }, index) => text !== linked.replies[index].text);
  return first < 0 ? "The same conversation as when the link was made."
    : `From turn ${first + 1} on, the models reply differently than when the link was made, perhaps because the program has changed.`;
}

/** The loop at the end of replies; see findLoop(). */
function loopOf(replies) {
  const isOne = ["run", "snapshot"].every((name) => speakerOf(talk, 0)[name] === speakerOf(talk, 1)[name]);
  return findLoop(replies, isOne ? 1 : 2, talk.decoding.method === "sample" ? 3 : 2);
}

const texts = () => talk.replies.map(({ text }) => text);

function addReply(reply) {
  talk.replies.push(reply);
  const all = texts();
  const node = addTurn(reply.text, speakerOf(talk, all.length - 1), reply.step);
  const earlier = repeatedTurn(all, all.length - 1);
  if (earlier !== null) node.append(element("span", { class: "tag" }, `as in turn ${earlier + 1}`));
  const loop = loopOf(all);
  [...log.children].forEach((turn, index) => turn.classList.toggle("in-loop", loop !== null && index > loop.start));
}

/** Show a turn; the first message has no speaker. */
function addTurn(text, speaker, step = null) {
  const number = log.children.length;
  const name = speaker ? `${shortName(speaker.run)} · ${snapshotLabel(speaker.snapshot, step)}` : "first message";
  const node = element("li", { class: `talk-turn ${number % 2 ? "first" : "second"}` },
    element("div", { class: "talk-head" }, element("span", { dir: "auto" }, name), element("span", {}, number ? String(number) : null)),
    element("p", { dir: "auto", class: text.trim() ? null : "placeholder-text" }, text.trim() ? text : "(empty reply)"));
  log.append(node);
  node.scrollIntoView({ block: "nearest" });
  return node;
}

function finish(remark) {
  pending = null;
  byId("stop").hidden = true;
  byId("actions").hidden = !talk.replies.length;
  const all = texts();
  const loop = loopOf(all);
  const parts = [`${counted(all.length, "reply", "replies")}, ${new Set(all).size} of them distinct`];
  if (loop) parts.push(`a loop of ${counted(loop.length, "turn")} since turn ${loop.start + 1}`);
  if (talk.decoding.method === "sample") parts.push(`seed ${talk.seed}`);
  byId("summary").textContent = `${remark ? `${remark} ` : ""}${parts.join("; ")}.`;
}

/** Show the conversation of a link again, with the form that gave it. */
async function openLink() {
  byId("text").value = link.text;
  byId("turns").value = link.replies.length;
  if (link.decoding.method === "sample") byId("seed").value = link.seed;
  await converse({ ...link, replies: [] }, link.replies.length, link);
}

const speakerOf = (talk, index) => talk.models[index % 2];

function asText(talk) {
  const lines = talk.replies.map(({ text }, index) => {
    const { run, snapshot } = speakerOf(talk, index);
    return `${shortName(run)} (${snapshotLabel(snapshot)}): ${text}\n`;
  });
  return `you: ${talk.text}\n${lines.join("")}`;
}

function asMarkdown(talk) {
  const { text, decoding, seed } = talk;
  const replies = talk.replies.map((reply, index) => markdownMessage(modelLabel({ ...speakerOf(talk, index), decoding, answer: reply }), reply.text));
  return `# ${text.replaceAll(/\s+/g, " ")}\n\n${markdownMessage("You", text)}${replies.join("")}${decoding.method === "sample" ? `Seed: ${seed}\n` : ""}`;
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  startTalk();
});
byId("stop").addEventListener("click", () => {
  pending?.abort();
  byId("send").focus();
});
byId("copy").addEventListener("click", async () => { actionNote.textContent = await copyToClipboard(asText(talk), "conversation", "Select the conversation and copy it."); });
byId("link").addEventListener("click", () => offerLink(actionNote, linkTo("talk", talk), "conversation"));
byId("download-markdown").addEventListener("click", () => download(timedName("talk", "md"), "text/markdown", asMarkdown(talk)));
byId("download-json").addEventListener("click", () => list.download(content(), "talk"));
partner.addEventListener("change", () => {
  wantedPartner = null;
  showPartner();
});
addSearch(partner, "Find the other run");
onEscape(() => pending?.abort());
if (link) form.use(link.decoding);
await showKept("talk", open, link);
await picker.start(link?.models[0]);
noteMissing(note);
noteIncomplete(note);
if (link) openLink();
