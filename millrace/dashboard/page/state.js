// How a pattern is, in a word and a sentence, from what the server has sent.

import { ago, clock, counted } from "../charts/format.js";

const QUIET_AFTER_MS = 10_000;
const STUCK_AFTER_MS = 30_000;
/** As long as the alert waits: `deploy` and `upgrade` stop a job and start the next one. */
const DOWN_AFTER_MS = 60_000;
/** As long as the alert on a ledger without a new entry waits. */
const JUDGED_WITHIN_MS = 690_000;
/** The server looks at jobs, lag and verdicts every two seconds; one that does not answer delays a look. */
const LOOKED_WITHIN_MS = 30_000;
/** A reader that keeps up has read, at one of two ticks, all that the last look found in Kafka. */
const READ_WITHIN_MS = 10_000;

const isUnlooked = (store) => store.around.looked_ms && store.nowMs - store.around.looked_ms > LOOKED_WITHIN_MS;
const isBehind = (board, store) => board?.behindMs && store.nowMs - board.behindMs > READ_WITHIN_MS;

/** Why figures are not as of now though the server of the page answers, a sentence each. */
export function stale(store) {
  const found = [];
  if (isUnlooked(store))
    found.push(`Jobs, lag and verdicts are as of ${clock(store.around.looked_ms)}: the server of this page has not looked at them since.`);
  if (store.around.kafka?.state === "down") return found;
  for (const [name, board] of Object.entries(store.boards))
    if (isBehind(board, store)) found.push(`The page is behind Kafka: ${unread(board, name)}`);
  return found;
}

const unread = ({ behind }, name) => `${counted(behind, "message")} of ${name} ${behind === 1 ? "is" : "are"} in no figure yet.`;

/** @returns {{level: "good"|"quiet"|"bad"|"off", word: string, text: string, remedy?: string}} */
export function stateOf(name, store) {
  const found = store.around.patterns?.[name];
  const board = store.boards[name];
  if (!found) return { level: "off", word: "waiting", text: "The first look at this pattern is under way." };
  if (isUnlooked(store)) {
    return { level: "bad", word: "not looked at", text: `Its jobs, lag and verdict are as of ${clock(store.around.looked_ms)}.` };
  }
  if (store.around.kafka.state === "down") {
    const text = board
      ? `Its figures are as of ${clock(store.around.kafka.since_ms)}.`
      : "Without Kafka nothing is known of it.";
    return { level: "bad", word: "no Kafka", text };
  }
  if (!found.is_provisioned) {
    return {
      level: "off",
      word: "not deployed",
      text: "This pattern has no topics yet.",
      remedy: `millrace provision ${name}`,
    };
  }
  if (!found.is_deployed) {
    return {
      level: "off",
      word: "not deployed",
      text: "Its topics exist, and no job reads them.",
      remedy: `millrace deploy ${name}`,
    };
  }
  if (found.missing.length) {
    return {
      level: "bad",
      word: "no topic",
      text: `Kafka has no topic ${found.missing.join(", ")}.`,
      remedy: `millrace provision ${name}`,
    };
  }
  const sick = found.jobs.find((job) =>
    ["degraded", "crash-looping", "stalled", "failed", "given-up", "unknown"].includes(job.state),
  );
  if (sick) {
    const text = `The job of ${sick.engine || "an engine"} is ${sick.state}${sick.problem ? `: ${sick.problem}` : "."}`;
    return { level: "bad", word: sick.state, text, remedy: `millrace jobs ${name}` };
  }
  const down = found.jobs.find((job) => job.down_since_ms);
  if (down) {
    const text = `The job of ${down.engine} is ${down.state} since ${clock(down.down_since_ms)}`;
    return store.nowMs - down.down_since_ms > DOWN_AFTER_MS
      ? { level: "bad", word: down.state, text: `${text}.`, remedy: `millrace deploy ${name}` }
      : { level: "quiet", word: down.state, text: `${text}; a deploy or the watcher may be starting it.` };
  }
  if (isBehind(board, store)) {
    return { level: "bad", word: "behind", text: `The page is behind Kafka: ${unread(board, name)}` };
  }
  if (!board || !board.totals.in) {
    return {
      level: "quiet",
      word: "empty",
      text: "It runs, and no event has arrived yet.",
      remedy: `millrace traffic ${name} --rate 100`,
    };
  }
  if (board.waitingMs && store.nowMs - board.waitingMs > STUCK_AFTER_MS) {
    const text = `${counted(found.lag, "event")} ${found.lag === 1 ? "waits" : "wait"}, and nothing was judged since ${clock(board.waitingMs)}.`;
    return { level: "bad", word: "stuck", text, remedy: `millrace jobs ${name}` };
  }
  const unjudgedMs = found.judged_ms ? store.nowMs - found.judged_ms : 0;
  if (unjudgedMs > JUDGED_WITHIN_MS) {
    const text = `The verdict is ${Math.floor(unjudgedMs / 60_000)} min old: its ledger has no entry since ${clock(found.judged_ms)}.`;
    return { level: "bad", word: "not judged", text, remedy: `millrace verdicts ${name}` };
  }
  if (["failed", "unknown"].includes(found.verdict?.status)) {
    const { status, at } = found.verdict;
    const text = `Its verdict of ${clock(Date.parse(at))} is ${status}.`;
    const verdict = { level: "bad", word: `verdict ${status}`, text };
    return found.judged_ms
      ? { ...verdict, remedy: `millrace verdicts ${name}` }
      : { ...verdict, remedy: `millrace validate ${name}` };
  }
  if (found.canaries?.status === "silent") {
    const text = `Canaries set off no alert of a rule: ${found.canaries.why}.`;
    return { level: "bad", word: "silent", text, remedy: `millrace canaries ${name} --status` };
  }
  if (store.nowMs - board.last_in_ms > QUIET_AFTER_MS) {
    return {
      level: "quiet",
      word: "quiet",
      text: `The last event came ${ago(board.last_in_ms, store.nowMs)}, at ${clock(board.last_in_ms)}.`,
    };
  }
  return { level: "good", word: "live", text: "Events flow." };
}
