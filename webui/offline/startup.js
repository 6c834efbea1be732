// Not a module, because it must run before anything else: tells that the file is damaged if a part of it fails.
(() => {
  "use strict";
  const DAMAGED = "This page failed. Copy the file again, or open it in a current browser.";
  let failed = false;
  const show = (event) => {
    if (event.message?.startsWith("ResizeObserver loop")) return; // browsers report it, but it does no harm
    failed = true;
    const note = document.getElementById("startup");
    if (note) Object.assign(note, { hidden: false, textContent: DAMAGED });
  };
  for (const event of ["error", "unhandledrejection"]) addEventListener(event, show);
  addEventListener("DOMContentLoaded", () => { if (failed) show({}); });
})();
