// What the browser keeps as files: text and Markdown to read, JSON to import again.
import { replyOf } from "./conversation.js";
import { isId, newId } from "./kept.js";
import { modelLabel } from "./run_picker.js";

const FORMAT = "seq2seq-chat conversations";
const MAX_DEPTH = 30; // of a record; one in which a million lists are nested could be stored, but not searched

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

/** All versions of everything in records, with what explains the replies. */
export function asJson(records) {
  return JSON.stringify({ format: FORMAT, conversations: records }, null, 1);
}

/** The records of a file; those without a valid id get a new one. Throws an Error with a message for the user. */
export function fromJson(text) {
  let content;
  try {
    content = JSON.parse(text);
  } catch {
    throw new Error("This file is not JSON. Choose one that was downloaded here as JSON.");
  }
  if (content?.format !== FORMAT || !Array.isArray(content.conversations) || !content.conversations.every(isRecord)) {
    throw new Error("This file contains no conversations. Choose one that was downloaded here as JSON.");
  }
  return content.conversations.map((record) => ({ ...record, kind: kindOf(record), id: isId(record.id) ? record.id : newId() }));
}

const isString = (value) => typeof value === "string";
const isListOf = (check) => (value) => Array.isArray(value) && value.every(check);
const isStrings = isListOf(isString);

const isObject = (value) => value !== null && typeof value === "object";
const isModel = ({ run, snapshot } = {}) => isString(run) && isString(snapshot);
const isDecoding = (value) => isObject(value) && isString(value.method ?? "");
const kindOf = (record) => record.kind ?? "chat"; // earlier versions kept conversations only

function isShallow(value, depth = MAX_DEPTH) {
  return !isObject(value) || (depth > 0 && Object.values(value).every((one) => isShallow(one, depth - 1)));
}

function isRecord(value) {
  try {
    const { title, changed } = value;
    const kind = kindOf(value);
    return [title, changed, kind].every(isString) && !Number.isNaN(Date.parse(changed)) && Object.hasOwn(CHECKS, kind) && isShallow(value) && CHECKS[kind](value);
  } catch {
    return false; // a part is missing
  }
}

function isConversation({ turns }) {
  const earlier = new Set([null]); // a turn comes after the one that it follows, so there are no cycles
  const isInOrder = ({ id, parent }) => earlier.has(parent) && !earlier.has(id) && earlier.add(id);
  return isListOf(isTurn)(turns) && turns.every(isInOrder);
}

function isComparison({ columns, turns }) {
  const isResult = (result) => result === null || isString(result) || isString(result?.error) || isAnswer(result?.reply);
  const isColumn = (column) => isModel(column) && isDecoding(column.decoding ?? {});
  return isListOf(isColumn)(columns) && isListOf(({ id, text, results }) => isString(id) && isString(text) && results.length === columns.length && isListOf(isResult)(results))(turns);
}

/** Whether a value is a conversation of models, as in talk.js. */
export function isTalk({ models, decoding, seed, text, replies }) {
  return models.length === 2 && models.every(isModel) && isDecoding(decoding) && Number.isInteger(seed) && isString(text)
    && replies.every((reply) => isString(reply.text) && (reply.step === null || Number.isInteger(reply.step)));
}

function isTranslation({ model, lines }) {
  return isModel(model) && isListOf(({ source, answer }) => isString(source) && (answer === null || (isAnswer(answer) && isModel(answer.model) && isDecoding(answer.model.decoding) && isString(answer.label))))(lines);
}

function isWriting({ run, fields, shown }) {
  const isToken = ({ text, probability, alternatives }) => isString(text) && Number.isFinite(probability) && isListOf((one) => isString(one.text) && Number.isFinite(one.probability))(alternatives);
  const isField = (value) => isString(value) && Number.isFinite(Number(value)); // a number, or nothing
  return isString(run) && isString(fields[0]) && isListOf(isField)(fields.slice(1)) && shown.length > 0 && isListOf(({ request, tokens, status, remark }) => isModel(request) && isString(request.prompt) && isListOf(isToken)(tokens) && isString(status) && isString(remark))(shown);
}

const CHECKS = { chat: isConversation, compare: isComparison, talk: ({ talk }) => isTalk(talk), translate: isTranslation, write: isWriting };

function isTurn(turn) {
  return isString(turn?.id) && (turn.parent === null || isString(turn.parent)) && Number.isInteger(turn.follows) && isString(turn.text)
    && Number.isInteger(turn.shown) && isListOf(isReply)(turn.replies) && (turn.before === undefined || isStrings(turn.before))
    && [turn.stopped, turn.time].every((value) => value === undefined || isString(value));
}

/** Whether it is a reply of the model as in `Conversation`. */
const isReply = (reply) => isModel(reply) && isDecoding(reply.decoding) && isAnswer(reply.answer);

function isAnswer(answer) {
  return isString(answer?.reply)
    && isListOf((one) => isString(one?.text) && Number.isFinite(one.score))(answer.alternatives)
    && isListOf((row) => isListOf(Number.isFinite)(row) && row.length === answer.source_words.length)(answer.attention)
    && [0, answer.reply_words.length].includes(answer.attention.length)
    && [answer.unknown_words, answer.source_words, answer.reply_words, answer.warnings].every(isStrings)
    && Number.isFinite(answer.seconds);
}
