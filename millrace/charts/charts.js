// Charts by uPlot: lines of the last minutes, bars of windows, and the tails of latencies.

import uPlot from "../assets/uPlot.js";
import { asTable, h, setText } from "./dom.js";
import { clock, onAxis, rate, span, withUnit } from "./format.js";
import { colour, colourOf, onTheme } from "./theme.js";

const LATEST_SECONDS = 30;
const LATEST_WINDOWS = 12;

/** Keeps a chart as wide as its place, and draws it anew in the colours of another theme. */
function placed(place, make) {
  let chart = null;
  let data = null;
  const remake = () => {
    chart?.destroy();
    chart = data && place.clientWidth ? make(place.clientWidth, data) : null;
    if (chart) place.append(chart.root);
  };
  new ResizeObserver(() => {
    if (!chart) remake();
    else if (Math.abs(chart.width - place.clientWidth) > 1)
      chart.setSize({ width: place.clientWidth, height: chart.height });
  }).observe(place);
  onTheme(remake);
  return {
    show(next, isAnew) {
      data = next;
      if (!chart || isAnew) remake();
      else chart.setData(next);
    },
  };
}

/** One line of the last minutes, without axes. */
export function sparkline(place, name) {
  const make = (width, data) =>
    new uPlot(
      {
        width,
        height: 44,
        cursor: { show: false },
        legend: { show: false },
        axes: [{ show: false }, { show: false }],
        padding: [2, 0, 2, 0],
        scales: { x: { time: false }, y: { range: (_, __, max) => [0, Math.max(max, 1)] } },
        series: [{}, { stroke: colour(name), fill: `${colour(name)}22`, width: 1.5, points: { show: false } }],
      },
      data,
    );
  return placed(place, make);
}

/** All rates of the last minutes on one axis. */
export function lines(place, names, title) {
  const legend = h("ul.legend");
  const figures = names.map((name) => h("b"));
  legend.append(...names.map((name, n) => h("li", {}, h(`i.line-${name}`), name, " ", figures[n])));
  const canvas = h("div.plot", { role: "img", "aria-label": title });
  place.append(legend, canvas);
  const table = asTable(place, title);
  const make = (width, data) =>
    new uPlot(
      {
        width,
        height: 220,
        legend: { show: false },
        cursor: { y: false, points: { size: 7 } },
        hooks: {
          setCursor: [
            (u) =>
              names.forEach((_, n) =>
                setText(
                  figures[n],
                  u.cursor.idx === null || u.cursor.idx === undefined ? "" : `${rate(u.data[n + 1][u.cursor.idx])}/s`,
                ),
              ),
          ],
        },
        axes: [timeAxis(), valueAxis("")],
        scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.05, 1)] } },
        series: [{}, ...names.map((name) => ({ stroke: colour(name), width: 1.6, points: { show: false } }))],
      },
      data,
    );
  const chart = placed(canvas, make);
  return {
    show(data) {
      chart.show(data);
      table.show(() => [
        ["second", ...names],
        ...data[0]
          .map((second, at) => [clock(second * 1_000), ...names.map((_, n) => `${rate(data[n + 1][at])}/s`)])
          .slice(-LATEST_SECONDS)
          .reverse(),
      ]);
    },
  };
}

/** The latest windows of each group, as rows of a table. */
export function windowRows(found, facts) {
  const shown = found.starts.map((_, at) => at).slice(-LATEST_WINDOWS).reverse();
  return [
    [facts.by || "windows", ...shown.map((at) => `from ${clock(found.starts[at])}`)],
    ...found.groups.map((group, n) => [group, ...shown.map((at) => withUnit(found.values[n][at] ?? null, facts.unit))]),
  ];
}

