// How a reply is searched: a form made from what the server says there is to set.
import { byId, element, keep, kept } from "./dom.js";

const NAMES = { n_best: "Replies shown", beam_width: "Beam width", top_k: "Top k", top_p: "Top p", allow_unknown: "Allow <unknown>" };
const METHODS = { greedy: "Greedy", beam: "Beam search", sample: "Sampling" };

const title = (name) => NAMES[name] ?? name.replaceAll("_", " ").replace(/^./, (letter) => letter.toUpperCase());
const methodTitle = (method) => METHODS[method] ?? title(method);

/** Method first, then what matters for it, the rest folded. Choices are kept for each method, from run to run. */
export class DecodingForm {
  constructor(onChange) {
    this.form = byId("decoding-form");
    this.button = byId("how");
    this.onChange = onChange;
    this.chosen = kept("decoding") ?? { method: null, values: {} };
    this.form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** What a run offers: `decoding` of GET /api/runs/<name>. */
  offer({ options, defaults, method }) {
    this.options = options.filter((option) => option.name !== "method");
    this.defaults = defaults;
    this.runMethod = method;
    this.draw();
  }

  get method() {
    return this.chosen.method in this.defaults ? this.chosen.method : this.runMethod;
  }

  /** What to send as `decoding`: everything that matters for the method, and whatever else was changed. */
  get value() {
    if (!this.defaults || !this.method) return {};
    const changed = this.chosen.values[this.method] ?? {};
    const sent = { method: this.method };
    for (const option of this.options) {
      if (option.name in changed) sent[option.name] = changed[option.name];
      else if (option.methods.includes(this.method)) sent[option.name] = this.defaults[this.method]?.[option.name];
    }
    // the number of hypotheses that a page shows unless told otherwise must not stand in the way of a narrow beam
    if (sent.n_best && sent.beam_width && !("n_best" in changed)) sent.n_best = Math.min(sent.n_best, sent.beam_width);
    return sent;
  }

  get summary() {
    const { method, ...rest } = this.value;
    if (!method) return "–";
    const parts = [methodTitle(method)];
    if (method === "beam" && rest.beam_width) parts.push(String(rest.beam_width));
    if (rest.temperature !== undefined && rest.temperature !== null) parts.push(`at ${rest.temperature}`);
    return parts.join(" ");
  }

  draw() {
    const methods = Object.keys(this.defaults ?? {});
    const chooser = element("fieldset", { class: "methods" }, element("legend", {}, "Method"), methods.map((method) => {
      const input = element("input", { type: "radio", class: "btn-check", name: "method", id: `method-${method}`, value: method });
      input.checked = method === this.method;
      input.addEventListener("change", () => {
        this.chosen.method = method;
        this.draw();
        byId(`method-${method}`).focus();
        this.changed();
      });
      return [input, element("label", { class: "btn btn-soft", for: `method-${method}` }, methodTitle(method))];
    }));
    const mine = this.options.filter((option) => option.methods.includes(this.method));
    const rest = this.options.filter((option) => !option.methods.length);
    const folded = element("details", { class: "more" }, element("summary", {}, "More options"), rest.map((option) => this.field(option)));
    folded.open = this.moreOpen ?? false;
    folded.addEventListener("toggle", () => { this.moreOpen = folded.open; });
    const reset = element("button", { type: "button", class: "btn btn-sm btn-soft mt-3" }, "As in the run's configuration");
    reset.addEventListener("click", () => {
      this.chosen = { method: null, values: {} };
      this.draw();
      this.changed();
    });
    this.form.replaceChildren(...[chooser, ...mine.map((option) => this.field(option)), rest.length ? folded : null, reset].filter(Boolean));
    this.button.textContent = this.summary;
  }

  changed() {
    keep("decoding", this.chosen);
    this.button.textContent = this.summary;
    this.onChange();
  }

  set(option, value) {
    const values = (this.chosen.values[this.method] ??= {});
    if (value === undefined) delete values[option.name];
    else values[option.name] = value;
    this.changed();
  }

  field(option) {
    const id = `option-${option.name}`;
    const initial = this.defaults[this.method]?.[option.name] ?? option.default;
    const value = this.chosen.values[this.method]?.[option.name] ?? initial;
    const help = element("p", { class: "help", id: `${id}-help` }, option.description);
    const common = { id, name: option.name, "aria-describedby": `${id}-help` };
    const label = element("label", { for: id }, title(option.name));
    if (option.kind === "boolean") {
      const input = element("input", { ...common, type: "checkbox", class: "form-check-input", role: "switch" });
      input.checked = value === true;
      input.addEventListener("change", () => this.set(option, input.checked));
      return element("div", { class: "option form-check form-switch" }, input, label, help);
    }
    if (option.kind === "choice") {
      const input = element("select", { ...common, class: "form-select form-select-sm" },
        [...(option.optional ? [null] : []), ...option.choices].map((choice) => new Option(choice === null ? "–" : title(String(choice)), JSON.stringify(choice))));
      input.value = JSON.stringify(value);
      input.addEventListener("change", () => this.set(option, JSON.parse(input.value)));
      return element("div", { class: "option" }, label, input, help);
    }
    const numeric = option.kind !== "string";
    const input = element("input", {
      ...common, class: "form-control form-control-sm", type: numeric ? "number" : "text", inputmode: numeric ? "decimal" : null,
      step: option.kind === "integer" ? 1 : "any", min: option.minimum ?? option.above, max: option.maximum ?? option.below,
      placeholder: option.optional ? "not used" : null, required: !option.optional,
    });
    input.value = value ?? "";
    const wrong = element("p", { class: "wrong", role: "alert" });
    input.addEventListener("input", () => {
      const empty = input.value.trim() === "";
      const above = option.above === null || empty || Number(input.value) > option.above;
      const below = option.below === null || empty || Number(input.value) < option.below;
      const fine = input.validity.valid && above && below;
      wrong.textContent = fine ? "" : this.range(option);
      input.toggleAttribute("aria-invalid", !fine);
      if (fine) this.set(option, empty ? null : numeric ? Number(input.value) : input.value);
    });
    return element("div", { class: "option" }, label, input, help, wrong);
  }

  range(option) {
    const kind = option.kind === "integer" ? "A whole number" : "A number";
    const low = option.minimum ?? option.above;
    const high = option.maximum ?? option.below;
    const from = low === null ? "" : option.minimum === null ? ` above ${low}` : ` from ${low}`;
    const to = high === null ? "" : option.maximum === null ? ` below ${high}` : ` to ${high}`;
    return `${kind}${from}${to}. Until then the last good value is used.`;
  }
}
