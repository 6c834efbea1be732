// Running text as token ids and back: seq2seq_chat/data/running_text.py.
import { EOS } from "./logit_rules.js";

/** The ids of a text. EOS stands for line breaks unless the tokenizer keeps them. */
export function encodeText(text, codec) {
  const encode = (line) => codec.ids(codec.tokenizer.encode(line));
  if (codec.tokenizer.keepsLineBreaks) return encode(text);
  const lines = text.split("\n");
  const rest = lines.pop();
  return [...lines.flatMap((line) => [...encode(line), EOS]), ...encode(rest)];
}

/** Turns ids into text, as they come; `context` are ids before the first ones. */
export class TokenText {
  constructor(codec, context) {
    this.codec = codec;
    this.line = codec.tokens(context.slice(context.lastIndexOf(EOS) + 1)); // tokens since the last line break
    this.shown = ""; // the part of their text that was returned
    this.newText();
  }

  /** The text that another id adds. */
  add(id) {
    const { tokenizer } = this.codec;
    if (tokenizer.keepsLineBreaks) return tokenizer.decode(this.codec.tokens([id]));
    if (id === EOS) {
      const rest = this.newText();
      this.line = [];
      this.shown = "";
      return `${rest}\n`;
    }
    this.line.push(...this.codec.tokens([id]));
    return this.newText();
  }

  /** What the tokens of the line add to what was returned; an incomplete character is held back. */
  newText() {
    const text = this.codec.tokenizer.decode(this.line).replace(/\ufffd+$/, "");
    const added = text.slice(this.shown.length);
    this.shown = text;
    return added;
  }
}
