// The changes of runs, as they happen.
import { ApiError, fetchEvents } from "./api.js";

/**
 * Call `onRuns(runs, removed, isFirst)` with all runs, and then with those that have changed, while the page is visible.
 * After an error, which is passed to `onError`, try again in a few seconds.
 */
export function followRuns(onRuns, onError) {
  let controller = null;
  const follow = async () => {
    controller = new AbortController();
    const { signal } = controller;
    try {
      let isFirst = true;
      for await (const { data } of fetchEvents("/api/events", signal)) {
        onRuns(data.runs, data.removed, isFirst);
        isFirst = false;
      }
      throw new ApiError("The server has ended the connection.", 0);
    } catch (error) {
      if (signal.aborted) return;
      onError(error);
      setTimeout(() => { if (!signal.aborted) follow(); }, 3000);
    }
  };
  document.addEventListener("visibilitychange", () => {
    controller?.abort();
    if (document.visibilityState === "visible") follow();
  });
  follow();
}
