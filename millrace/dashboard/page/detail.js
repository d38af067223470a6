// One alert in a drawer: why it came, the events it rests on, and what is kept about its key.

import { h, prose, setText } from "../charts/dom.js";
import { counted, moment, span, withUnit } from "../charts/format.js";
import { store } from "./store.js";

const NAME = "millrace.name";
const drawer = /** @type {HTMLDialogElement} */ (document.getElementById("detail"));
const content = h("div");
drawer.append(h("button.close", { type: "button", "aria-label": "Close", onclick: () => drawer.close() }, "✕"), content);
drawer.addEventListener("click", (event) => {
  if (event.target === drawer) drawer.close();
});

/** Draws the mark of the alert in the drawer, where another was made meanwhile. */
let drawMark = () => {};

/** Shows what has come since the drawer was opened. */
export const refreshAlert = () => drawer.open && drawMark();

/** Fetches an alert and shows it; one that the page does not keep is read at its place. */
export async function openAlert(facts, id, place) {
  fill(h("p.empty", {}, "Loading …"));
  drawer.showModal();
  try {
    const answer = await fetch(addressOf(facts, id, place), { headers: { "x-millrace-token": store.token } });
    const alert = await answer.json();
    if (!answer.ok) fill(h("p.empty", {}, alert.problem ?? "The server refused the request."));
    else show(facts, alert, place);
  } catch {
    fill(h("p.empty", {}, "The server of this page does not answer."));
  }
}

function addressOf(facts, id, place, verb = "") {
  const asked = place ? `?${new URLSearchParams({ place })}` : "";
  return `alerts/${encodeURIComponent(facts.name)}/${encodeURIComponent(id)}${verb}${asked}`;
}

function fill(...children) {
  drawMark = () => {};
  content.replaceChildren(h("div.drawer", {}, ...children));
}

function show(facts, alert, place) {
  const marks = marking(facts, alert, place);
  fill(...parts(facts, alert, marks.element));
  drawMark = marks.refresh;
}

function parts(facts, alert, marks) {
  const rule = facts.rules.find((each) => each.name === alert.rule);
  const isWindow = rule?.stage === "windows";
  return [
    h("h2", {}, alert.rule),
    h("p.sentence", {}, `${alert.sentence.charAt(0).toUpperCase()}${alert.sentence.slice(1)}.`),
    h("p.doc", {}, ...prose(rule?.doc ?? "")),
    marks,
    pairs([
      [facts.key, alert.subject],
      ...(alert.key === alert.subject ? [] : [["key", alert.key]]),
      ["time of the event", moment(alert.at_ms, store.nowMs)],
      [isWindow ? "after its window's end" : "latency", span(alert.latency_ms)],
      ["judged by", `${alert.rule} ${alert.rule_version}`],
      ["found in", `${alert.place.topic}, partition ${alert.place.partition}, offset ${alert.place.offset}`],
      ["alert id", alert.id],
    ]),
    h("h3", {}, "Its values"),
    pairs(
      Object.entries(alert.operands).map(([name, value]) => [
        name.replaceAll("_", " "),
        withUnit(asNumber(value), unitOf(name)),
      ]),
    ),
    h("h3", {}, alert.events.length === 1 ? "The event it rests on" : "The events it rests on"),
    alert.events.length ? table(facts.event, alert.events) : null,
    alert.missing
      ? h(
          "p.note",
          {},
          `${alert.events.length ? `${counted(alert.missing, "more event")}:` : "They are"} not among those that this page keeps; `,
          h("code", {}, `millrace explain ${alert.id}`),
          " looks for them in Kafka.",
        )
      : null,
    ...(alert.others.length
      ? [h("h3", {}, `Other events of this ${facts.key}`), table(facts.event, alert.others)]
      : []),
    ...history(facts, alert),
  ];
}

