// One turn, opened: its stages and what it did in them on a time line, and the tape around it.

import { get, part } from "./api.js";
import { Rows, empty, facts, h, problem, put, s, say, seldom, table, visible } from "./dom.js";
import { count, duration, moment, state } from "./format.js";
import { item } from "./tape.js";

const TOLD = new Set(["input_tokens", "output_tokens", "input", "output", "tokens", "first", "took", "session", "address", "port", "call_id", "id"]);
const KINDS = { model: "model", tool: "tool", server: "MCP", gate: "gate", implementation: "plugin" };

export class Turn {
  constructor(place, id) {
    this.id = id;
    this.title = h("h1", { tabindex: "-1" }, "Turn");
    this.facts = h("div");
    this.line = h("div", null, h("p", { class: "faint" }, "…"));
    [this.took, this.tokens, this.tools] = [h("span"), h("span"), h("span")];
    const list = h("ol", { class: "tape" });
    this.none = empty("There is nothing on the tape.");
    this.entries = new Rows(list, (entry) => entry.id, (entry) => ({ node: item(entry), set: () => null }));
    put(place, h("header", { class: "head" }, h("a", { href: "#/turns", class: "back", title: "Back (Esc)" }, "← Turns"), this.title), this.facts,
      h("div", { class: "halves" }, h("section", { "aria-label": "Time line" }, h("h2", null, "Time line"), this.line), h("section", { "aria-label": "Tape" }, h("h2", null, "Tape"), this.none, list)));
    this.refresh = seldom(1000, () => this.read());
    this.timer = setInterval(() => this.isRunning && !document.hidden && this.refresh(), 2000);
    this.read().then(() => this.isClosed || this.title.focus({ preventScroll: true }));
  }

  close() {
    this.isClosed = true;
    clearInterval(this.timer);
    this.refresh.cancel();
  }

  update(batch) {
    if (batch.turns.has(this.id) || (this.isRunning && batch.chat.length)) this.refresh();
  }

  async read() {
    let turn;
    try {
      turn = await get(`turns/${part(this.id)}`);
    } catch (error) {
      if (!this.isClosed) put(this.line, problem(error));
      return;
    }
    if (this.isClosed) return;
    this.isRunning = turn.phase !== "over";
    this.show(turn);
    put(this.line, timeLine(turn));
    this.entries.show(turn.tape ?? []);
    this.none.hidden = Boolean(turn.tape?.length);
  }

  /** What there is to say of the turn; links stay as long as they lead to the same, so that they keep the focus. */
  show(turn) {
    say(this.took, duration(turn.seconds));
    say(this.tokens, turn.tokens?.some(Boolean) ? `${count(turn.tokens[0])} in, ${count(turn.tokens[1])} out` : "none");
    say(this.tools, String(turn.tools ?? 0));
    const seen = JSON.stringify([turn.phase, turn.outcome, turn.session, turn.profile, turn.error]);
    if (seen === this.seen) return;
    this.seen = seen;
    put(this.title, state(this.isRunning ? "" : turn.outcome || "ok", turn.phase), " ", h("bdi", { class: "said" }, visible(turn.text || "Turn")));
    put(this.facts, facts([
      ["began", moment(turn.at)], ["took", this.took], ["profile", turn.profile && h("a", { href: `#/graph/${part(turn.profile)}` }, turn.profile)],
      ["session", turn.session && h("a", { href: `#/tapes/${part(turn.session)}` }, visible(turn.session))], ["from", visible([turn.channel, turn.chat, turn.sender].filter(Boolean).join(" · "))],
      ["tokens", this.tokens], ["tools", this.tools],
      ["started by", turn.above && h("a", { href: `#/turns/${part(turn.above)}` }, turn.above)], ["id", h("code", null, turn.id)]]),
    turn.error && h("div", { class: "problem" }, h("pre", { class: "wrap" }, visible(typeof turn.error === "string" ? turn.error : turn.error.text ?? JSON.stringify(turn.error)))));
  }
}

