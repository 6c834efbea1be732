// The form for decoding settings, built from the options that the server offers.
import { byId, element, loadState, saveState } from "./dom.js";
import { capitalize, labelsOf } from "./labels.js";

const BASIC = ["n_best", "beam_width", "length_penalty", "temperature", "top_k", "top_p", "seed"]; // the others are folded
const TITLES = {
  allow_unknown: "Allow <unknown>", replace_unknown: "Replace <unknown>", stop: "End of the search", min_length: "Minimum length",
  no_repeat_ngram_size: "No repeated n-grams of size", unrolling: "Decoder", rerank_prefix_length: "Reranked tokens", best_ended: "At the best replies",
  first_end: "At the first reply", dynamic: "tensorflow-addons", anti_language_model: "Language model", bidirectional: "Backward model",
};
const METHOD_TITLES = { greedy: "Greedy", beam: "Beam search", sample: "Sampling" };

const title = (name) => TITLES[name] ?? capitalize(name.replaceAll("_", " "));
const methodTitle = (method) => METHOD_TITLES[method] ?? title(method);

/** "Beam search 5" or "Sampling at 0.7"; "–" before the settings are known. */
export function decodingLabel({ method, beam_width: width, temperature }) {
  if (!method) return "–";
  return methodTitle(method) + (method === "beam" && width ? ` ${width}` : "") + ((temperature ?? null) === null ? "" : ` at ${temperature}`);
}

