// The page: which pattern it shows, and what the server says about itself.

import "../charts/language.js"; // before the modules that import uPlot
import { h, setText } from "../charts/dom.js";
import { clock } from "../charts/format.js";
import { forgetDrawn } from "../charts/theme.js";
import { connect } from "./live.js";
import { overview } from "./overview.js";
import { patternPage } from "./pattern.js";
import { stale, stateOf } from "./state.js";
import { store, takeFull, takeTick } from "./store.js";

const main = document.getElementById("main");
const tabs = document.getElementById("patterns");
const connection = document.getElementById("connection");
const notices = document.getElementById("notices");
let page = null;
let shown = "";
let isDue = false;
let isFull = false;
let awayMs = 0;

connect(
  {
    patterns(found) {
      // They come with each connection; the page of a reader stays where they are the same.
      if (JSON.stringify(found) !== JSON.stringify(store.patterns)) shown = "";
      store.patterns = found;
      due();
    },
    full(found) {
      takeFull(found);
      isFull = true;
      due();
    },
    tick(found) {
      if (!isFull) return true;
      const isWhole = takeTick(found);
      due();
      return isWhole;
    },
  },
  (state) => {
    if (state !== "live") isFull = false;
    connection.className = state;
    setText(
      connection,
      {
        live: "live",
        connecting: "connecting …",
        silent: "no answer; reconnecting …",
        away: "server away; reconnecting …",
      }[state],
    );
    document.body.classList.toggle("stale", state !== "live");
    awayMs = state === "live" ? 0 : awayMs || Date.now();
    drawNotices();
  },
);
addEventListener("hashchange", due);
tabs.addEventListener("focusin", ({ target }) => target.scrollIntoView({ block: "nearest", inline: "nearest" }));
document.addEventListener("visibilitychange", due);

/** Draws once in the next frame; a hidden page draws nothing. */
function due() {
  if (isDue || document.hidden) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    draw();
  });
}

function draw() {
  if (!isFull || !store.patterns.length) {
    if (isFull)
      main.replaceChildren(
        h("p.empty", {}, "This project has no patterns. ", h("code", {}, "millrace init my-use"), " begins one."),
      );
    return;
  }
  const chosen = chosenPattern();
  const wanted = chosen ?? "*";
  if (shown !== wanted) {
    shown = wanted;
    const facts = store.patterns.find((each) => each.name === chosen);
    forgetDrawn();
    page = facts ? patternPage(facts) : overview(sorted());
    main.replaceChildren(page.element);
    document.title = facts ? `${facts.name} · millrace` : "millrace";
  }
  drawTabs(chosen);
  drawNotices();
  page.show(store);
}

/** The pattern in the address; without one, the only pattern that is deployed. */
function chosenPattern() {
  const name = decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  if (store.patterns.some((each) => each.name === name)) return name;
  if (location.hash) return null;
  const deployed = store.patterns.filter((each) => store.around.patterns?.[each.name]?.is_deployed);
  return deployed.length === 1 ? deployed[0].name : null;
}

/** Deployed patterns first. */
function sorted() {
  const rank = (each) => ({ good: 0, bad: 0, quiet: 1, off: 2 })[stateOf(each.name, store).level];
  return [...store.patterns].sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}

function drawTabs(chosen) {
  const wanted = [null, ...store.patterns.map((each) => each.name)];
  if (tabs.childElementCount !== wanted.length) {
    tabs.replaceChildren(
      ...wanted.map((name) => h("a", { href: name ? `#/${name}` : "#/" }, h("i.dot"), name ?? "all")),
    );
  }
  [...tabs.children].forEach((tab, n) => {
    const name = wanted[n];
    setText(tab.lastChild, name ?? "all");
    tab.firstChild.setAttribute("class", `dot ${name ? stateOf(name, store).level : "none"}`);
    if (name !== chosen) tab.removeAttribute("aria-current");
    else if (!tab.hasAttribute("aria-current")) {
      tab.setAttribute("aria-current", "page");
      tab.scrollIntoView({ block: "nearest", inline: "center" });
    }
  });
}

function drawNotices() {
  const found = [];
  const kafka = store.around.kafka;
  if (awayMs && store.patterns.length)
    found.push([
      "bad",
      `The server of this page does not answer since ${clock(awayMs)}. The page reconnects by itself; what it shows is as of then.`,
      "millrace up",
    ]);
  else if (kafka?.state === "down")
    found.push([
      "bad",
      `Kafka does not answer since ${clock(kafka.since_ms)}. All figures are as of then. The page continues once Kafka answers.`,
      "millrace status",
    ]);
  if (kafka?.state === "starting")
    found.push(["quiet", "The server of this page has started and looks for Kafka.", ""]);
  if (!awayMs) for (const sentence of stale(store)) found.push(["bad", sentence, ""]);
  if (store.around.problem) found.push(["bad", store.around.problem, ""]);
  const problem = store.around.patterns?.[shown]?.view_problem;
  if (problem) found.push(["bad", problem, ""]);
  const text = JSON.stringify(found);
  if (notices.dataset.text === text) return;
  notices.dataset.text = text;
  notices.replaceChildren(
    ...found.map(([level, sentence, remedy]) =>
      h(`p.notice.${level}`, {}, sentence, " ", remedy ? h("code", {}, remedy) : null),
    ),
  );
}
