// The page of one pattern.

import { alerts } from "./alerts.js";
import { bars, lines } from "../charts/charts.js";
import { openAlert, refreshAlert } from "./detail.js";
import { h, panel, prose, setText } from "../charts/dom.js";
import { flow } from "./flow.js";
import { clock, count, span } from "../charts/format.js";
import { map } from "./map.js";
import { figures, health, latencies, letters, numbers } from "./parts.js";
import { stateOf } from "./state.js";
import { SERIES } from "./store.js";
import { strip } from "./strip.js";

/** @returns {{element: HTMLElement, show: (store: any) => void}} */
export function patternPage(facts) {
  const word = h("span.word");
  const text = h("span");
  const remedy = h("code");
  const state = h("p.state", { role: "status" }, word, text, remedy);
  const about = h(
    "details",
    {},
    h("summary", {}, "what it is, and its rules"),
    h("p", {}, ...prose(facts.doc)),
    h(
      "dl.pairs",
      {},
      ...facts.rules.flatMap((rule) => [
        h("dt", {}, rule.name),
        h("dd", {}, rule.sentence, h("small", {}, ...prose(rule.doc))),
      ]),
    ),
  );
  const title = h(
    "header.title",
    {},
    h("h1", {}, facts.name),
    h("p", {}, facts.title),
    state,
    about,
  );
  const body = h("div.parts");
  const shown = [];
  const put = (element, part) => {
    body.append(element);
    shown.push(part);
  };

  const top = h("div.row.four");
  put(top, of(figures(top)));
  const graph = h("div.graph");
  const flows = flow(graph, facts);
  const hint = h("span");
  const middle = h("div.row.wide-left", {}, panel("Flow", hint, graph));
  const side = h("div.stack");
  const places = { health: h("div"), latencies: h("div") };
  side.append(panel("Health", "", places.health), panel("Latency", "of the last minute", places.latencies));
  const well = health(places.health);
  middle.append(side);
  put(middle, (store) => {
    flows.show(store.boards[facts.name], store.around.patterns[facts.name]);
    setText(hint, `messages a second${graph.querySelector("a[href]") ? "; a stage opens its engine's page" : ""}`);
    well.show(store.around.patterns[facts.name], store.nowMs, store.boards[facts.name]?.unreadable);
  });
  shown.push(of(latencies(places.latencies, facts)));

  const list = h("div.listed");
  const unruled = h("span");
  const lower = h("div.row.wide-left", {}, panel("Alerts", unruled, list));
  shown.push(of(alerts(list, facts, (id, place) => openAlert(facts, id, place))), refreshAlert);
  shown.push(
    of({
      show({ by_rule }) {
        const others = Object.entries(by_rule).filter(([name]) => !facts.rules.some((rule) => rule.name === name));
        const sentences = ["newest first", "choose one to see why", ...others.map(([name, n]) => `${name}: ${count(n)}`)];
        setText(unruled, sentences.join("; "));
      },
    }),
  );
  const right = h("div.stack");
  if (facts.figures.length) {
    const row = h("div.row.numbers");
    shown.push(of(numbers(row, facts)));
    right.append(row);
  }
  const rates = h("div");
  const chart = lines(rates, SERIES, "Rates");
  shown.push(
    of({
      show: ({ series }) =>
        chart.show([series.in.map((_, n) => series.from_s + n), ...SERIES.map((name) => series[name])]),
    }),
  );
  if (facts.map) {
    const place = h("div");
    const drawn = map(place, facts.map);
    shown.push((store) => store.boards[facts.name] && drawn.show(store.boards[facts.name], store.nowMs));
    right.append(panel(facts.map.title, "of the last minute", place));
  }
  right.append(panel("Rates", "a second, over the last five minutes", rates));
  lower.append(right);
  body.append(lower);

  const charts = h("div.row.charts");
  facts.charts.forEach((each, n) => {
    const place = h("div");
    const empty = h("p.empty", {}, `No event is in a window of ${span(each.window_ms)} yet.`);
    const open = h("p.note");
    const drawn = each.form === "strip" ? strip(place, each) : bars(place, each);
    charts.append(panel(each.title, `windows of ${span(each.window_ms)}`, place, open, empty));
    let last = null;
    shown.push(
      of({
        show(board) {
          const found = board.charts[n];
          if (!found || found === last) return;
          last = found;
          empty.hidden = found.starts.length > 0;
          place.hidden = found.starts.length === 0;
          setText(
            open,
            found.open_ms === null ? "" : `Windows from ${clock(found.open_ms)} on are open: they still grow.`,
          );
          if (found.starts.length) drawn.show(found);
        },
      }),
    );
  });
  const refused = h("div.letters");
  (facts.map ? charts : right).append(panel("Dead letters", "by reason; choose one for its messages", refused));
  shown.push(of(letters(refused)));
  body.append(charts);

  function of(part) {
    return (store) => store.boards[facts.name] && part.show(store.boards[facts.name]);
  }

  let isBegun = false;
  return {
    element: h("article", {}, title, body),
    show(store) {
      about.open = isBegun ? about.open : !store.boards[facts.name];
      isBegun = true;
      const found = stateOf(facts.name, store);
      state.className = `state ${found.level}`;
      setText(word, found.word);
      setText(text, found.text);
      setText(remedy, found.remedy ?? "");
      body.hidden = !store.boards[facts.name];
      if (!store.around.patterns[facts.name]) return;
      for (const show of shown) show(store);
    },
  };
}
