// Text in any language. The patterns come from the Python tokenizer, seq2seq_chat/text/tokenizers/unicode.py.
import { joinTokens } from "./unicode_spacing.js";
import { splitWords } from "./text.js";

const URL_PATTERN = /(?<![\p{L}\p{N}])(?:https?:\/\/|www\.)\S*[\p{L}\p{N}]\/?/gu;

export class UnicodeTokenizer {
  constructor({ lowercase, normalize_apostrophes, patterns }) {
    this.lowercase = lowercase;
    this.apostrophe = normalize_apostrophes ? /(?<=[\p{L}\p{M}\p{N}])[’ʼ](?=[\p{L}\p{N}])/gu : null;
    this.token = new RegExp(patterns.token, "gsv");
    this.invisible = new RegExp(patterns.kept_or_invisible, "gsv");
    this.kinds = Object.entries(patterns.kinds).map(([kind, pattern]) => [kind, new RegExp(`^(?:${pattern})`, "sv")]);
  }

  encode(text) {
    return splitWords(text).flatMap((chunk) => this.encodeChunk(chunk));
  }

  decode(tokens) {
    return joinTokens(tokens, (token) => this.kind(token), (chunk) => this.encodeChunk(chunk));
  }

  /** The tokens of a string without white space. */
  encodeChunk(chunk) {
    let text = this.normalize(chunk);
    if (this.apostrophe) text = text.replaceAll(this.apostrophe, "'");
    if (this.lowercase) text = this.normalize(text.toLowerCase());
    const tokens = [];
    let end = 0;
    for (const url of text.matchAll(URL_PATTERN)) {
      tokens.push(...this.split(text.slice(end, url.index)), url[0]);
      end = url.index + url[0].length;
    }
    return [...tokens, ...this.split(text.slice(end))];
  }

  split(text) {
    return text.match(this.token) ?? [];
  }

  /** In NFC, without control and format characters, except those that belong to a word or an emoji. */
  normalize(text) {
    return text.normalize("NFC").replaceAll(this.invisible, "$1").normalize("NFC");
  }

  /** What a token is to its neighbors. */
  kind(token) {
    return this.kinds.find(([, pattern]) => pattern.test(token))?.[0] ?? "SYMBOL";
  }
}
