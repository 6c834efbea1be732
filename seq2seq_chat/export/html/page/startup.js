// Not a module, because it must run before anything else: tells that the file is damaged if a part of it fails.
(() => {
  "use strict";
  const DAMAGED = "This page failed. Copy the file again, or open it in a current browser.";
  let failed = false;
  /** Show a message above the page, or hide it if it is empty; a failure remains. */
  const show = (message) => {
    const note = document.getElementById("startup") ?? document.createElement("p");
    const text = failed ? DAMAGED : message;
    Object.assign(note, { id: "startup", hidden: !text, textContent: text });
    if (!note.isConnected) document.body.prepend(note); // a damaged tag may swallow all that follows it
  };
  const fail = (event) => {
    if (event.message?.startsWith("ResizeObserver loop")) return; // browsers report it, but it does no harm
    failed = true;
    if (document.body) show();
  };
  for (const event of ["error", "unhandledrejection"]) addEventListener(event, fail);
  addEventListener("DOMContentLoaded", () => {
    failed ||= !document.getElementById("startup");
    if (failed) show();
  });
  globalThis.showStartup = show;
})();
