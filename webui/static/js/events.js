// Server-sent events over fetch, because EventSource cannot send the token.
import { ApiError, fetchParts } from "./api.js";

/** Yield the data of the events of a stream, as objects. Throws ApiError, or AbortError through `signal`. */
export async function* fetchEvents(path, signal) {
  for await (const event of fetchParts(path, signal, "\n\n")) {
    const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
    if (data.length) yield JSON.parse(data.join("\n"));
  }
}

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
      for await (const { runs, removed } of fetchEvents("/api/events", signal)) {
        onRuns(runs, removed, isFirst);
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
