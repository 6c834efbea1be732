// Reply to each line of standard input with an exported model: node reply.js FOLDER < questions.txt
// Greedy search with onnxruntime-node only, for the tokenizers `english` and `whitespace`.
"use strict";

const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { createInterface } = require("node:readline");
const { InferenceSession, Tensor } = require("onnxruntime-node");

const [PADDING, START, END, UNKNOWN] = [0, 1, 2, 3];
const TOKENIZERS = ["english", "whitespace"];

const folder = process.argv[2];
const read = (name) => readFileSync(join(folder, name), "utf8");
const model = JSON.parse(read("model.json"));
const { source, target } = model.texts;
if (model.task === "language_model" || ![source, target].every(({ tokenizer }) => TOKENIZERS.includes(tokenizer))) {
  console.error(`${folder} is a language model, or has a tokenizer other than english or whitespace; use seq2seq-chat`);
  process.exit(1);
}
const words = read(target.vocabulary).split("\n");
const ids = new Map(read(source.vocabulary).split("\n").map((word, id) => [word, id]));
const tensor = (values) => new Tensor("int32", Int32Array.from(values), [values.length]);

function tokenize(text) {
  if (source.tokenizer === "whitespace") return text.split(/\s+/).filter(Boolean);
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().match(/[a-z0-9]+|[.,!?]/g) ?? [];
}

async function search(encoder, step, sentence) {
  const rows = tensor(sentence).reshape([1, sentence.length]);
  const inputs = { ...(await encoder.run({ source: rows, lengths: tensor([sentence.length]) })) };
  const reply = [START];
  while (reply.at(-1) !== END && reply.length <= model.target_steps) {
    const outputs = await step.run({ ...inputs, words: tensor(reply.slice(-1)) });
    const logits = outputs.logits.data;
    for (const id of [PADDING, START, UNKNOWN]) logits[id] = -Infinity;
    reply.push(logits.reduce((best, logit, id) => (logit > logits[best] ? id : best), 0));
    for (const name of model.state) inputs[name] = outputs[`next_${name}`];
  }
  return reply.filter((word) => word !== START && word !== END);
}

async function main() {
  const [encoder, step] = await Promise.all(
    ["encoder.onnx", "decoder_step.onnx"].map((name) => InferenceSession.create(join(folder, name))),
  );
  for await (const line of createInterface({ input: process.stdin })) {
    const sentence = tokenize(line).map((word) => ids.get(word) ?? UNKNOWN).slice(-model.source_steps);
    if (model.reverse_input) sentence.reverse();
    const reply = sentence.length ? await search(encoder, step, sentence) : [];
    const text = reply.map((id) => words[id]).join(" ");
    console.log(target.tokenizer === "english" ? text.replace(/ (?=[.,!?])/g, "") : text);
  }
}

main();
