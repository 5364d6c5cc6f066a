// Tapes: a search over all of them, the sessions that have one, and one of them from its end backwards.

import { get, part } from "./api.js";
import { announce, button, empty, h, later, problem, put, visible } from "./dom.js";
import { away, plural } from "./format.js";
import { tape } from "./tape.js";
import { tabs } from "./turns.js";

const MANY = 60;

export function open(place, rest) {
  return new Tapes(place, rest);
}

class Tapes {
  constructor(place, rest) {
    this.place = place;
    this.query = "";
    this.rest(rest);
  }

  rest([session]) {
    this.session = session ?? "";
    this.found = h("div");
    const search = later(300, () => this.search());
    const input = h("input", { type: "search", "aria-label": this.session ? "Search this tape" : "Search all tapes", placeholder: this.session ? "Search this tape" : "Search all tapes", autocomplete: "off", "data-search": true, value: this.query,
      oninput: (event) => { this.query = event.target.value.trim(); search(); } });
    put(this.place, h("header", { class: "head" }, this.session && h("a", { href: "#/tapes", class: "back" }, "← Tapes"),
      h("h1", null, this.session ? h("bdi", { class: "mono" }, visible(this.session)) : "Tapes"), !this.session && tabs("tapes")),
    h("form", { class: "filters", role: "search", onsubmit: (event) => { event.preventDefault(); this.search(); } }, input), this.found);
    if (this.query) this.search();
    else this.list();
  }

  async list() {
    try {
      if (this.session) await this.read();
      else await this.readSessions();
    } catch (error) {
      put(this.found, problem(error));
    }
  }

  async readSessions(known = []) {
    const given = await get("sessions", { before: known.at(-1)?.at });
    const sessions = [...known, ...given.sessions];
    put(this.found, sessions.length ? h("ul", { class: "plain cards" }, sessions.map((each) => h("li", null, h("a", { class: "card-link", href: `#/tapes/${part(each.session)}` },
      h("b", { class: "mono" }, visible(each.session)), h("span", { class: "faint" }, [each.at ? away(each.at) : "", typeof each.turns !== "number" ? "" : plural(each.turns, "turn")].filter(Boolean).join(" · ")),
      h("bdi", { class: "words clip" }, visible(each.text ?? "")))))) : empty("No session has a tape yet."),
    given.more && h("p", null, button("Show older sessions", () => this.readSessions(sessions).catch((error) => put(this.found, problem(error))))));
  }

  async read() {
    let first;
    const entries = [], shown = h("div"), earlier = h("p");
    const more = async () => {
      const given = await get("tape", { session: this.session, before: first, limit: MANY });
      first = given.first ?? given.entries[0]?.id;
      entries.unshift(...given.entries);
      put(shown, tape(entries));
      put(earlier, given.more && button("Show earlier entries", () => more().catch((error) => put(earlier, problem(error)))));
    };
    await more();
    put(this.found, earlier, shown);
  }

  async search() {
    if (!this.query) return this.list();
    const wanted = this.query;
    let found, partial;
    try {
      ({ found, partial } = await get("search", { query: wanted, session: this.session }));
    } catch (error) {
      return put(this.found, problem(error));
    }
    if (wanted !== this.query) return null;
    announce(plural(found.length, "entry", "entries"));
    return put(this.found, partial && h("p", { class: "warn-text" }, "⚠ Not all tapes were looked through: that took too long."), found.length ? tape(found, (entry) => [" ", h("a", { href: `#/tapes/${part(entry.session)}`, onclick: () => { this.query = ""; } }, visible(entry.session))]) : empty(`Nothing on a tape has “${wanted}”.`));
  }

  escape() {
    if (!this.session) return false;
    location.hash = "#/tapes";
    return true;
  }
}
