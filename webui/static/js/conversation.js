// A conversation: a tree of turns, of which one path is shown. Editing a message adds a branch, and nothing is lost.

import { newId, titleOf } from "./kept.js";

/**
 * `turns` are {id, parent, follows, text, time, replies, shown, isCurrent}: `parent` is the previous turn or null, and
 * `follows` the index of the reply of it that this turn continues; `replies` are {run, snapshot, decoding, answer, time},
 * `shown` is the index of one; `isCurrent` tells which of several versions of a message is shown; `stopped` is what there
 * was of a reply that was stopped after them.
 */
export class Conversation {
  constructor(record = {}) {
    this.id = record.id ?? newId();
    this.title = record.title ?? "";
    this.changed = record.changed ?? new Date().toISOString();
    this.turns = record.turns ?? [];
  }

  get record() {
    const { id, title, changed, turns } = this;
    return { id, kind: "chat", title, changed, turns };
  }

  /** The turns that are shown, from first to last. */
  get path() {
    const turns = [];
    const next = (parent, follows) => this.versions(parent, follows).find((turn) => turn.isCurrent);
    for (let turn = next(null, 0); turn; turn = next(turn.id, turn.shown)) turns.push(turn);
    return turns;
  }

  /** All versions of the message that follows a reply, in the order in which they were written. */
  versions(parent, follows) {
    const versions = this.turns.filter((turn) => turn.parent === parent && turn.follows === follows);
    return versions.sort((one, other) => (one.time > other.time) - (one.time < other.time)); // several tabs may have written them
  }

  versionsOf(turn) {
    return this.versions(turn.parent, turn.follows);
  }

  /** A further message, or a new version of an existing one. */
  add(text, versionOf = null) {
    const last = this.path.at(-1);
    const { parent, follows } = versionOf ?? { parent: last?.id ?? null, follows: last?.shown ?? 0 };
    const turn = { id: newId(), parent, follows, text, time: new Date().toISOString(), replies: [], shown: 0 };
    this.turns.push(turn);
    this.select(turn);
    return turn;
  }

  /** Show this version of a message, and what follows it. */
  select(turn) {
    for (const version of this.versionsOf(turn)) version.isCurrent = version === turn;
    this.touch();
  }

  addReply(turn, reply) {
    delete turn.stopped;
    turn.replies.push(reply);
    turn.shown = turn.replies.length - 1;
    this.touch();
  }

  showReply(turn, index) {
    turn.shown = index;
    this.touch();
  }

  touch() {
    this.changed = new Date().toISOString();
    this.title ||= titleOf(this.path[0]?.text ?? "");
  }

  /** What was said before a turn, user and model alternately; messages without a reply are left out. */
  history(turn) {
    const path = this.path;
    const before = path.slice(0, path.indexOf(turn));
    return [...(path[0]?.before ?? []), ...before.flatMap((one) => (replyOf(one) ? [one.text, replyOf(one).answer.reply] : []))];
  }
}

/** The reply of a turn that is shown; undefined if there is none. */
export const replyOf = (turn) => turn.replies[turn.shown];
