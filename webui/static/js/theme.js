// Light or dark mode: the user's choice or, by default, the system's. Not a module, because it must run before the first paint.
(() => {
  "use strict";
  const systemTheme = matchMedia("(prefers-color-scheme: dark)");
  const storedTheme = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage is disabled
    }
  };
  const apply = () => {
    const dark = storedTheme() ? storedTheme() === "dark" : systemTheme.matches;
    document.documentElement.dataset.bsTheme = dark ? "dark" : "light";
    document.getElementById("theme")?.setAttribute("aria-pressed", String(dark));
  };
  apply();
  systemTheme.addEventListener("change", apply);
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
