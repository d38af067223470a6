// Charts by uPlot: lines of the last minutes, and bars of windows.

import uPlot from "/assets/uPlot.js";
import { h, setText } from "./dom.js";
import { clock, onAxis, rate, withUnit } from "./format.js";
import { colour, colourOf, onTheme } from "./theme.js";

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
export function lines(place, names) {
  const legend = h("ul.legend");
  const figures = names.map((name) => h("b"));
  legend.append(...names.map((name, n) => h("li", {}, h(`i.line-${name}`), name, " ", figures[n])));
  const canvas = h("div.plot");
  place.append(legend, canvas);
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
  return placed(canvas, make);
}

/** Bars of windows, one on the other where the values add up, else lines. */
export function bars(place, facts) {
  const legend = h("ul.legend");
  const canvas = h("div.plot", { role: "img", "aria-label": facts.title });
  const note = h("p.note");
  place.append(legend, canvas, note);
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
    },
  };
}

/** The span that all windows are in, of a dozen at least. */
function around(starts, stepS) {
  const [first, last] = [starts[0] ?? 0, starts[starts.length - 1] ?? 0];
  return [Math.min(first, last - 12 * stepS) - stepS / 2, last + stepS / 2];
}

function timeAxis() {
  return {
    stroke: colour("muted"),
    grid: { show: false },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
    values: (_, seconds) => seconds.map((each) => clock(each * 1_000).replace(/:00$/, "")),
  };
}

function valueAxis(unit) {
  return {
    stroke: colour("muted"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
    size: 54,
    font: "12px system-ui, sans-serif",
    values: (_, values) => values.map((each) => onAxis(each, unit)),
  };
}
