// All patterns side by side.

import { sparkline } from "../charts/charts.js";
import { h, panel, setText } from "../charts/dom.js";
import { count, rate, span } from "../charts/format.js";
import { stateOf } from "./state.js";
import { SERIES } from "./store.js";

/** A table for each tape: a column for each pattern, a row for each figure. */
function comparisons(found) {
  if (!found.length)
    return [
      h(
        "p.empty",
        {},
        "No two patterns were sent the same traffic yet: ",
        h("code", {}, "millrace traffic PATTERN --name TAPE"),
        ", for each of them.",
      ),
    ];
  return found.map(({ tape, patterns }) => {
    const row = (title, value) =>
      h("tr", {}, h("th", { scope: "row" }, title), ...patterns.map((each) => h("td", {}, value(each) ?? "–")));
    const names = (of) => [...new Set(patterns.flatMap(of))];
    const latency = (each, name) => each.verdict?.latencies?.find((one) => one.name === name);
    const both = (one) => one && `${span(one.p50_ms)} / ${span(one.p99_ms)}`;
    return h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, tape),
          ...patterns.map(({ name }) => h("th", { scope: "col" }, h("a", { href: `#/${name}` }, name))),
        ),
      ),
      h(
        "tbody",
        {},
        row("verdict", (each) => each.verdict?.status),
        row("events", (each) => count(each.events)),
        ...names((each) => Object.keys(each.cpu_s)).map((part) =>
          row(`processor time of ${part}`, (each) => (part in each.cpu_s ? span(1_000 * each.cpu_s[part]) : null)),
        ),
        ...names((each) => (each.verdict?.latencies ?? []).map((one) => one.name)).map((name) =>
          row(`${name}, p50 / p99`, (each) => both(latency(each, name))),
        ),
      ),
    );
  });
}

/** @returns {{element: HTMLElement, show: (store: any) => void}} */
export function overview(patterns) {
  const grid = h("div.row.patterns");
  const panels = patterns.map((facts) => {
    const word = h("span.word");
    const text = h("span");
    const remedy = h("code");
    const state = h("p.state", {}, word, text, remedy);
    const body = h("div.brief");
    const rows = SERIES.map((name) => {
      const now = h("strong");
      const total = h("span");
      const plot = h("div.spark", { "aria-hidden": "true" });
      body.append(h(`div.${name}`, {}, h("h3", {}, name), h("p", {}, now, h("small", {}, "/s"), total), plot));
      return { name, now, total, chart: sparkline(plot, name) };
    });
    const latency = h("p.note");
    grid.append(
      h(
        "section.panel",
        { "aria-label": facts.name },
        h("h2", {}, h("a", { href: `#/${facts.name}` }, facts.name), h("small", {}, facts.title)),
        state,
        body,
        latency,
      ),
    );
    return { facts, word, text, remedy, state, body, rows, latency };
  });
  const compared = h("div.scroll", { tabindex: 0 });
  let drawn = "";
  return {
    element: h(
      "article",
      {},
      h("header.title", {}, h("h1", {}, "Patterns"), h("p", {}, "What runs now, side by side.")),
      h(
        "div.parts",
        {},
        grid,
        panel("Compared", "patterns that were sent the same traffic, with their verdicts", compared),
      ),
    ),
    show(store) {
      const found = JSON.stringify(store.around.comparisons ?? []);
      if (drawn !== found) {
        drawn = found;
        compared.replaceChildren(...comparisons(store.around.comparisons ?? []));
      }
      for (const { facts, word, text, remedy, state, body, rows, latency } of panels) {
        const found = stateOf(facts.name, store);
        const board = store.boards[facts.name];
        state.className = `state ${found.level}`;
        setText(word, found.word);
        setText(text, found.text);
        setText(remedy, found.remedy ?? "");
        body.hidden = !board;
        latency.hidden = !board;
        if (!board) continue;
        for (const { name, now, total, chart } of rows) {
          setText(now, rate(board.rates[name]));
          setText(total, count(board.totals[name] ?? 0));
          chart.show([board.series[name].map((_, n) => board.series.from_s + n), board.series[name]]);
        }
        const alerts =
          board.latencies.find((each) => each.name === "alerts") ??
          board.latencies.find((each) => each.name === "window alerts");
        setText(
          latency,
          alerts
            ? `alerts ${alerts.from}: p50 ${span(alerts.p50_ms)}, p99 ${span(alerts.p99_ms)}` +
                (alerts.name === "alerts" ? `; promised p99 ${span(facts.promised_ms)}` : "")
            : "",
        );
      }
    },
  };
}
