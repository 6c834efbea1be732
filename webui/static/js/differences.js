// The settings in which runs differ, and their results, as a table with a column for each run.
import { address, element, formatNumber } from "./dom.js";
import { shortName } from "./run_picker.js";

function valueText(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return formatNumber(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

function row([key, values]) {
  return element("tr", {}, element("th", { scope: "row" }, key), values.map((value) => element("td", { dir: "auto" }, valueText(value))));
}

/** `comparison` is that of `GET /api/comparison`; `colors` are the colors of the runs in a chart. */
export function differencesTable({ runs, settings, figures }, colors) {
  const heads = runs.map((name) => {
    const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.setProperty("--color", colors.get(name) ?? "transparent");
    return element("th", { scope: "col", title: name }, swatch, element("a", { href: address(`/runs/${encodeURIComponent(name)}`), dir: "auto" }, shortName(name)));
  });
  const same = element("tr", {}, element("td", { colspan: runs.length + 1, class: "muted" }, runs.length > 1 ? "No setting differs." : "Select another run to see the settings that differ."));
  const settingRows = Object.entries(settings).map(row);
  const group = (title) => element("tr", {}, element("th", { scope: "colgroup", colspan: runs.length + 1 }, title));
  return element("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Settings that differ, and results" },
    element("table", { class: "table table-sm differences" },
      element("thead", {}, element("tr", {}, element("td"), heads)),
      element("tbody", {}, group("Settings that differ"), settingRows.length ? settingRows : same),
      element("tbody", {}, group("Results"), Object.entries(figures).map(row))));
}
