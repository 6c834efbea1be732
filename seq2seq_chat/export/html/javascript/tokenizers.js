// Tokenizers: text to tokens and back, as in seq2seq_chat/text/tokenizers.
import { SubwordTokenizer } from "./subword_tokenizer.js";
import { UnicodeTokenizer } from "./unicode_tokenizer.js";
import { SURROGATES, attachMarks, splitWords } from "./text.js";

class EnglishTokenizer {
  encode(text) {
    const letters = text.normalize("NFKD").replaceAll(/\p{M}/gu, "").replaceAll(/[^\0-\x7f]/gu, " ");
    return letters.toLowerCase().match(/[a-z0-9]+|[.,!?]/g) ?? [];
  }

  decode(tokens) {
    return attachMarks(tokens);
  }
}

class EnglishCharacterTokenizer extends EnglishTokenizer {
  encode(text) {
    return [...super.encode(text).join(" ")].map((character) => (character === " " ? "<space>" : character));
  }

  decode(tokens) {
    return tokens.map((token) => (token === "<space>" ? " " : token)).join("");
  }
}

class ThesisTokenizer extends EnglishTokenizer {
  encode(text) {
    const valid = splitWords(text).filter((word) => !/[^a-zA-Z0-9.,!?]/.test(word));
    return valid.flatMap((word) => word.match(/[a-zA-Z0-9]+|[.,!?]/g));
  }
}

class WhitespaceTokenizer {
  encode(text) {
    return splitWords(text.replaceAll(SURROGATES, "\ufffd"));
  }

  decode(tokens) {
    return tokens.join(" ");
  }
}

class CharacterTokenizer {
  static NAMES = new Map([[" ", "<space>"], ["\t", "<tab>"], ["\n", "<newline>"], ["\r", "<return>"]]);
  static CHARACTERS = new Map([...CharacterTokenizer.NAMES].map(([character, name]) => [name, character]));
  static INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{M}\p{Z}\p{Noncharacter_Code_Point}\u115f\u1160\u2800\u3164\uffa0]/u;
  keepsLineBreaks = true;

  encode(text) {
    return Array.from(text, (character) => {
      const name = CharacterTokenizer.NAMES.get(character);
      if (name || !CharacterTokenizer.INVISIBLE.test(character)) return name ?? character;
      return `<U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`;
    });
  }

  decode(tokens) {
    return tokens.map((token) => {
      const [, code] = /^<U\+([0-9A-F]{4,6})>$/.exec(token) ?? [];
      if (code && parseInt(code, 16) < 0x110000) return String.fromCodePoint(parseInt(code, 16)).replace(SURROGATES, "\ufffd");
      return CharacterTokenizer.CHARACTERS.get(token) ?? token;
    }).join("");
  }
}

const TOKENIZERS = {
  english: EnglishTokenizer,
  english_character: EnglishCharacterTokenizer,
  thesis: ThesisTokenizer,
  whitespace: WhitespaceTokenizer,
  character: CharacterTokenizer,
  unicode: UnicodeTokenizer,
  subword: SubwordTokenizer,
};

/** The tokenizer that a model file describes. */
export const createTokenizer = (description) => new TOKENIZERS[description.name](description);
