// The smaller parts of a pattern's page: figures, latencies, dead letters, jobs and the verdict.

import { sparkline } from "../charts/charts.js";
import { h, refill, setText } from "../charts/dom.js";
import { ago, clock, count, counted, moment, rate, span, when, withUnit } from "../charts/format.js";
import { SERIES } from "./store.js";

const TITLES = { in: "events in", accepted: "accepted", refused: "refused", alerts: "alerts" };

/** Four rates with their totals and their last minutes. */
export function figures(place) {
  const panels = SERIES.map((name) => {
    const now = h("strong");
    const total = h("span");
    const plot = h("div.spark", { "aria-hidden": "true" });
    place.append(
      h(
        `section.panel.figure.${name}`,
        { "aria-label": `${TITLES[name]} a second` },
        h("h2", {}, TITLES[name]),
        h("p", {}, now, h("small", {}, "/s"), total),
        plot,
      ),
    );
    return { name, now, total, chart: sparkline(plot, name) };
  });
  return {
    show(board) {
      for (const { name, now, total, chart } of panels) {
        setText(now, rate(board.rates[name]));
        setText(total, `${count(board.totals[name] ?? 0)} in all`);
        chart.show([board.series[name].map((_, n) => board.series.from_s + n), board.series[name]]);
      }
    },
  };
}

/** The numbers that a use chose. */
export function numbers(place, facts) {
  const values = facts.figures.map((each) => {
    const value = h("strong");
    place.append(h("section.panel.number", { "aria-label": each.title }, h("h2", {}, each.title), h("p", {}, value)));
    return value;
  });
  return {
    show(board) {
      values.forEach((value, n) => setText(value, withUnit(board.figures[n] ?? null, facts.figures[n].unit)));
    },
  };
}

/** Percentiles by stage, and the promise. */
export function latencies(place, facts) {
  const body = h("tbody");
  const promise = h("p.promise");
  const head = ["stage", "p50", "p99", "worst"].map((title) => h("th", { scope: "col" }, title));
  const empty = h("p.empty", {}, "Nothing measured yet.");
  place.append(h("table.latencies", {}, h("thead", {}, h("tr", {}, ...head)), body), promise, empty);
  return {
    show(board) {
      const shown = board.latencies;
      empty.hidden = shown.length > 0;
      const most = Math.max(1, ...shown.map((each) => each.p99_ms));
      refill(
        body,
        ...shown.map((each) =>
          h(
            "tr",
            { class: [each.is_part ? "part" : "", each.is_recent ? "" : "old"].join(" ").trim() || null },
            h("th", { scope: "row", title: each.from }, each.name, h("small", {}, each.from)),
            h("td", {}, span(each.p50_ms)),
            h(
              "td",
              {},
              span(each.p99_ms),
              h("meter", { min: 0, max: most, value: each.p99_ms, "aria-hidden": "true" }),
            ),
            h("td", {}, span(each.max_ms)),
          ),
        ),
      );
      const alerts = shown.find((each) => each.name === "alerts");
      const isKept = alerts && alerts.p99_ms <= facts.promised_ms;
      promise.hidden = !alerts;
      promise.className = `promise ${isKept ? "good" : "bad"}`;
      if (alerts)
        setText(
          promise,
          `${isKept ? "✓" : "✗"} promised: p99 of at most ${span(facts.promised_ms)}, once warm; ${alerts.is_recent ? "the last minute" : "the latest"}: ${span(alerts.p99_ms)}`,
        );
    },
  };
}

/** Dead letters by reason; the sample of the chosen one. */
export function letters(place) {
  const list = h("ul.reasons");
  const sample = h("ol.sample", { "aria-label": "The latest messages" });
  const empty = h("p.empty", {}, "No message was refused.");
  place.append(list, sample, empty);
  let chosen = "";
  let last = null;
  function choose({ currentTarget: { dataset } }) {
    chosen = chosen === dataset.reason ? "" : dataset.reason;
    draw();
  }
  function draw() {
    const rows = Object.entries(last.reasons);
    empty.hidden = rows.length > 0;
    const most = Math.max(1, ...rows.map(([, number]) => number));
    refill(
      list,
      ...rows.map(([reason, number]) =>
        h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              "aria-pressed": String(reason === chosen),
              "data-reason": reason,
              onclick: choose,
            },
            h("span.reason", {}, reason),
            h("meter", { min: 0, max: most, value: number, "aria-hidden": "true" }),
            h("b", {}, count(number)),
          ),
        ),
      ),
    );
    const shown = last.sample
      .filter((each) => !chosen || each.reason === chosen)
      .slice(-3)
      .reverse();
    refill(
      sample,
      ...shown.map((each) =>
        h(
          "li",
          {},
          h(
            "p",
            {},
            h("b", {}, each.full_reason),
            ` ${clock(each.at_ms)} · ${each.topic} · partition ${each.partition}, offset ${each.offset}`,
          ),
          h("code", { tabindex: 0 }, each.excerpt || "(empty)"),
        ),
      ),
    );
  }
  return {
    show(board) {
      if (last === board.letters) return;
      last = board.letters;
      draw();
    },
  };
}

