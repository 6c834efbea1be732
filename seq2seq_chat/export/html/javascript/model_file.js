// Reads the contents of a model file: a header in JSON, then the tensors. Written by seq2seq_chat/export/html/model_file.py.
import { Matrix } from "./tensors.js";

const FORMAT = 1;
const ALIGNMENT = 4; // bytes
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

/** A model file that cannot be used; its message is a sentence for people. */
export class ModelFileError extends Error {}

/** The bytes of base 85: five characters for four bytes, except that a last group of n + 1 characters has n bytes. */
export function decodeBase85(text) {
  const digits = new Uint8Array(128);
  for (let digit = 0; digit < ALPHABET.length; digit++) digits[ALPHABET.charCodeAt(digit)] = digit;
  const groups = Math.ceil(text.length / 5);
  const words = new DataView(new ArrayBuffer(groups * 4));
  for (let group = 0; group < groups; group++) {
    let value = 0;
    for (let index = group * 5; index < group * 5 + 5; index++) {
      value = value * 85 + (index < text.length ? digits[text.charCodeAt(index)] : 84);
    }
    words.setUint32(group * 4, value);
  }
  return new Uint8Array(words.buffer, 0, groups * 4 - (groups * 5 - text.length));
}

/** The contents of a compressed file, whose checksum is verified. Throws ModelFileError. */
export async function decompress(compressed) {
  try {
    const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return await new Response(stream).arrayBuffer();
  } catch {
    throw new ModelFileError("The model in this file is damaged. Copy the file again, or export the model again.");
  }
}

/** The header of a decompressed file, and its tensors by name. Throws ModelFileError. */
export function parseModelFile(buffer) {
  const [length] = new Uint32Array(buffer, 0, 1);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  if (header.format !== FORMAT) {
    throw new ModelFileError(`The model in this file has format ${header.format}, but the page reads format ${FORMAT}. Export the model again.`);
  }
  return { header, weights: readTensors(header.tensors, buffer, 4 + length) };
}

/** Matrices and vectors by name. */
function readTensors(tensors, buffer, start) {
  let position = start;
  const read = (Type, length) => {
    position = Math.ceil(position / ALIGNMENT) * ALIGNMENT;
    const values = new Type(buffer, position, length);
    position += values.byteLength;
    return values;
  };
  return new Map(tensors.map(({ name, shape, type }) => {
    const [rows, columns] = shape;
    const scales = type === "int8" ? read(Float32Array, rows) : null;
    const values = read(scales ? Int8Array : Float32Array, rows * (columns ?? 1));
    return [name, columns === undefined ? values : new Matrix(rows, columns, values, scales)];
  }));
}
