// How numbers, times and states are written.

import { h } from "./dom.js";

const two = (number) => String(number).padStart(2, "0");

/** The time of day; with the day if that is not today. */
export function clock(at, seconds = true) {
  const date = new Date(at * 1000);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}${seconds ? `:${two(date.getSeconds())}` : ""}`;
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return date.toDateString() === new Date().toDateString() ? time : `${day} ${time}`;
}

export const moment = (at, seconds) => (at ? h("time", { datetime: new Date(at * 1000).toISOString() }, clock(at, seconds)) : "");

/** A duration, short: 0.4 ms, 320 ms, 1.2 s, 3 m 20 s, 2 h 5 m. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 0.00005) return "< 0.1 ms";
  if (seconds < 0.00095) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 0.995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${two(whole % 60)} s`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} m`;
  return `${Math.floor(whole / 86400)} days`;
}

/** How long ago, or how long until. */
export function away(at) {
  const seconds = at - Date.now() / 1000;
  return seconds >= 0 ? `in ${duration(seconds)}` : `${duration(-seconds)} ago`;
}

/** A count, short: 987, 12.3k, 4.1M. */
export function count(number) {
  if (number === null || number === undefined) return "";
  if (number < 1000) return String(Math.round(number));
  const [by, unit] = number < 999500 ? [1000, "k"] : [1e6, "M"];
  return `${(number / by).toFixed(number / by < 99.95 ? 1 : 0)}${unit}`;
}

export const plural = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

const SIGNS = { ok: "✓", failed: "✗", denied: "⊘", claimed: "◆", cancelled: "○", dropped: "○", running: "●" };
const TONES = { ok: "good", failed: "bad", denied: "warn", claimed: "violet", running: "busy" };

/** How something ended, or what it does now: a sign, a word and a colour. */
export function state(outcome, phase = "running") {
  const key = outcome || "running";
  return h("span", { class: `state ${TONES[key] ?? ""}` }, h("span", { "aria-hidden": "true" }, SIGNS[key] ?? "○"), " ", outcome || phase);
}

/** What a value is, on one line or several, for people. */
export const written = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");
