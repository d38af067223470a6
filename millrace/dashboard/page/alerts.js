// The alerts as they come, newest first. While a person reads them, new ones wait behind a button. Alerts that the page
// no longer keeps, and files, come from Kafka: the server reads them back.

import { h, setText } from "../charts/dom.js";
import { count, counted, moment, share, span, when, withUnit } from "../charts/format.js";
import { store } from "./store.js";

const ROWS_MOST = 300;
const UNMARKED = "none";
const FORMS = { csv: "CSV", parquet: "Parquet" };

/** What the use calls a right alert and a wrong one. */
const judgements = ({ marks }) => [marks.confirmed, marks.dismissed];

/** @param {(id: string, place?: string) => void} open shows one alert; an older one is found at its place */
export function alerts(place, facts, open) {
  const order = facts.rules.map((rule) => rule.name);
  const hues = (rule) => Math.max(0, order.indexOf(rule)) % 8;
  let chosen = "";
  let wanted = "";
  /** Rows show them shortened, and so the search compares them. */
  const tokens = new RegExp(facts.token.pattern, "g");
  /** The key that a person chose in a row: its name for the server, and how it is shown. */
  let key = { id: "", shown: "" };
  let marked = "";
  let sinceMs = -Infinity;
  let untilMs = Infinity;
  let least = -Infinity;
  let board = null;
  let newest = null;
  let isHeld = false;
  let completed = 0;
  let drawn = null;
  /** Which older alerts the list shows; null while it shows the latest ones. */
  let past = null;
  let asked = 0;

  const chips = h("div.chips", { role: "group", "aria-label": "Show the alerts of a rule" });
  const search = h("input", {
    type: "search",
    placeholder: `${facts.key} or text`,
    "aria-label": `Only alerts with this ${facts.key} or text`,
    oninput: () => {
      wanted = search.value.trim().toLowerCase().replace(tokens, (token) => `${token.slice(0, facts.token.shown)}…`);
      rebuild();
    },
  });
  const marks = h(
    "select",
    {
      "aria-label": "Only alerts with this mark",
      onchange: () => {
        marked = marks.value;
        rebuild();
      },
    },
    h("option", { value: "" }, "marked or not"),
    h("option", { value: UNMARKED }, "not marked"),
    ...Object.entries(facts.marks).map(([mark, title]) => h("option", { value: mark }, title)),
  );
  const since = h("input", {
    type: "datetime-local",
    step: 1,
    "aria-label": "Only alerts since",
    title: "only alerts since",
    oninput: () => {
      sinceMs = since.value ? Date.parse(since.value) : -Infinity;
      rebuild();
    },
  });
  const until = h("input", {
    type: "datetime-local",
    step: 1,
    "aria-label": "Only alerts before",
    title: "only alerts before",
    oninput: () => {
      untilMs = until.value ? Date.parse(until.value) : Infinity;
      rebuild();
    },
  });
  // What an alert's row shows first of the numbers of its event: an amount, for instance.
  const measured = facts.alert.findIndex((each) => each.is_number);
  const { title: amount = "", unit = "" } = facts.alert[measured] ?? {};
  const atLeast = h("input.amount", {
    type: "number",
    min: 0,
    step: "any",
    hidden: measured < 0,
    placeholder: `${amount} from`,
    "aria-label": `Only alerts with at least this ${amount}`,
    oninput: () => {
      least = atLeast.value === "" ? -Infinity : unit === "cents" ? Math.round(atLeast.value * 100) : Number(atLeast.value);
      rebuild();
    },
  });
  const chosenKey = h("button.chip.key", { type: "button", hidden: true, title: "show all keys again", onclick: () => chooseKey("", "") });
  const more = h("button.more", {
    type: "button",
    hidden: true,
    onclick: () => {
      list.scrollTop = 0;
      isHeld = false;
      rebuild();
    },
  });
  const list = h("ol.alert-list", { "aria-label": "Alerts, newest first" });
  const empty = h("p.empty");
  const rest = h("p.note");
  const told = h("p.note", { role: "status" });
  const back = h("button.chip", { type: "button", hidden: true, onclick: () => rebuild(true) }, "latest alerts");
  const older = h("button.chip", { type: "button", hidden: true, onclick: showOlder }, "older alerts");
  const files = Object.entries(FORMS).map(([form, title]) =>
    h("button.chip", { type: "button", onclick: () => save(form) }, `save as ${title}`),
  );
  const reach = h("div.bar.reach", {}, back, older, ...files);
  const decided = h("tbody");
  const precision = h(
    "details.precision",
    {},
    h("summary", {}, "how many were right, by day and rule"),
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...["day", "rule", ...judgements(facts), "right"].map((title) => h("th", { scope: "col" }, title)))),
      decided,
    ),
    h("p.empty", {}, "Nobody has marked an alert yet."),
  );
  place.append(h("div.bar", {}, chips, marks, h("label", {}, "since ", since), h("label", {}, "before ", until), atLeast, search, chosenKey), more, list, empty, rest, told, reach, precision);
  const buttons = new Map();
  for (const name of ["", ...order]) {
    const figure = h("b");
    const button = h(
      "button.chip",
      {
        type: "button",
        "aria-pressed": name === "",
        onclick: () => choose(name),
        title: facts.rules.find((rule) => rule.name === name)?.doc ?? null,
      },
      name ? h(`i.group-${hues(name)}`) : null,
      name || "all",
      " ",
      figure,
    );
    buttons.set(name, { button, figure });
    chips.append(button);
  }

  function choose(name) {
    chosen = name;
    for (const [each, { button }] of buttons) button.setAttribute("aria-pressed", String(each === name));
    rebuild();
  }

  /** Shows the alerts of one key alone, or of all keys. */
  function chooseKey(id, shown) {
    key = { id, shown };
    chosenKey.hidden = !id;
    chosenKey.replaceChildren("only ", h("b", {}, shown), " ✕");
    chosenKey.setAttribute("aria-label", `only ${shown} ✕: show all keys again`);
    rebuild(!id);
    if (id) chosenKey.focus();
  }

  const fitsBesides = (alert) =>
    (!chosen || alert.rule === chosen) &&
    (!key.id || alert.key_id === key.id || alert.subject_id === key.id) &&
    (!marked || (board.marks[alert.id]?.mark ?? UNMARKED) === marked) &&
    alert.arrived_ms >= sinceMs &&
    alert.arrived_ms < untilMs &&
    (!wanted || `${alert.subject} ${alert.key} ${alert.rule} ${alert.sentence}`.toLowerCase().includes(wanted));
  const fits = (alert) => fitsBesides(alert) && (least === -Infinity || (alert.about?.[measured] ?? -Infinity) >= least);

  /** One alert. Its keys are buttons of their own, over the one that opens it: that names them to a screen reader. */
  function row(alert) {
    const keys = alert.key_id === alert.subject_id ? ["subject"] : ["subject", "key"];
    const names = keys.map((each) => alert[each]).join(" · ");
    const button = h(
      "button.alert",
      { type: "button", tabindex: -1, "data-id": alert.id, onclick: () => open(alert.id, alert.place) },
      h(`i.group-${hues(alert.rule)}`),
      h("span.when", { title: moment(alert.arrived_ms, store.nowMs) }, when(alert.arrived_ms, store.nowMs)),
      h("span.rule", {}, alert.rule),
      h("span.unseen", {}, names),
      h("span.why", {}, alert.sentence),
      h("span.took", { title: "latency" }, span(alert.latency_ms)),
      h("span.mark"),
    );
    drawAbout(button);
    drawMark(button);
    return h("li", {}, button, h("span.who", {}, ...keys.flatMap((each, n) => [n ? " · " : "", keyButton(alert, each)])));
  }

  function keyButton(alert, each) {
    const shown = alert[each];
    const choose = () => chooseKey(alert[`${each}_id`], shown);
    return h("button", { type: "button", tabindex: -1, title: `only alerts of ${shown}`, "aria-label": `only alerts of ${shown}`, onclick: choose }, shown);
  }

  const rows = () => [...list.querySelectorAll("button.alert")];

  /** Tab goes to one row: to its alert, then to its keys. */
  function reachable(item) {
    for (const each of list.querySelectorAll('button[tabindex="0"]')) each.tabIndex = -1;
    for (const each of item.querySelectorAll("button")) each.tabIndex = 0;
  }

  /** The fields of its last event, which may come after the alert. */
  function drawAbout(button) {
    const about = board.byId.get(button.dataset.id)?.about;
    const shown = button.querySelector(".why");
    if (!about || shown.querySelector("b")) return;
    shown.prepend(h("b", {}, about.map((value, n) => withUnit(value, facts.alert[n].unit)).join(" · ")));
  }

  function drawMark(button) {
    const made = board.marks[button.dataset.id];
    const shown = button.querySelector(".mark");
    setText(shown, made ? (facts.marks[made.mark] ?? made.mark) : "");
    shown.className = made ? `mark ${made.mark}` : "mark";
  }

  /** The latest alerts that fit; what the server still reads for another filter is not shown. */
  function rebuild(isAsked = false) {
    if (!board) return;
    past = null;
    asked += 1;
    fill();
    settle();
    if (isAsked) list.querySelector("button")?.focus();
  }

  function fill() {
    const found = board.alerts.filter(fits);
    list.replaceChildren(...found.slice(-ROWS_MOST).reverse().map(row));
    newest = board.alerts[board.alerts.length - 1]?.id ?? null;
    completed = board.completed;
    more.hidden = true;
    finish(list.childElementCount);
  }

  /** The filter as the server takes it, for alerts before a moment, or for the next page. */
  function query(beforeMs, before) {
    const words = { rule: chosen, key: key.id, wanted, marked, before };
    const times = { since_ms: sinceMs, until_ms: Math.min(untilMs, beforeMs) };
    return new URLSearchParams([
      ...Object.entries(words).filter(([, value]) => value),
      ...Object.entries(times).filter(([, value]) => Number.isFinite(value)),
    ]);
  }

  /** The whole answer of the server in a form, or null where it has none; why is then below the list. */
  async function fetched(path, form) {
    const mine = (asked += 1);
    draw(true, "Reading Kafka …");
    try {
      const answer = await fetch(path, { headers: { "x-millrace-token": store.token } });
      const found = answer.ok ? await answer[form]() : await answer.json();
      if (mine !== asked) return null; // the filter changed meanwhile
      draw(false, answer.ok ? "" : `${found.problem}.`);
      return answer.ok ? found : null;
    } catch {
      if (mine === asked) draw(false, "The server of this page does not answer.");
      return null;
    }
  }

  function draw(isBusy, sentence) {
    for (const each of [older, ...files]) each.disabled = isBusy || least > -Infinity;
    setText(told, sentence);
  }

  async function showOlder() {
    const shown = new Set(rows().map((each) => each.dataset.id));
    const last = board.byId.get(list.lastElementChild?.firstElementChild.dataset.id) ?? board.alerts[0];
    const beforeMs = past || !last ? Infinity : last.arrived_ms + 1;
    let found = { alerts: [], before: past?.before };
    let fresh = [];
    // The first page may hold alerts of one moment that the list has already.
    do {
      found = await fetched(`older/${encodeURIComponent(facts.name)}?${query(beforeMs, found.before)}`, "json");
      if (!found) return;
      fresh = found.alerts.filter((each) => !shown.has(each.id));
    } while (!fresh.length && found.alerts.length && found.before);
    past = found;
    for (const { id, mark } of fresh) {
      board.olderIds.add(id);
      if (mark) board.marks[id] = mark;
    }
    list.replaceChildren(...fresh.map(row));
    list.scrollTop = 0;
    more.hidden = true;
    finish(fresh.length);
    settle();
    (list.querySelector("button") ?? back).focus();
  }

  async function save(form) {
    const file = await fetched(`export/${encodeURIComponent(facts.name)}.${form}?${query(Infinity)}`, "blob");
    if (!file) return;
    const address = URL.createObjectURL(file);
    h("a", { href: address, download: `${facts.name}-alerts.${form}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    settle();
  }

  function drawPrecision() {
    const rows = board.precision;
    precision.querySelector("table").hidden = rows.length === 0;
    precision.querySelector(".empty").hidden = rows.length > 0;
    decided.replaceChildren(
      ...rows.map(({ day, rule, confirmed, dismissed }) =>
        h(
          "tr",
          {},
          ...[day, rule, count(confirmed), count(dismissed), share(confirmed / (confirmed + dismissed))].map((value) =>
            h("td", {}, value),
          ),
        ),
      ),
    );
  }

  function finish(length) {
    if (length && !list.querySelector('button[tabindex="0"]')) reachable(list.firstElementChild);
    empty.hidden = length > 0;
    list.hidden = length === 0;
    const all = board.totals.alerts;
    const hasOlder = past ? Boolean(past.before) : all > length;
    back.hidden = !past;
    older.hidden = !hasOlder;
    for (const each of files) each.hidden = all === 0;
    setText(rest, !past && hasOlder && length > 0 ? `${count(length)} of ${count(all)}` : "");
    if (length === 0)
      setText(
        empty,
        past
          ? "None of them fits."
          : board.alerts.length
            ? "None of the latest alerts fits."
            : "No alert yet. An alert appears here as soon as it is in its topic.",
      );
  }

  /** What is shown, in words; an update of the list leaves a problem and a reading that takes its time below it. */
  function settle() {
    const sentences = [];
    if (past?.before) sentences.push(`Older alerts, read back to ${moment(past.reached_ms, store.nowMs)}.`);
    else if (past) sentences.push("Older alerts; no others that Kafka has fit.");
    const without = least > -Infinity && !past ? board.alerts.filter((each) => fitsBesides(each) && !each.about).length : 0;
    if (without) sentences.push(`${counted(without, "alert")} whose event the page does not have ${without === 1 ? "is" : "are"} not shown.`);
    if (least > -Infinity) sentences.push(`Older alerts and files cannot be chosen by ${amount}: it is of an event.`);
    draw(false, sentences.join(" "));
  }

  function unseen() {
    const at = board.alerts.findLastIndex((each) => each.id === newest);
    return board.alerts.slice(at + 1).filter(fits);
  }

  list.addEventListener("scroll", () => {
    isHeld = list.scrollTop > 8;
    if (!isHeld && board) update();
  });
  list.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const all = rows();
    const now = all.indexOf(document.activeElement.closest("li")?.querySelector("button.alert"));
    const next = all[Math.min(all.length - 1, Math.max(0, now + step))];
    reachable(next.parentElement);
    next.focus();
  });

  function update() {
    if (past) return;
    const fresh = unseen();
    if (isHeld || list.contains(document.activeElement)) {
      more.hidden = fresh.length === 0;
      setText(more, counted(fresh.length, "new alert"));
      return;
    }
    // The filter by amount has passed over an alert whose event came later.
    if (least > -Infinity && completed !== board.completed) return fill();
    more.hidden = true;
    newest = board.alerts[board.alerts.length - 1]?.id ?? null;
    const rows = fresh.slice(-ROWS_MOST).map(row);
    list.prepend(...rows.reverse());
    while (list.childElementCount > ROWS_MOST) list.lastElementChild.remove();
    finish(list.childElementCount);
  }

  return {
    show(next) {
      const isAnother = board !== next;
      if (isAnother && past) {
        // After a reconnection, too, a person reads on.
        next.olderIds = board.olderIds;
        for (const id of next.olderIds) next.marks[id] ??= board.marks[id];
      }
      board = next;
      if (drawn !== board.precision) {
        drawn = board.precision;
        drawPrecision();
      }
      for (const [name, { figure }] of buttons)
        setText(figure, count(name ? (board.by_rule[name] ?? 0) : board.totals.alerts));
      // After a reconnection a person reads on, too; the alerts that came meanwhile wait like any others.
      if (isAnother && !past && !(isHeld || list.contains(document.activeElement))) fill();
      else update();
      for (const button of rows()) {
        drawAbout(button);
        drawMark(button);
      }
    },
  };
}