/** What people make of the alert: the mark that it has, and a form for another. */
function marking(facts, alert, place) {
  const made = h("p.made", { role: "status" });
  const note = h("input.remark", { maxlength: 500, placeholder: "why, in one line", "aria-label": "Note" });
  const by = h("input", { maxlength: 64, placeholder: "your name", "aria-label": "Your name" });
  by.value = localStorage.getItem(NAME) ?? "";
  const buttons = Object.entries(facts.marks).map(([mark, title]) =>
    h("button.chip", { type: "button", "data-mark": mark, onclick: () => send(mark) }, title),
  );
  const ofBoard = () => store.boards[facts.name]?.marks[alert.id];
  let last = ofBoard();
  draw(last ?? alert.mark);
  const bar = h("div.bar", {}, ...buttons, by, note);
  return { element: h("div.marking", { role: "group", "aria-label": "Mark this alert" }, bar, made), refresh };

  /** The mark that the board has, once it is another one than before: an own one is there before the board has it. */
  function refresh() {
    const mark = ofBoard();
    if (!mark || mark === last) return;
    last = mark;
    draw(mark);
  }

  function draw(mark) {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.mark === mark?.mark));
    setText(
      made,
      mark
        ? `${facts.marks[mark.mark] ?? mark.mark}, by ${mark.by}, ${moment(mark.at_ms, store.nowMs)}${mark.note && `: ${mark.note}`}`
        : "Not marked yet.",
    );
  }

  async function send(mark) {
    localStorage.setItem(NAME, by.value.trim());
    try {
      const answer = await fetch(addressOf(facts, alert.id, place, "/mark"), {
        method: "POST",
        headers: { "content-type": "application/json", "x-millrace-token": store.token },
        body: JSON.stringify({ mark, by: by.value.trim(), note: note.value.trim() }),
      });
      const found = await answer.json();
      if (answer.ok) draw(found);
      else made.textContent = `It was not marked: ${found.problem ?? found.detail}`; // ours, or Airflow's
    } catch {
      // It may have ended before Kafka had the mark, or after that.
      made.textContent = "Not confirmed: the server of this page did not answer. The mark is kept only if the list shows it.";
    }
  }
}

function history(facts, alert) {
  if (alert.history_problem) return [h("h3", {}, "In HBase"), h("p.empty", {}, alert.history_problem)];
  if (!alert.history) return [];
  const simple = Object.entries(alert.history).filter(([, value]) => value === null || typeof value !== "object");
  const counted = Object.entries(alert.history.alerts ?? {});
  const lists = Object.entries(alert.history).filter(([, value]) => Array.isArray(value) && value.length);
  return [
    h("h3", {}, `The ${facts.key} in HBase`),
    pairs([
      ...simple.map(([name, value]) => [name.replaceAll("_", " "), withUnit(value, unitOf(name))]),
      ...counted.map(([name, value]) => [`alerts of ${name}`, value]),
    ]),
    ...lists.map(([, rows]) =>
      table(
        Object.keys(rows[0])
          .slice(0, 8)
          .map((name) => ({ name, title: name.replaceAll("_", " "), unit: unitOf(name) })),
        rows,
      ),
    ),
  ];
}

const asNumber = (text) => (text !== null && text !== "" && Number.isFinite(Number(text)) ? Number(text) : text);
const unitOf = (name) => ({ cents: "cents", ms: "ms" })[name.split("_").pop()] ?? "";

function pairs(rows) {
  return h("dl.pairs", {}, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]));
}

function table(columns, rows) {
  const cell = (row, { name, unit }) => (Array.isArray(row[name]) ? row[name].join(", ") : withUnit(row[name], unit));
  return h(
    "div.scroll",
    { tabindex: 0 },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...columns.map((column) => h("th", { scope: "col" }, column.title)))),
      h(
        "tbody",
        {},
        ...rows.map((row) =>
          h(
            "tr",
            { class: row.flags?.length ? "flagged" : null },
            ...columns.map((column) => h("td", {}, cell(row, column))),
          ),
        ),
      ),
    ),
  );
}
