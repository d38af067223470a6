// The stream of events from the server. It reconnects by itself, and reports how it stands.

const SILENT_AFTER_MS = 6_000;
const RETRY_MS = [500, 1_000, 2_000, 3_000];

/**
 * @param {Object<string, (data: any) => void>} takers by name of the event; "tick" may return false to begin anew
 * @param {(state: "live"|"connecting"|"silent"|"away") => void} report
 */
export function connect(takers, report) {
  let source = null;
  let heardAt = performance.now();
  let attempt = 0;
  let isLive = false;
  let timer = 0;

  function open() {
    clearTimeout(timer);
    source?.close();
    source = new EventSource("live");
    for (const [name, take] of Object.entries(takers)) {
      source.addEventListener(name, (event) => {
        heardAt = performance.now();
        attempt = 0;
        isLive = true;
        report("live");
        if (take(JSON.parse(event.data)) === false) open();
      });
    }
    // The browser's own retry gives up on some errors; this one never does.
    source.addEventListener("error", () => {
      source.close();
      // A stream that ends is opened again at once; only a server that does not answer then is away.
      if (isLive) {
        isLive = false;
        open();
        return;
      }
      report("away");
      timer = setTimeout(open, RETRY_MS[Math.min(attempt++, RETRY_MS.length - 1)]);
    });
  }

  setInterval(() => {
    if (performance.now() - heardAt > SILENT_AFTER_MS && source?.readyState === EventSource.OPEN) {
      report("silent");
      heardAt = performance.now();
      open();
    }
  }, 1_000);
  report("connecting");
  open();
}