/** The stages as rows, what happened in each below it; a bar says when, against the whole turn. */
function timeLine(turn) {
  const stages = turn.stages ?? [], activities = turn.activities ?? [];
  if (!stages.length && !activities.length) return empty("No stage has run yet.");
  const whole = Math.max(turn.seconds ?? 0, ...[...stages, ...activities].map((each) => (each.start ?? 0) + (each.seconds ?? 0)), 1e-6);
  const below = new Map();
  const ids = new Set(activities.map((each) => each.id));
  for (const each of activities) {
    const under = each.parent && ids.has(each.parent) ? each.parent : `stage ${each.stage}`;
    below.set(under, [...(below.get(under) ?? []), each]);
  }
  const rows = [], seen = new Set();
  const addActivities = (under, depth) => {
    for (const each of below.get(under) ?? []) {
      if (seen.has(each)) continue;
      seen.add(each);
      rows.push(bar(each, whole, turn.seconds, Math.min(depth, 4), `${KINDS[each.kind] ?? each.kind}`, each.name, said(each)));
      addActivities(each.id, depth + 1);
    }
  };
  const told = new Set();
  for (const stage of [...stages].sort((one, other) => one.start - other.start)) {
    rows.push(bar(stage, whole, turn.seconds, 0, "", stage.id, stage.who ? [].concat(stage.who).join(", ") : ""));
    if (!told.has(stage.id)) addActivities(`stage ${stage.id}`, 1);
    told.add(stage.id);
  }
  for (const under of [...below.keys()]) addActivities(under, 1);
  return [table("Stages and what happened in them", [{ title: "What" }, { title: h("span", null, "When", h("span", { class: "faint" }, ` 0 – ${duration(whole)}`)), class: "when" }, { title: "Took", class: "end" }], rows, { class: "line" })];
}

function bar(each, whole, sofar, depth, kind, name, words) {
  const isOpen = each.seconds === null || each.seconds === undefined;
  const start = Math.max(0, Math.min((each.start ?? 0) / whole, 0.998));
  const width = Math.max(((isOpen ? (sofar ?? whole) - each.start : each.seconds) ?? 0) / whole, 0.004);
  const outcome = each.outcome || (isOpen ? "running" : "ok");
  const per = (part) => `${(part * 100).toFixed(2)}%`;
  return h("tr", { class: depth ? `depth-${depth}` : "stage-row" },
    h("th", { scope: "row" }, kind && h("span", { class: `tag tag-${kind}` }, kind), h("span", { class: "mono" }, visible(name)), !depth && words && h("span", { class: "faint small" }, " ", words), outcome !== "ok" && [" ", state(outcome === "running" ? "" : outcome)], depth > 0 && words && h("div", { class: "faint small" }, words)),
    h("td", { class: "when" }, s("svg", { class: "bar-line", width: "100%", height: 14, "aria-hidden": "true" }, s("rect", { class: "track", x: 0, y: 6.5, width: "100%", height: 1 }),
      s("rect", { class: `span ${outcome} ${kind || "stage"}`, x: per(start), y: depth ? 4 : 2, width: per(Math.min(width, 1 - start)), height: depth ? 6 : 10, rx: 2 })),
    h("span", { class: "sr" }, `began after ${duration(each.start ?? 0)}`)),
    h("td", { class: "end nowrap" }, isOpen ? "…" : duration(each.seconds)));
}

/** The small facts of an activity, in words. */
function said(each) {
  const data = { ...each.data };
  const words = [];
  const [input, output] = [data.input_tokens ?? data.input ?? data.tokens?.[0], data.output_tokens ?? data.output ?? data.tokens?.[1]];
  if (typeof input === "number" || typeof output === "number") words.push(`${count(input ?? 0)} tokens in, ${count(output ?? 0)} out`);
  if (typeof data.first === "number") words.push(`began to answer after ${duration(data.first)}`);
  if (typeof data.took === "number" && each.seconds - data.took > 0.05) words.push(`worked ${duration(data.took)} of it`);
  for (const [name, value] of Object.entries(data)) {
    if (value && !TOLD.has(name)) words.push(`${name.replaceAll("_", " ")}: ${typeof value === "object" ? JSON.stringify(value) : value}`);
  }
  return visible(words.join(" · "));
}
