// The worker: loads the model and answers the page. Requests have an id, and are answered one after another.
//
// {id, load: text of the model file}             → {id, result: what the page shows of the model}
// {id, chat: {text, history, decoding}}          → {id, result: as POST /api/chat}
// {id, write: {prompt, length, seed, decoding}}  → {id, tokens: […]} several times, then {id, result: {seed, seconds}}
// {stop: id}                                     → {id, stopped: true}
// Any request may be answered by {id, error: a sentence for people}.
import { Chatbot } from "./chatbot.js";
import { TextCodec } from "./codec.js";
import { Generator } from "./generator.js";
import { LanguageModel, Seq2Seq } from "./model.js";
import { ModelFileError, decodeBase85, decompress, parseModelFile } from "./model_file.js";
import { chooseSeed, randomNumbers } from "./random.js";

const MAX_BUSY = 40; // milliseconds after which messages are received, and written tokens are sent

class Stopped extends Error {}

let model = null; // a Chatbot or a Generator
let work = Promise.resolve(); // all requests so far
const stopped = new Set(); // ids of requests

/** Wait until messages that have arrived are received. */
const receiveMessages = () => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    resolve();
  };
  port2.postMessage(null);
});

/** A function to call before each step of a search; it throws Stopped if the request was stopped. */
function pauses(id) {
  let last = performance.now();
  return async () => {
    if (performance.now() - last < MAX_BUSY) return;
    await receiveMessages();
    last = performance.now();
    if (stopped.has(id)) throw new Stopped();
  };
}

async function load({ load: text }) {
  const { header, weights } = parseModelFile(await decompress(decodeBase85(text)));
  const codecs = header.codecs.map((codec) => new TextCodec(codec));
  model = header.task === "language_model"
    ? new Generator(new LanguageModel(weights, header.model), codecs[0])
    : new Chatbot(new Seq2Seq(weights, header.model), codecs[0], codecs.at(-1), header);
  return header.about;
}

async function write({ id, write: { prompt, length, seed: wanted, decoding } }) {
  const start = performance.now(), seed = chooseSeed(wanted);
  let tokens = [], sent = start;
  const send = () => {
    if (tokens.length) postMessage({ id, tokens });
    [tokens, sent] = [[], performance.now()];
  };
  for await (const token of model.write(prompt, length, decoding, randomNumbers(seed), pauses(id))) {
    tokens.push(token);
    if (performance.now() - sent > MAX_BUSY) send();
  }
  send();
  return { seed, seconds: (performance.now() - start) / 1000 };
}

function answer(request) {
  if (request.load) return load(request);
  if (request.write) return write(request);
  const { text, history, decoding } = request.chat;
  return model.reply(text, history, decoding, pauses(request.id));
}

async function handle(request) {
  const { id } = request;
  try {
    if (stopped.has(id)) throw new Stopped();
    postMessage({ id, result: await answer(request) });
  } catch (error) {
    if (error instanceof Stopped) postMessage({ id, stopped: true });
    else if (error instanceof ModelFileError) postMessage({ id, error: error.message });
    else postMessage({ id, error: `The model failed: ${error.message}. Use a current browser, or export the model again.` });
  }
}

onmessage = ({ data: request }) => {
  if (request.stop) stopped.add(request.stop);
  else work = work.then(() => handle(request));
};
