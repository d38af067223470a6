// Numbers, times and units as people read them.

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const money = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** A whole number with thousands; from a hundred thousand on it is shortened. */
export const count = (value) => (value >= 100_000 ? short.format(value) : number.format(value));

/** So many of something. */
export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** A share of a whole. */
export const share = (value) => `${Math.round(100 * value)} %`;

/** Messages a second. */
export const rate = (value) => (value >= 100 ? number.format(Math.round(value)) : number.format(value));

/** A span of milliseconds. */
export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (Math.abs(ms) < 1_000) return `${number.format(ms)} ms`;
  if (Math.abs(ms) < 60_000) return `${number.format(ms / 1_000)} s`;
  if (Math.abs(ms) < 3_600_000) return `${number.format(ms / 60_000)} min`;
  return `${number.format(ms / 3_600_000)} h`;
}

/** How long ago, coarsely: it is read, not measured. */
export function ago(ms, nowMs) {
  const seconds = Math.max(0, Math.round((nowMs - ms) / 1_000));
  if (seconds < 2) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3_600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3_600)} h ago`;
  return `${Math.round(seconds / 86_400)} d ago`;
}

/** The time of day. */
export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");

/** Date and time, for events of another day. */
export function moment(ms, nowMs) {
  const at = new Date(ms);
  const isToday = at.toDateString() === new Date(nowMs).toDateString();
  const time = `${at.toLocaleTimeString("en-GB")}.${String(at.getMilliseconds()).padStart(3, "0")}`;
  return isToday ? time : `${at.toLocaleDateString("en-CA")} ${time}`;
}

/** The time of day; of another day the date as well. */
export function when(ms, nowMs) {
  const isToday = new Date(ms).toDateString() === new Date(nowMs).toDateString();
  return isToday ? clock(ms) : `${new Date(ms).toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock(ms)}`;
}

/** A value with the unit that its name declares. */
export function withUnit(value, unit) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (unit === "cents") return money.format(value / 100);
  if (unit === "ms") return value > 1e11 ? moment(value, Date.now()) : span(value);
  if (unit === "km") return `${number.format(value)} km`;
  if (unit === "bytes") return bytes(value);
  return number.format(value);
}

/** A value for an axis, where room is scarce. */
export function onAxis(value, unit) {
  if (value === null || value === undefined) return "";
  if (unit === "cents") return short.format(value / 100);
  if (unit === "bytes") return bytes(value);
  return short.format(value);
}

function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let step = 0;
  while (Math.abs(value) >= 1_000 && step < units.length - 1) {
    value /= 1_000;
    step += 1;
  }
  return `${number.format(value)} ${units[step]}`;
}
