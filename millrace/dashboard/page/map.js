// A map of events: each place once, as large as its events are many; flagged events with a line to their other place.

import { asTable, h, setText } from "../charts/dom.js";
import { count, counted } from "../charts/format.js";
import { colour, onTheme } from "../charts/theme.js";

const SHOWN_MS = 60_000;
const FADES_MS = 20_000;
const LEAST_DEGREES = 40;
const SAME_PLACE_DEGREES = 0.5;
/** Server and page do not begin a minute at the same moment. */
const COMPLETE = 1.1;

let world = null;

/** @param {{title: string, other_title: string}} facts */
export function map(place, facts) {
  const canvas = h("canvas.map", { role: "img", "aria-label": `Map: ${facts.title}` });
  const note = h("p.note.pointed");
  const sample = h("p.note");
  const legend = h(
    "ul.legend",
    {},
    h("li", {}, h("i.line-accepted.round"), facts.title),
    h("li", {}, h("i.line-alerts.round"), "with an alert"),
    facts.other_title ? h("li", {}, h("i.ring"), facts.other_title) : null,
  );
  place.append(legend, canvas, note, sample);
  const table = asTable(place, facts.title);
  let points = [];
  let nowMs = Date.now();
  let spots = [];
  let isSample = false;

  world ??= fetch("assets/world.json").then((answer) => (answer.ok ? answer.json() : { land: [], borders: [] }));
  let lines = { land: [], borders: [] };
  world.then((found) => {
    lines = found;
    draw();
  });

  function draw() {
    const width = canvas.clientWidth;
    if (!width) return;
    const ratio = devicePixelRatio || 1;
    const height = Math.round(Math.min(460, Math.max(220, width * 0.52)));
    canvas.style.height = `${height}px`;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const paint = canvas.getContext("2d");
    paint.scale(ratio, ratio);
    const shown = points.filter((each) => nowMs - each.at_ms < SHOWN_MS);
    const frame = framed(shown.length ? shown : points, width, height);
    const at = ([longitude, latitude]) => [
      (longitude - frame.west) * frame.scale,
      (frame.north - latitude) * frame.scale,
    ];
    paint.fillStyle = colour("sea");
    paint.fillRect(0, 0, width, height);
    paint.fillStyle = colour("land");
    paint.beginPath();
    for (const ring of lines.land) trace(paint, ring, at);
    paint.fill("evenodd");
    paint.strokeStyle = colour("sea");
    paint.lineWidth = 0.7;
    paint.beginPath();
    for (const line of lines.borders) trace(paint, line, at);
    paint.stroke();
    drawSpots(paint, shown, at);
    drawFlagged(paint, shown, at);
  }

  function drawSpots(paint, shown, at) {
    const byPlace = new Map();
    for (const point of shown) {
      const key =
        point.label ||
        `${Math.round(point.place[0] / SAME_PLACE_DEGREES)} ${Math.round(point.place[1] / SAME_PLACE_DEGREES)}`;
      const cell = `${key} ${Math.round(point.place[0])} ${Math.round(point.place[1])}`;
      const spot = byPlace.get(cell) ?? { label: point.label, place: point.place, count: 0, flagged: 0 };
      spot.count += 1;
      spot.flagged += point.flags.length ? 1 : 0;
      byPlace.set(cell, spot);
    }
    const size = Math.max(...[...byPlace.values()].map((each) => each.count), 1);
    spots = [...byPlace.values()].map((spot) => ({
      ...spot,
      at: at(spot.place),
      radius: 3 + 9 * Math.sqrt(spot.count / size),
    }));
    for (const spot of spots) {
      paint.globalAlpha = 0.45;
      circle(paint, spot.at, spot.radius, colour("accepted"));
      paint.globalAlpha = 1;
      circle(paint, spot.at, 2, colour("accepted"));
    }
  }

  function drawFlagged(paint, shown, at) {
    for (const point of shown.filter((each) => each.flags.length)) {
      const age = nowMs - point.at_ms;
      paint.globalAlpha = Math.max(0.15, 1 - age / FADES_MS);
      const [x, y] = at(point.place);
      if (
        point.other &&
        Math.hypot(point.other[0] - point.place[0], point.other[1] - point.place[1]) > SAME_PLACE_DEGREES
      ) {
        const [ox, oy] = at(point.other);
        paint.strokeStyle = colour("alerts");
        paint.lineWidth = 1.2;
        paint.setLineDash([4, 3]);
        paint.beginPath();
        paint.moveTo(ox, oy);
        paint.quadraticCurveTo((x + ox) / 2, Math.min(y, oy) - Math.abs(x - ox) * 0.18, x, y);
        paint.stroke();
        paint.setLineDash([]);
        paint.lineWidth = 1.6;
        paint.strokeStyle = colour("ink");
        paint.beginPath();
        paint.arc(ox, oy, 3.5, 0, 7);
        paint.stroke();
      }
      circle(paint, [x, y], 3.5, colour("alerts"));
    }
    paint.globalAlpha = 1;
  }

  canvas.addEventListener("pointermove", (event) => {
    const near = spots.find(
      (each) => Math.hypot(each.at[0] - event.offsetX, each.at[1] - event.offsetY) < each.radius + 3,
    );
    setText(
      note,
      near ? `${named(near)}: ${near.count} ${isSample ? "of the sample" : "in the last minute"}, ${near.flagged} with an alert` : "",
    );
  });
  canvas.addEventListener("pointerleave", () => setText(note, ""));
  new ResizeObserver(draw).observe(canvas);
  onTheme(draw);
  return {
    show(board, now) {
      points = board.points;
      nowMs = now;
      const shown = points.filter((each) => nowMs - each.at_ms < SHOWN_MS).length;
      isSample = board.placed > shown * COMPLETE;
      setText(sample, isSample ? `A sample: ${counted(shown, "event")} of ${count(board.placed)}.` : "");
      draw();
      const what = isSample ? "events of the sample" : "events in the last minute";
      table.show(() => [["place", what, "with an alert"], ...rows(spots)]);
    },
  };
}

