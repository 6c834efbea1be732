// A conversation of models as a value, which permanent links and files contain:
// {models: [{run, snapshot}, {run, snapshot}], decoding, seed, text, replies: [{text, step}]}, with replies of both in turns.
import { markdownMessage } from "./conversation_files.js";
import { modelLabel, shortName, snapshotLabel } from "./run_picker.js";

const FORMAT = "seq2seq-chat talk";

export const speakerOf = (talk, index) => talk.models[index % 2];

export function asText(talk) {
  const lines = talk.replies.map(({ text }, index) => {
    const { run, snapshot } = speakerOf(talk, index);
    return `${shortName(run)} (${snapshotLabel(snapshot)}): ${text}\n`;
  });
  return `you: ${talk.text}\n${lines.join("")}`;
}

export function asMarkdown(talk) {
  const { text, decoding, seed } = talk;
  const replies = talk.replies.map((reply, index) => markdownMessage(modelLabel({ ...speakerOf(talk, index), decoding, answer: reply }), reply.text));
  return `# ${text.replaceAll(/\s+/g, " ")}\n\n${markdownMessage("You", text)}${replies.join("")}${decoding.method === "sample" ? `Seed: ${seed}\n` : ""}`;
}

export const asJson = (talk) => JSON.stringify({ format: FORMAT, ...talk }, null, 1);