/** Jobs, lag, messages that are in no figure, what canaries show, and the latest verdicts. */
export function health(place) {
  const jobs = h("ul.jobs");
  const lag = h("p");
  const unread = h("p.problem");
  const canaries = h("p.verdict");
  const verdict = h("p.verdict");
  const findings = h("ol.findings", { "aria-label": "The latest verdicts" });
  place.append(jobs, lag, unread, canaries, verdict, findings);
  return {
    show(around, nowMs, unreadable) {
      setText(unread, unreadable ? `${counted(unreadable, "message")} that this page cannot read` : "");
      refill(
        jobs,
        ...around.jobs.map((job) => {
          const isWeb = job.web.startsWith("http://") || job.web.startsWith("https://");
          const name = isWeb
            ? h("a", { href: job.web, target: "_blank", rel: "noreferrer" }, job.engine)
            : h("b", {}, job.engine);
          return h(
            "li",
            {},
            h(`i.dot.${job.state === "running" ? "good" : job.state === "starting" ? "quiet" : "bad"}`),
            name,
            ` ${job.state}`,
            h(
              "small",
              {},
              counted(job.checkpoints, "checkpoint"),
              job.checkpointed_ms ? ` (the last one: ${ago(job.checkpointed_ms, nowMs)})` : "",
              `, ${counted(job.restarts ?? 0, "restart")}`,
              job.watermark_ms ? `, windows judged up to ${clock(job.watermark_ms)} (${ago(job.watermark_ms, nowMs)})` : "",
            ),
            job.problem ? h("p.problem", {}, job.problem) : null,
          );
        }),
      );
      setText(
        lag,
        around.lag === null || around.lag === undefined
          ? ""
          : `Behind the last checkpoint: ${counted(around.lag, "event")}`,
      );
      const alive = around.canaries;
      canaries.className = `verdict ${{ alive: "ok", silent: "failed" }[alive?.status] ?? "unknown"}`;
      refill(
        canaries,
        ...(alive
          ? [
              h("strong", {}, `${{ alive: "✓", silent: "✗" }[alive.status] ?? "?"} canaries ${alive.status}`),
              h("small", {}, alive.why),
            ]
          : []),
      );
      const found = around.verdict;
      const latest = found?.findings ?? [];
      findings.hidden = latest.length < 2;
      refill(
        findings,
        ...latest.map(({ status, at, why }) =>
          h("li", { title: why || null }, h("span", {}, when(Date.parse(at), nowMs)), h(`b.${status}`, {}, status), why),
        ),
      );
      if (!found) {
        verdict.className = "verdict none";
        refill(verdict, "No verdict yet: ", h("code", {}, "millrace validate"), " judges every alert.");
        return;
      }
      const failed = Object.entries(found.checks)
        .filter(([, status]) => status !== "ok")
        .map(([name, status]) => `${name}: ${status}`);
      verdict.className = `verdict ${found.status}`;
      const isOfLedger = Boolean(found.since_ms);
      const segments = isOfLedger ? ` from ${moment(found.since_ms, nowMs)} to ${moment(found.until_ms, nowMs)}, judged` : "";
      const why = found.causes?.length ? found.causes : failed;
      refill(
        verdict,
        h("strong", {}, `${{ ok: "✓", failed: "✗" }[found.status] ?? "?"} verdict ${found.status}`),
        `${segments} ${ago(Date.parse(found.at), nowMs)}, ${counted(Object.keys(found.checks).length, "check")} `,
        found.page
          ? h(
              "a",
              { href: `reports/${encodeURIComponent(found.page)}`, target: "_blank" },
              isOfLedger ? "last report" : "report",
            )
          : "",
        why.length ? h("small.line", { title: why.join("\n") }, why.join("; ")) : "",
      );
    },
  };
}