/** A spot's place; the use may have no word for it. */
function named({ label, place: [longitude, latitude] }) {
  return label || `${latitude.toFixed(1)}, ${longitude.toFixed(1)}`;
}

/** Each named place once, the one with the most events first. */
function rows(spots) {
  const byName = new Map();
  for (const spot of spots) {
    const row = byName.get(named(spot)) ?? [named(spot), 0, 0];
    byName.set(row[0], [row[0], row[1] + spot.count, row[2] + spot.flagged]);
  }
  return [...byName.values()].sort((one, other) => other[1] - one[1]);
}

/** The part of the world that holds all points, with room around them. */
function framed(points, width, height) {
  const xs = points.flatMap((each) => [each.place[0], ...(each.other ? [each.other[0]] : [])]);
  const ys = points.flatMap((each) => [each.place[1], ...(each.other ? [each.other[1]] : [])]);
  if (!xs.length) [xs[0], xs[1], ys[0], ys[1]] = [-170, 180, -56, 78];
  const [west, east, south, north] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const wide = Math.max(LEAST_DEGREES, (east - west) * 1.12);
  const tall = Math.max(LEAST_DEGREES, (north - south) * 1.3);
  const scale = Math.min(width / wide, height / tall);
  return { scale, west: (west + east) / 2 - width / scale / 2, north: (north + south) / 2 + height / scale / 2 };
}

function trace(paint, line, at) {
  line.forEach((point, n) => {
    const [x, y] = at(point);
    const isAcross = n > 0 && Math.abs(point[0] - line[n - 1][0]) > 180; // from one edge of the world to the other
    if (n === 0 || isAcross) paint.moveTo(x, y);
    else paint.lineTo(x, y);
  });
}

function circle(paint, [x, y], radius, fill) {
  paint.fillStyle = fill;
  paint.beginPath();
  paint.arc(x, y, radius, 0, 7);
  paint.fill();
}
