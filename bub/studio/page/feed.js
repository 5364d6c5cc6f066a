// What happens now, as the server sends it: merged between two frames, kept in bounded tables, handed to who listens.

import { get, mark } from "./api.js";

const MOST_TURNS = 1500;

/** What is known now. `turns` has rows by id, the latest changed one last. */
export const live = {
  state: "connecting", at: 0, running: {}, numbers: Object.create(null), turns: new Map(), count: 0, approvals: 0,
  inbox: { waiting: 0, outgoing: 0, dead: 0 }, health: "", reload: 0,
};

const listeners = new Set();
let source = null, pending = null, timer = 0, wait = 1000, isFirst = true;

/** Call `listener(batch)` once a frame at most; returns how to stop that. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const nothing = () => ({ turns: new Map(), gone: new Set(), chat: [], numbers: Object.create(null), again: false });

function take(batch) {
  pending ??= nothing();
  live.at = batch.at ?? live.at;
  if (batch.running) live.running = batch.running;
  for (const [profile, stages] of Object.entries(batch.numbers ?? {})) {
    Object.assign((live.numbers[profile] ??= {}), stages);
    Object.assign((pending.numbers[profile] ??= {}), stages);
  }
  for (const row of batch.turns?.changed ?? []) {
    row.isOld = isFirst;
    if (!pending.turns.has(row.id)) row.before = live.turns.get(row.id)?.stages_now;
    else row.before = pending.turns.get(row.id).before;
    live.turns.delete(row.id);
    live.turns.set(row.id, row);
    pending.turns.set(row.id, row);
  }
  for (const id of batch.turns?.gone ?? []) {
    live.turns.delete(id);
    pending.gone.add(id);
  }
  for (const id of live.turns.keys()) {
    if (live.turns.size <= MOST_TURNS) break;
    live.turns.delete(id);
  }
  isFirst = false;
  if (batch.chat?.length) pending.chat.push(...batch.chat);
  for (const [name, key] of [["live", "count"], ["approvals", "approvals"], ["inbox", "inbox"], ["health", "health"], ["reload", "reload"]]) {
    if (batch[name] !== undefined && batch[name] !== null) live[key] = batch[name];
  }
  soon();
}

function soon() {
  if (timer) return;
  timer = document.hidden ? setTimeout(flush, 1000) : requestAnimationFrame(flush);
}

function flush() {
  timer = 0;
  const batch = pending ?? nothing();
  pending = null;
  for (const listener of [...listeners]) {
    try {
      listener(batch);
    } catch (error) {
      console.error(error);
    }
  }
}

function turnTo(state) {
  if (live.state === state) return;
  live.state = state;
  soon();
}

/** Begin to read; goes on by itself after a loss, and asks who we are if the server wants nothing of us. */
export function connect() {
  source?.close();
  source = new EventSource(`api/feed?mark=${mark()}`);
  source.onopen = () => {
    wait = 1000;
    isFirst = true; // what comes first has happened before
    if (live.state === "lost") (pending ??= nothing()).again = true;
    turnTo("live");
  };
  source.addEventListener("batch", (event) => take(JSON.parse(event.data)));
  source.onerror = () => {
    turnTo("lost");
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(async () => {
      try {
        await get("state");
      } catch (error) {
        if (error.isStranger) return;
      }
      if (source?.readyState === EventSource.CLOSED) connect();
    }, wait);
    wait = Math.min(wait * 2, 15000);
  };
}

export function disconnect() {
  source?.close();
  source = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden || !timer) return;
  clearTimeout(timer);
  cancelAnimationFrame(timer);
  flush();
});