/** The method, its options and, collapsed, all others. Changes are kept per method and shared by all runs. */
export class DecodingForm {
  constructor() {
    this.form = byId("decoding-form");
    this.button = byId("decoding-button");
    this.changes = loadState("decoding") ?? { method: null, values: {} };
    this.form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** Use the options and defaults of a run: a response of GET /api/runs/<name>. */
  setRun({ decoding: { options, defaults, method }, task }) {
    this.labels = labelsOf(task);
    this.options = options.filter((option) => option.name !== "method");
    this.defaults = defaults;
    this.runMethod = method;
    this.draw();
  }

  get method() {
    return this.defaults && this.changes.method in this.defaults ? this.changes.method : this.runMethod;
  }

  get value() {
    return this.valueFor(this.method);
  }

  /** The `decoding` of a request: all options of the method, and others if they were changed. */
  valueFor(method) {
    if (!this.defaults || !method) return {};
    const changed = this.changes.values[method] ?? {};
    const value = { method };
    for (const option of this.options) {
      if (option.name in changed) value[option.name] = changed[option.name];
      else if (option.methods.includes(method)) value[option.name] = this.defaults[method]?.[option.name];
    }
    // the default number of replies must not exceed a narrow beam
    if (value.n_best && value.beam_width && !("n_best" in changed)) value.n_best = Math.min(value.n_best, value.beam_width);
    return value;
  }

  /** Use these settings, as in a request, with the next run; they are kept only if the user changes them. */
  use({ method, ...values }) {
    this.changes.method = method;
    this.changes.values[method] = values;
  }

  draw() {
    const methods = Object.keys(this.defaults ?? {});
    const methodField = element("fieldset", { class: "methods" }, element("legend", {}, "Method"), methods.map((method) => {
      const input = element("input", { type: "radio", class: "btn-check", name: "method", id: `method-${method}`, value: method });
      input.checked = method === this.method;
      input.addEventListener("change", () => {
        this.changes.method = method;
        this.draw();
        byId(`method-${method}`).focus();
        this.save();
      });
      return [input, element("label", { class: "btn btn-soft", for: `method-${method}` }, methodTitle(method))];
    }));
    const offered = this.options.filter((option) => !option.methods.length || option.methods.includes(this.method));
    const methodOptions = offered.filter(({ name }) => BASIC.includes(name));
    const generalOptions = offered.filter(({ name }) => !BASIC.includes(name));
    const folded = element("details", { class: "more" }, element("summary", {}, "More options"), generalOptions.map((option) => this.field(option)));
    folded.open = this.moreOpen ?? false;
    folded.addEventListener("toggle", () => { this.moreOpen = folded.open; });
    const reset = element("button", { type: "button", class: "btn btn-sm btn-soft mt-3" }, "Reset to the run's configuration");
    reset.addEventListener("click", () => {
      this.changes = { method: null, values: {} };
      this.draw();
      this.save();
    });
    this.form.replaceChildren(...[methodField, ...methodOptions.map((option) => this.field(option)), generalOptions.length ? folded : null, reset].filter(Boolean));
    this.button.textContent = decodingLabel(this.value);
  }

  save() {
    saveState("decoding", this.changes);
    this.button.textContent = decodingLabel(this.value);
  }

  set(option, value) {
    const values = (this.changes.values[this.method] ??= {});
    if (value === undefined) delete values[option.name];
    else values[option.name] = value;
    this.save();
  }

  title(option) {
    return option.name === "n_best" ? `${capitalize(this.labels.outputs)} shown` : title(option.name);
  }

  /** The description of an option in the words of the task. */
  description(option) {
    return option.description.replaceAll(/\breplies\b/g, this.labels.outputs).replaceAll(/\breply\b/g, this.labels.output);
  }

  field(option) {
    const id = `option-${option.name}`;
    const initial = this.defaults[this.method]?.[option.name] ?? option.default;
    const value = this.changes.values[this.method]?.[option.name] ?? initial;
    const help = element("p", { class: "help", id: `${id}-help` }, this.description(option));
    const common = { id, name: option.name, "aria-describedby": `${id}-help` };
    const label = element("label", { for: id }, this.title(option));
    if (option.kind === "boolean") {
      const input = element("input", { ...common, type: "checkbox", class: "form-check-input", role: "switch" });
      input.checked = value === true;
      input.addEventListener("change", () => this.set(option, input.checked));
      return element("div", { class: "option form-check form-switch" }, input, label, help);
    }
    if (option.kind === "choice") {
      const input = element("select", { ...common, class: "form-select form-select-sm" },
        [...(option.optional ? [null] : []), ...option.choices].map((choice) => new Option(choice === null ? "Automatic" : title(String(choice)), JSON.stringify(choice))));
      input.value = JSON.stringify(value);
      input.addEventListener("change", () => this.set(option, JSON.parse(input.value)));
      return element("div", { class: "option" }, label, input, help);
    }
    const numeric = option.kind !== "string";
    const input = element("input", {
      ...common, class: "form-control form-control-sm", type: numeric ? "number" : "text", inputmode: numeric ? "decimal" : null,
      step: option.kind === "integer" ? 1 : "any", min: option.minimum ?? option.above, max: option.maximum ?? option.below,
      placeholder: option.optional ? "off" : null, required: !option.optional,
    });
    input.value = value ?? "";
    const error = element("p", { class: "field-error", role: "alert" });
    input.addEventListener("input", () => {
      const empty = input.value.trim() === "";
      const above = option.above === null || empty || Number(input.value) > option.above;
      const below = option.below === null || empty || Number(input.value) < option.below;
      const valid = input.validity.valid && above && below;
      error.textContent = valid ? "" : this.expected(option);
      input.setAttribute("aria-invalid", String(!valid));
      if (valid) this.set(option, empty ? null : numeric ? Number(input.value) : input.value);
    });
    return element("div", { class: "option" }, label, input, help, error);
  }

  expected(option) {
    const kind = option.kind === "integer" ? "A whole number" : "A number";
    const low = option.minimum ?? option.above;
    const high = option.maximum ?? option.below;
    const from = low === null ? "" : option.minimum === null ? ` above ${low}` : ` from ${low}`;
    const to = high === null ? "" : option.maximum === null ? `below ${high}` : option.minimum === null ? `up to ${high}` : `to ${high}`;
    return `${[kind + from, to].filter(Boolean).join(from && to && (option.minimum === null || option.maximum === null) ? " and " : " ")}. The last valid value is used until then.`;
  }
}
