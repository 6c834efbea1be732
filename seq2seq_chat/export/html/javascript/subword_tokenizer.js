// Subwords of a SentencePiece model, with bytes for what it has no subword for: seq2seq_chat/text/tokenizers/subword.py.

const WORD_START = "▁";
const JOINERS = ["\u200c", "\u200d"];
const UNKNOWN_PENALTY = 10; // SentencePiece's: an unknown character scores that much less than the worst subword
const BYTE = /^<0x([0-9A-F]{2})>$/;

const byteToken = (byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
const isPlain = (character) => JOINERS.includes(character)
  || !(/[\p{C}\p{Zl}\p{Zp}\p{Zs}]/u.test(character) || character === WORD_START || character === "<");

export class SubwordTokenizer {
  /** `pieces` are subwords and their scores, `model` is "unigram" or "bpe". */
  constructor({ pieces, model }) {
    this.scores = new Map(pieces);
    this.longest = pieces.reduce((longest, [piece]) => Math.max(longest, [...piece].length), 0);
    this.unknownScore = Math.fround(pieces.reduce((worst, [, score]) => Math.min(worst, score), Infinity) - UNKNOWN_PENALTY);
    this.segment = model === "bpe" ? this.mergePairs : this.bestSegmentation;
  }

  encode(text) {
    return text ? text.split(" ").flatMap((word) => this.encodeWord(word)) : [];
  }

  /** Plain parts become subwords, other characters bytes; the first part starts the word. */
  encodeWord(word) {
    const tokens = [];
    let plain = WORD_START; // not yet encoded
    for (const character of word) {
      if (isPlain(character)) {
        plain += character;
        continue;
      }
      tokens.push(...this.encodePlain(plain), ...bytesOf(character).map(byteToken));
      plain = "";
    }
    return [...tokens, ...this.encodePlain(plain)];
  }

  encodePlain(text) {
    return this.segment([...text]).flatMap((piece) => (this.scores.has(piece) ? [piece] : bytesOf(piece).map(byteToken)));
  }

  /** The segmentation with the largest sum of scores, added up in single precision as SentencePiece does. */
  bestSegmentation(characters) {
    const best = [{ score: 0, start: 0 }, ...characters.map(() => ({ score: -Infinity, start: 0 }))];
    for (let start = 0; start < characters.length; start++) {
      let piece = "";
      for (let end = start + 1; end <= Math.min(characters.length, start + this.longest); end++) {
        piece += characters[end - 1];
        const score = this.scores.get(piece) ?? (end === start + 1 ? this.unknownScore : -Infinity);
        const total = Math.fround(best[start].score + score);
        if (total > best[end].score) best[end] = { score: total, start };
      }
    }
    const pieces = [];
    for (let end = characters.length; end > 0; end = best[end].start) pieces.unshift(characters.slice(best[end].start, end).join(""));
    return pieces;
  }

  /** Byte pair encoding: merge the pair with the best score, the first one of several, as long as there is any. */
  mergePairs(characters) {
    const pieces = [...characters];
    for (;;) {
      let best = -1, bestScore = -Infinity;
      for (let index = 0; index + 1 < pieces.length; index++) {
        const score = this.scores.get(pieces[index] + pieces[index + 1]) ?? -Infinity;
        if (score > bestScore) [best, bestScore] = [index, score];
      }
      if (best < 0) return pieces;
      pieces.splice(best, 2, pieces[best] + pieces[best + 1]);
    }
  }

  decode(tokens) {
    const bytes = tokens.flatMap((token, index) => {
      const [, byte] = BYTE.exec(token) ?? [];
      if (byte) return [parseInt(byte, 16)];
      return bytesOf((index === 0 && token.startsWith(WORD_START) ? token.slice(1) : token).replaceAll(WORD_START, " "));
    });
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }
}

/** The bytes of UTF-8; surrogates without a partner have bytes as well. */
function bytesOf(text) {
  const code = text.charCodeAt(0);
  if (text.length === 1 && code >= 0xd800 && code < 0xe000) return [0xed, 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)];
  return [...new TextEncoder().encode(text)];
}
