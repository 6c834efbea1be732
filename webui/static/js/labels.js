// What the parts of a sample are called, and which page a run belongs to; both depend on its task.
const LABELS = JSON.parse(document.body.dataset.labels);
const PATHS = { translation: "/translate", language_model: "/write" };

/** Names of the source, the output and the reference: `Labels` of seq2seq_chat/config/experiment.py. */
export const labelsOf = (task) => LABELS[task] ?? Object.values(LABELS)[0];

/** The path of the page that talks to runs of a task, which is null if a run's configuration is invalid. */
export const pathOf = (task) => PATHS[task] ?? "/";

/** Whether runs of a task reply to a text; a language model continues it. */
export const hasReplies = (task) => task !== "language_model";

export const capitalize = (text) => text.charAt(0).toUpperCase() + text.slice(1);
