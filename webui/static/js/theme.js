// Light or dark, before anything is painted: what was chosen here, or else what the system asks for. No module: those
// run too late.
(() => {
  "use strict";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage may be forbidden
    }
  };
  const apply = () => {
    const dark = chosen() ? chosen() === "dark" : system.matches;
    document.documentElement.dataset.bsTheme = dark ? "dark" : "light";
    document.getElementById("theme")?.setAttribute("aria-pressed", String(dark));
  };
  apply();
  system.addEventListener("change", apply);
  addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      const dark = document.documentElement.dataset.bsTheme !== "dark";
      try {
        localStorage.setItem("theme", dark ? "dark" : "light");
      } catch {
        document.documentElement.dataset.bsTheme = dark ? "dark" : "light";
        return;
      }
      apply();
    });
  });
})();
