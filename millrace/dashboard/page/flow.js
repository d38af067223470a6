// The pattern as a graph: topics and stages, with the flow on the edges. Upright on a narrow page.

import { s, setText } from "../charts/dom.js";
import { rate } from "../charts/format.js";

const NARROW = 620;
const WIDE = { width: 132, height: 44 };
const DASH = 16;
const STEP = 4;
const isStill = matchMedia("(prefers-reduced-motion: reduce)");
const UPRIGHT = { width: 94, height: 42 };
/** The width of a letter of a title, on average, and what is left free beside it. */
const LETTER = 7;
const MARGIN = 10;

export function flow(place, facts) {
  let isNarrow = null;
  let labels = [];
  let links = [];
  let last = null;
  let box = WIDE;
  let step = 0;

  function build(narrow) {
    isNarrow = narrow;
    box = narrow ? UPRIGHT : WIDE;
    const columns = 5;
    const size = narrow ? { width: 400, height: columns * 108 } : { width: 1_000, height: 440 };
    const at = (node) =>
      narrow
        ? { x: 50 + node.row * (size.width - 100), y: 40 + (node.column / (columns - 1)) * (size.height - 80) }
        : { x: 74 + (node.column / (columns - 1)) * (size.width - 148), y: 34 + node.row * (size.height - 68) };
    const nodes = Object.fromEntries(facts.nodes.map((node) => [node.id, { ...node, ...at(node) }]));
    labels = [];
    links = [];
    const drawn = s(narrow ? "svg.flow.upright" : "svg.flow", {
      viewBox: `0 0 ${size.width} ${size.height}`,
      role: "group",
      "aria-label": `The flow of ${facts.name}`,
    });
    for (const edge of facts.edges) drawn.append(...edgeOf(edge, nodes, narrow));
    for (const node of Object.values(nodes)) drawn.append(nodeOf(node));
    place.replaceChildren(drawn);
    if (last) show(...last);
  }

  function edgeOf(edge, nodes, narrow) {
    const [from, to] = [nodes[edge.source], nodes[edge.target]];
    const half = box.width / 2;
    const tall = box.height / 2;
    const [x1, y1, x2, y2] = narrow
      ? [from.x, from.y + tall, to.x, to.y - tall]
      : [from.x + half, from.y, to.x - half, to.y];
    const far = Math.max(1, to.column - from.column);
    const bend = narrow ? (y2 - y1) / 2 : Math.min(90, (x2 - x1) / 2) / (far > 1 ? 1.2 : 1);
    const path = narrow
      ? `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`
      : `M${x1},${y1} C${x1 + bend},${y1} ${far > 1 ? x1 + bend : x2 - bend},${y2} ${far > 1 ? x1 + 2 * bend : x2},${y2} L${x2},${y2}`;
    const line = s("path.edge", { d: path });
    if (!edge.flow) {
      line.classList.add("still");
      return [line];
    }
    const label = s("text.rate", {
      ...labelAt({ x1, y1, x2, y2, far, narrow, column: from.column }),
      "text-anchor": narrow ? "start" : "middle",
    });
    labels.push({ flow: edge.flow, engine: edge.engine, line, label });
    return [line, label];
  }

  /** Where the rate stands: beside the source where many edges meet, else in the middle. */
  function labelAt({ x1, y1, x2, y2, far, narrow, column }) {
    if (narrow) return { x: column === 0 ? x1 + 4 : (x1 + x2) / 2 + 6, y: column === 0 ? y1 + 15 : (y1 + y2) / 2 + 4 };
    if (far > 1) return { x: x2 - 60, y: y2 - 8 };
    return column === 0 ? { x: x1 + 26, y: y1 - 8 } : { x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 8 };
  }

  function nodeOf(node) {
    const outline = s("rect", {
      x: node.x - box.width / 2,
      y: node.y - box.height / 2,
      width: box.width,
      height: box.height,
      rx: node.kind === "topic" ? 22 : 7,
    });
    const words = wrapped(node.title, box.width);
    const top = node.y + 4 - (node.detail ? 6 : 0) - 6.5 * (words.length - 1);
    const title = s(
      "text.title",
      { "text-anchor": "middle" },
      ...words.map((line, n) => s("tspan", { x: node.x, y: top + 13 * n, ...squeezed(line, box.width) }, line)),
    );
    const detail = node.detail
      ? s("text.detail", { x: node.x, y: node.y + 13, "text-anchor": "middle" }, node.detail)
      : null;
    const group = s(
      "g",
      { class: `node ${node.kind}` },
      s("title", {}, node.doc || node.title),
      outline,
      title,
      detail,
    );
    if (!node.engine) return group;
    const link = s("a", {}, group);
    links.push({ engine: node.engine, link, group });
    return link;
  }

  function show(board, around) {
    last = [board, around];
    step = (step + STEP) % DASH;
    const isRead = (engine) => !engine || around?.jobs.find((each) => each.engine === engine)?.is_up;
    for (const { flow: name, engine, line, label } of labels) {
      const value = isRead(engine) ? (board?.rates[name] ?? 0) : 0;
      setText(label, value ? `${rate(value)}/s` : "");
      line.classList.toggle("flows", value > 0);
      // A step at each tick: an animation would paint sixty times a second, for hours.
      if (!isStill.matches) line.style.strokeDashoffset = String(-step);
      line.style.strokeWidth = String(value ? Math.min(7, 1.5 + Math.log10(1 + value) * 1.6) : 1.5);
    }
    for (const { engine, link, group } of links) {
      const job = around?.jobs.find((each) => each.engine === engine);
      const isSafe = job?.web.startsWith("http://") || job?.web.startsWith("https://");
      if (isSafe) {
        link.setAttribute("href", job.web);
        link.setAttribute("target", "_blank");
        link.setAttribute("rel", "noreferrer");
      } else link.removeAttribute("href");
      group.classList.toggle("sick", Boolean(job) && !["running", "starting"].includes(job.state));
      group.classList.toggle("runs", job?.state === "running");
    }
  }

  new ResizeObserver(() => {
    const narrow = place.clientWidth < NARROW;
    if (narrow !== isNarrow) build(narrow);
  }).observe(place);
  build(place.clientWidth > 0 && place.clientWidth < NARROW);
  return { show };
}

/** A title in one line, or in two, broken at the hyphen next to its middle. */
function wrapped(title, width) {
  const breaks = [...title.matchAll(/-/g)].map(({ index }) => index + 1);
  if (title.length * LETTER <= width - MARGIN || !breaks.length) return [title];
  const at = breaks.reduce((one, other) => (Math.abs(other - title.length / 2) < Math.abs(one - title.length / 2) ? other : one));
  return [title.slice(0, at), title.slice(at)];
}

/** A line that is too long all the same has narrower letters. */
function squeezed(line, width) {
  return line.length * LETTER > width - MARGIN ? { textLength: width - MARGIN, lengthAdjust: "spacingAndGlyphs" } : {};
}