/** Bars of windows, one on the other where the values add up, else lines. */
export function bars(place, facts) {
  const legend = h("ul.legend");
  const canvas = h("div.plot", { role: "img", "aria-label": facts.title });
  const note = h("p.note.pointed");
  place.append(legend, canvas, note);
  const table = asTable(place, facts.title);
  let names = [];
  let figures = [];
  let values = [];
  const make = (width, data) => {
    // The tallest first: the lower ones are drawn over it.
    const order = facts.is_additive ? names.map((_, n) => names.length - 1 - n) : names.map((_, n) => n);
    const stepS = facts.window_ms / 1_000;
    return new uPlot(
      {
        width,
        height: 230,
        legend: { show: false },
        cursor: { y: false, points: { show: false } },
        hooks: {
          setCursor: [
            (u) => {
              const at = u.cursor.idx ?? values[0]?.length - 1;
              figures.forEach((figure, n) => setText(figure, withUnit(values[n]?.[at] ?? null, facts.unit)));
              setText(
                note,
                u.cursor.idx === null || u.cursor.idx === undefined
                  ? ""
                  : `window from ${clock(u.data[0][u.cursor.idx] * 1_000)}`,
              );
            },
          ],
        },
        axes: [timeAxis(), valueAxis(facts.unit)],
        scales: {
          // From the data: for a single window uPlot offers the span of a day.
          x: { range: (u) => around(u.data[0], stepS) },
          y: { range: (_, __, max) => [0, Math.max(max * 1.05, 1)] },
        },
        series: [
          {},
          ...order.map((n) =>
            facts.is_additive
              ? {
                  fill: colourOf(n),
                  stroke: colour("surface"),
                  width: 1,
                  paths: uPlot.paths.bars({ size: [0.8, 56], align: 0 }),
                  points: { show: false },
                }
              : { stroke: colourOf(n), width: 2, points: { size: 6 } },
          ),
        ],
      },
      data,
    );
  };
  const chart = placed(canvas, make);
  return {
    show(found) {
      const isAnew = found.groups.join("\n") !== names.join("\n");
      names = found.groups;
      values = found.values;
      if (isAnew) {
        figures = names.map(() => h("b"));
        legend.replaceChildren(...names.map((name, n) => h("li", {}, h(`i.group-${n % 8}`), name, " ", figures[n])));
      }
      figures.forEach((figure, n) => setText(figure, withUnit(values[n][values[n].length - 1] ?? null, facts.unit)));
      const tops = [];
      values.forEach((own, n) => tops.push(own.map((value, at) => (value ?? 0) + (tops[n - 1]?.[at] ?? 0))));
      const drawn = facts.is_additive ? tops.reverse() : values;
      chart.show([found.starts.map((ms) => ms / 1_000), ...drawn], isAnew);
      table.show(() => windowRows(found, facts));
    },
  };
}

/** Latencies by percentile: each nine takes as much room as the one before it, so the slowest are seen. */
export function tails(place, { names, nines, values, promised_ms }) {
  const legend = h("ul.legend", {}, ...names.map((name, n) => h("li", {}, h(`i.group-${n % 8}`), name)));
  const canvas = h("div.plot", { role: "img", "aria-label": "latency by share of messages" });
  place.append(legend, canvas);
  const drawn = values.map((own, n) => ({ stroke: colourOf(n), width: 2, points: { show: false } }));
  const data = [nines, ...values];
  if (promised_ms) {
    legend.append(h("li", {}, `dashed: the p99 that is promised, ${span(promised_ms)}`));
    data.push(nines.map((own) => (own <= 2 ? promised_ms : null)));
  }
  const make = (width, found) =>
    new uPlot(
      {
        width,
        height: 300,
        legend: { show: false },
        cursor: { show: false },
        axes: [
          {
            ...axis(),
            splits: (u) => SHARES.map(([own]) => own).filter((own) => own <= u.scales.x.max),
            values: (_, splits) => splits.map((own) => SHARES.find(([each]) => each === own)[1]),
          },
          { ...axis(), size: 70, grid: { stroke: colour("line"), width: 1 }, values: (_, all) => all.map(tick) },
        ],
        scales: { x: { time: false }, y: { distr: 3 } },
        series: [{}, ...drawn, ...(promised_ms ? [{ stroke: colour("ink"), width: 1, dash: [5, 5], points: { show: false } }] : [])],
      },
      found,
    );
  placed(canvas, make).show(data);
}

/** A share of messages by its nines: a hundredth is slower than 99 %, which is two. */
const SHARES = [[0, "0 %"], [Math.log10(2), "50 %"], [1, "90 %"], [2, "99 %"], [3, "99.9 %"], [4, "99.99 %"], [5, "99.999 %"]];

/** On a logarithmic axis uPlot names no tick for which there is no room. */
const tick = (ms) => (ms === null ? "" : span(ms));

/** The span that all windows are in, of a dozen at least. */
function around(starts, stepS) {
  const [first, last] = [starts[0] ?? 0, starts[starts.length - 1] ?? 0];
  return [Math.min(first, last - 12 * stepS) - stepS / 2, last + stepS / 2];
}

function axis() {
  return { stroke: colour("muted"), grid: { show: false }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
}

function timeAxis() {
  return {
    ...axis(),
    size: 30,
    values: (_, seconds) => seconds.map((each) => clock(each * 1_000).replace(/:00$/, "")),
  };
}

function valueAxis(unit) {
  return {
    ...axis(),
    grid: { stroke: colour("line"), width: 1 },
    size: 54,
    values: (_, values) => values.map((each) => onAxis(each, unit)),
  };
}
