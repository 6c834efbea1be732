// Conversations as files: text and Markdown to read, JSON to import again.
import { Conversation, newId, replyOf } from "./conversation.js";
import { modelLabel } from "./run_picker.js";

const FORMAT = "seq2seq-chat conversations";

/** "you: …" and "bot: …". */
export function asText(conversation) {
  return conversation.path.map((turn) => `you: ${turn.text}\n${replyOf(turn) ? `bot: ${replyOf(turn).answer.reply}\n` : ""}`).join("");
}

export function asMarkdown(conversation) {
  const reply = (one) => markdownMessage(modelLabel(one), one.answer.reply);
  const turns = conversation.path.map((turn) => markdownMessage("You", turn.text) + (replyOf(turn) ? reply(replyOf(turn)) : ""));
  return `# ${conversation.title.replaceAll(/\s+/g, " ")}\n\n${turns.join("")}`;
}

/** A message of a conversation in Markdown. */
export function markdownMessage(name, text) {
  return `**${name.replace(/[\\`*_[\]<>]/g, "\\$&")}**\n\n${text.replace(/^/gm, "> ")}\n\n`;
}

/** All versions of everything, with what explains the replies. */
export function asJson(conversations) {
  return JSON.stringify({ format: FORMAT, conversations: conversations.map(({ record }) => record) }, null, 1);
}

/** The conversations of a file, as new ones. Throws an Error with a message for the user. */
export function fromJson(text) {
  let content;
  try {
    content = JSON.parse(text);
  } catch {
    throw new Error("This file is not JSON. Choose one that was downloaded here as JSON.");
  }
  if (content?.format !== FORMAT || !Array.isArray(content.conversations) || !content.conversations.every(isConversation)) {
    throw new Error("This file contains no conversations. Choose one that was downloaded here as JSON.");
  }
  return content.conversations.map(({ title, changed, turns }) => new Conversation({ id: newId(), title, changed, turns }));
}

const isString = (value) => typeof value === "string";
const isListOf = (check) => (value) => Array.isArray(value) && value.every(check);
const isStrings = isListOf(isString);

function isConversation(value) {
  const earlier = new Set([null]); // a turn comes after the one that it follows, so there are no cycles
  const isInOrder = ({ id, parent }) => earlier.has(parent) && !earlier.has(id) && earlier.add(id);
  return isString(value?.title) && !Number.isNaN(Date.parse(value.changed)) && isListOf(isTurn)(value.turns) && value.turns.every(isInOrder);
}

function isTurn(turn) {
  return isString(turn?.id) && (turn.parent === null || isString(turn.parent)) && Number.isInteger(turn.follows) && isString(turn.text)
    && Number.isInteger(turn.shown) && isListOf(isReply)(turn.replies) && (turn.before === undefined || isStrings(turn.before));
}

/** Whether it is a reply of the model as in `Conversation`. */
export function isReply({ run, snapshot, decoding, answer } = {}) {
  return isString(run) && isString(snapshot) && decoding !== null && typeof decoding === "object" && isString(answer?.reply)
    && isListOf((one) => isString(one?.text) && Number.isFinite(one.score))(answer.alternatives)
    && isListOf(isListOf(Number.isFinite))(answer.attention)
    && [answer.unknown_words, answer.source_words, answer.reply_words, answer.warnings].every(isStrings)
    && Number.isFinite(answer.seconds);
}
