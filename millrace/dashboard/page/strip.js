// A strip: a row for each group, a column for each window; the darker, the more.

import { windowRows } from "../charts/charts.js";
import { asTable, h, setText } from "../charts/dom.js";
import { clock, withUnit } from "../charts/format.js";
import { colour, onTheme } from "../charts/theme.js";

const ROW = 18;
const LABEL = 96;
const LEAST_COLUMNS = 30;
const STEPS = 6;

export function strip(place, facts) {
  const canvas = h("canvas.strip", { role: "img", "aria-label": facts.title });
  const note = h("p.note.pointed");
  const scale = h("p.scale");
  place.append(canvas, scale, note);
  const table = asTable(place, facts.title);
  let found = null;
  let most = 1;
  let columns = LEAST_COLUMNS;

  function draw() {
    if (!found || !canvas.clientWidth) return;
    const ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = found.groups.length * ROW + 20;
    canvas.style.height = `${height}px`;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const paint = canvas.getContext("2d");
    paint.scale(ratio, ratio);
    paint.font = "12px system-ui, sans-serif";
    paint.textBaseline = "middle";
    columns = Math.max(LEAST_COLUMNS, found.starts.length);
    const step = (width - LABEL) / columns;
    const first = columns - found.starts.length;
    most = Math.max(1, ...found.values.flat().filter((each) => each !== null));
    const colours = Array.from({ length: STEPS }, (_, n) => colour(`heat-${n}`));
    found.groups.forEach((group, row) => {
      const y = row * ROW;
      paint.fillStyle = colour("muted");
      paint.fillText(shortened(paint, group), 0, y + ROW / 2);
      found.values[row].forEach((value, at) => {
        const part = value ? Math.sqrt(value / most) : 0;
        paint.fillStyle = value ? colours[Math.min(STEPS - 1, Math.max(1, Math.ceil(part * (STEPS - 1))))] : colours[0];
        paint.fillRect(LABEL + (first + at) * step, y + 1, Math.max(1, step - 1), ROW - 2);
      });
    });
    paint.fillStyle = colour("muted");
    paint.textBaseline = "alphabetic";
    if (found.starts.length) {
      paint.textAlign = "left";
      if (found.starts.length > 1) paint.fillText(clock(found.starts[0]), Math.min(LABEL + first * step, width - 130), height - 4);
      paint.textAlign = "right";
      paint.fillText(clock(found.starts[found.starts.length - 1]), width, height - 4);
    }
    setText(
      scale,
      `0 to ${withUnit(most, facts.unit)} in a window${found.left_out ? `; ${found.left_out} smaller groups are not drawn` : ""}`,
    );
  }

  canvas.addEventListener("pointermove", (event) => {
    if (!found) return;
    const step = (canvas.clientWidth - LABEL) / columns;
    const at = Math.floor((event.offsetX - LABEL) / step) - (columns - found.starts.length);
    const row = Math.floor(event.offsetY / ROW);
    const value = found.values[row]?.[at];
    setText(
      note,
      value === undefined
        ? ""
        : `${facts.by} ${found.groups[row]}, window from ${clock(found.starts[at])}: ${withUnit(value ?? 0, facts.unit)}`,
    );
  });
  canvas.addEventListener("pointerleave", () => setText(note, ""));
  new ResizeObserver(draw).observe(canvas);
  onTheme(draw);
  return {
    show(next) {
      found = next;
      draw();
      table.show(() => windowRows(next, facts));
    },
  };
}

function shortened(paint, text) {
  if (paint.measureText(text).width <= LABEL - 8) return text;
  while (text.length > 1 && paint.measureText(`${text}…`).width > LABEL - 8) text = text.slice(0, -1);
  return `${text}…`;
}
