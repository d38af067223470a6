// A browser that runs with LANG=C calls its language "en-US@posix", which its own Intl refuses; uPlot asks for it.
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en" });
}
