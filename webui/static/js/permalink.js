// Permanent links to a reply: all that the model needs to give it again, and the reply itself, to compare.
const NAME = "reply";

/** The address of a reply to a text, in the part of the URL that browsers do not send to servers. */
export function linkTo({ run, snapshot, decoding, answer }, text, history) {
  const seeded = answer.seed === null ? decoding : { ...decoding, seed: answer.seed };
  const link = { run, snapshot, step: answer.step, decoding: seeded, history, text, reply: answer.reply };
  return `${location.href.replace(/[?#].*$/, "")}#${new URLSearchParams({ [NAME]: JSON.stringify(link) })}`;
}

/** The link that was opened, {run, snapshot, step, decoding, history, text, reply}; null if there is none. */
export function openedLink() {
  const text = new URLSearchParams(location.hash.slice(1)).get(NAME);
  if (text === null) return null;
  history.replaceState(null, "", location.pathname + location.search); // a reload shows the conversation as it is then
  try {
    const link = JSON.parse(text);
    const strings = [link.run, link.snapshot, link.text, link.reply, ...link.history];
    return strings.every((value) => typeof value === "string") && typeof link.decoding === "object" ? link : null;
  } catch {
    return null;
  }
}
