// Tokens as a reader can tell them apart: signs for white space, codes for invisible characters and bytes.
import { element } from "./dom.js";

const SIGNS = { "<space>": ["␣", "space"], "<newline>": ["↵", "line break"], "<tab>": ["⇥", "tab"], "<return>": ["␍", "carriage return"] };
const CODE = /^<(?:(U\+[0-9A-F]{4,6})|0x([0-9A-F]{2}))>$/; // a character that cannot be seen, or a byte
const WORD_START = "▁"; // of subwords

export function tokenElement(token) {
  if (token in SIGNS) return element("span", { class: "token special", title: SIGNS[token][1] }, SIGNS[token][0]);
  const [, character, byte] = CODE.exec(token) ?? [];
  if (character || byte) return element("span", { class: "token special", title: character ? null : `byte ${byte}` }, character ?? byte);
  const startsWord = token.startsWith(WORD_START);
  return element("span", { class: "token", dir: "auto" },
    startsWord ? element("span", { class: "special", title: "start of a word" }, "␣") : null, startsWord ? token.slice(1) : token);
}
