// What the server has sent: patterns as declared, and the board of each that is provisioned.

const ALERTS_MOST = 1_000;
const POINTS_MOST = 600;
const SERIES_S = 300;
export const SERIES = ["in", "accepted", "refused", "alerts"];

export const store = {
  /** @type {Array<any>} */ patterns: [],
  /** @type {Object<string, any>} */ boards: {},
  /** @type {any} */ around: { kafka: { state: "starting" }, patterns: {} },
  nowMs: Date.now(),
  token: "",
};

/** Replaces everything: the first event of a connection. */
export function takeFull(full) {
  store.around = { ...store.around, ...full.around };
  store.nowMs = full.now_ms;
  store.token = full.token;
  store.boards = {};
  for (const [name, board] of Object.entries(full.boards)) store.boards[name] = begun(board);
}

/** Adds what has changed; false where the page lacks a board, and must begin anew. */
export function takeTick(tick) {
  store.around = { ...store.around, ...tick.around };
  store.nowMs = tick.now_ms;
  for (const name of Object.keys(store.boards)) if (!(name in tick.boards)) delete store.boards[name];
  let isWhole = true;
  for (const [name, change] of Object.entries(tick.boards)) {
    const board = store.boards[name];
    // Totals never shrink, but where the topics were made anew.
    if (!board || change.totals.in < board.totals.in) isWhole = false;
    else {
      const hasProgress = change.last_out_ms > board.last_out_ms || !(store.around.patterns[name]?.lag > 0);
      board.waitingMs = hasProgress ? 0 : board.waitingMs || tick.now_ms;
      board.behindMs = change.behind ? board.behindMs || tick.now_ms : 0;
      add(board, change);
    }
  }
  return isWhole;
}

function begun(board) {
  const byId = new Map(board.alerts.map((each) => [each.id, each]));
  return { ...board, byId, olderIds: new Set(), completed: 0, waitingMs: 0, behindMs: 0 };
}

function add(board, change) {
  const { series, alerts = [], points = [], marks = {}, ...rest } = change;
  Object.assign(board, rest);
  merge(board.series, series);
  for (const alert of alerts) {
    const kept = board.byId.get(alert.id);
    if (kept) {
      // It comes a second time once its event is there.
      if (alert.about && !kept.about) board.completed += 1;
      Object.assign(kept, alert);
      continue;
    }
    board.byId.set(alert.id, alert);
    board.alerts.push(alert);
    if (board.alerts.length > ALERTS_MOST) {
      const { id } = board.alerts.shift();
      board.byId.delete(id);
      delete board.marks[id];
    }
  }
  for (const [id, mark] of Object.entries(marks)) if (board.byId.has(id) || board.olderIds.has(id)) board.marks[id] = mark;
  board.points.push(...points);
  board.points.splice(0, board.points.length - POINTS_MOST);
}

/** Writes the last seconds over those that are there, and shifts what is too old out. */
function merge(kept, recent) {
  const length = recent[SERIES[0]].length;
  const end = recent.from_s + length;
  const from = Math.max(kept.from_s, end - SERIES_S);
  for (const name of SERIES) {
    const values = new Array(end - from).fill(0);
    kept[name].forEach((value, n) => {
      const at = kept.from_s + n - from;
      if (at >= 0 && at < values.length) values[at] = value;
    });
    recent[name].forEach((value, n) => {
      const at = recent.from_s + n - from;
      if (at >= 0) values[at] = value;
    });
    kept[name] = values;
  }
  kept.from_s = from;
}
