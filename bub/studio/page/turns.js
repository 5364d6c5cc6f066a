// Turns that run and those that ended last, as a table that follows them; one of them opens.

import { get, part } from "./api.js";
import { Rows, h, later, mark, problem, put, say, select, table, visible } from "./dom.js";
import { live } from "./feed.js";
import { clock, count, duration, plural, state } from "./format.js";
import { names, studio } from "./studio.js";
import { Turn } from "./turn.js";

const MOST = 100;
const filters = { state: "all", session: "", channel: "", profile: "", outcome: "", query: "" }; // they stay while other views are open

export function open(place, rest) {
  return new Turns(place, rest);
}

/** The two ways to look back: by turn, and by tape. */
export const tabs = (here) => h("ul", { class: "chips", "aria-label": "What is listed" }, [["turns", "Turns"], ["tapes", "Tapes"]].map(([name, title]) =>
  h("li", null, h("a", { href: `#/${name}`, "aria-current": name === here ? "true" : null }, title))));

class Turns {
  constructor(place, rest) {
    this.place = place;
    this.known = new Map();
    this.isHeld = false;
    this.read = later(200, () => this.load());
    this.rest(rest);
  }

  rest([id]) {
    this.turn?.close();
    this.turn = null;
    if (id) {
      this.last = id;
      this.turn = new Turn(this.place, id);
      this.list = null;
      return;
    }
    this.build();
    this.load();
  }

  build() {
    const change = (name) => (value) => {
      filters[name] = value;
      this.read();
    };
    const input = (name, label, attributes) => h("input", { type: "search", "aria-label": label, placeholder: label, value: filters[name], autocomplete: "off", oninput: (event) => change(name)(event.target.value.trim()), ...attributes });
    this.body = h("tbody");
    this.tell = h("p", { class: "faint" });
    this.trouble = h("div");
    this.hold = h("button", { type: "button", class: "button plain", "aria-pressed": "false", onclick: () => this.pause(!this.isHeld) }, "Hold");
    const made = table("Turns", [{ title: "Time" }, { title: "State" }, { title: "Message" }, { title: "From", class: "wide" }, { title: "Profile", class: "wide" },
      { title: "Took", class: "end" }, { title: "Tokens", class: "end wide" }, { title: "Tools", class: "end wide" }], [], { class: "turns" });
    made.querySelector("tbody").replaceWith(this.body);
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !event.target.closest("a") && !getSelection().toString()) row.querySelector("a").click();
    });
    put(this.place, h("header", { class: "head" }, h("h1", null, "Turns"), tabs("turns"), this.hold),
      h("form", { class: "filters", role: "search", "aria-label": "Filter turns", onsubmit: (event) => event.preventDefault() },
        input("query", "Message, session, chat, sender", { "data-search": true }),
        select([["all", "running and recent"], ["running", "running"], ["recent", "recent"]], filters.state, change("state"), { "aria-label": "State" }),
        select([["", "any outcome"], "ok", "failed", "denied", "claimed", "cancelled", "dropped"], filters.outcome, change("outcome"), { "aria-label": "Outcome" }),
        select([["", "any profile"], ...names()], filters.profile, change("profile"), { "aria-label": "Profile" }),
        input("channel", "Channel", { list: "turn-channels" }), h("datalist", { id: "turn-channels" }, studio.channels.map((channel) => h("option", { value: typeof channel === "string" ? channel : channel.name }))),
        input("session", "Session")),
      this.trouble, made, this.tell);
    this.list = new Rows(this.body, (row) => row.id, makeRow);
    this.show();
    const link = this.last && this.list.known.get(this.last)?.node.querySelector("a");
    if (link) link.focus();
  }

  pause(isHeld) {
    this.isHeld = isHeld;
    mark(this.hold, "aria-pressed", String(isHeld));
    if (!isHeld) this.show();
  }

  async load() {
    let given;
    try {
      given = await get("turns", { ...filters, limit: MOST });
    } catch (error) {
      if (this.list) put(this.trouble, problem(error));
      return;
    }
    if (!this.list) return;
    put(this.trouble);
    this.known = new Map(given.turns.map((row) => [row.id, row]));
    this.show();
  }

  again() {
    if (this.turn) this.turn.refresh();
    else this.load();
  }

  update(batch) {
    if (this.turn) return this.turn.update(batch);
    for (const [id, row] of batch.turns) {
      if (fits(row)) this.known.set(id, row);
      else this.known.delete(id);
    }
    for (const id of batch.gone) this.known.delete(id);
    if (!this.isHeld && (batch.turns.size || batch.gone.size)) this.show();
    return undefined;
  }

  show() {
    const rows = [...this.known.values()].sort((one, other) => other.at - one.at || (one.id < other.id ? 1 : -1));
    this.known = new Map(rows.slice(0, MOST).map((row) => [row.id, row]));
    this.list.show(rows.slice(0, MOST));
    const running = filters.state === "recent" ? "" : live.count ? `${plural(live.count, "turn")} running in all. ` : "No turn runs now. ";
    say(this.tell, rows.length ? `${running}${rows.length >= MOST ? `The latest ${MOST} are shown; filters find others.` : ""}` : "");
    if (!rows.length) {
      const is = Object.entries(filters).some(([name, value]) => value && value !== "all" && name);
      say(this.tell, is ? "No turn fits these filters." : "No turn has run since Bub started. Say something in the chat, and it shows here.");
    }
  }

  escape() {
    if (!this.turn) return false;
    location.hash = "#/turns";
    return true;
  }

  close() {
    this.turn?.close();
    this.read.cancel();
    this.list = null;
  }
}

function fits(row) {
  const isOver = row.phase === "over";
  const is = (name) => !filters[name] || row[name] === filters[name];
  const has = (text) => String(text ?? "").toLowerCase().includes(filters.query.toLowerCase());
  return (filters.state === "all" || (filters.state === "running") !== isOver)
    && is("outcome") && is("profile") && is("channel") && is("session") && [row.text, row.session, row.chat, row.sender, row.id].some(has);
}

function makeRow(row) {
  const cells = Object.fromEntries(["state", "text", "from", "profile", "took", "tokens", "tools"].map((name) =>
    [name, h("td", { class: { took: "end", tokens: "end wide", tools: "end wide", from: "wide from", profile: "wide", text: "text" }[name] ?? null })]));
  const node = h("tr", null, h("th", { scope: "row" }, h("a", { href: `#/turns/${part(row.id)}` }, clock(row.at))), Object.values(cells));
  let now = "";
  return { node, set(row) {
    const where = row.phase === "over" ? row.outcome : row.stages_now?.join(", ") || row.phase;
    if (where !== now) put(cells.state, state(row.phase === "over" ? row.outcome || "ok" : "", (now = where)));
    if (cells.text.said !== row.text) put(cells.text, h("bdi", null, visible((cells.text.said = row.text) || "–")));
    say(cells.from, [row.channel, row.chat, row.sender].filter(Boolean).join(" · "));
    say(cells.profile, row.profile ?? "");
    say(cells.took, duration(row.phase === "over" ? row.seconds : Math.max(row.seconds ?? 0, 0)));
    say(cells.tokens, row.tokens?.some(Boolean) ? `${count(row.tokens[0])} / ${count(row.tokens[1])}` : "");
    say(cells.tools, row.tools ? String(row.tools) : "");
  } };
}

