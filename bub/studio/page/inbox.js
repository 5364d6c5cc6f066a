// The inbox: what waits for its turn, answers on their way out, and what was set aside; try again, or drop.

import { get, part, post } from "./api.js";
import { announce, button, empty, find, h, problem, put, table, visible } from "./dom.js";
import { live } from "./feed.js";
import { away, moment } from "./format.js";

const PARTS = [
  ["dead", "Set aside", "Nothing was set aside.", "Bub could not finish these. Nothing of them is lost: let Bub try again, or drop them."],
  ["waiting", "Waiting", "No message waits.", "Messages that have come and have no answer yet."],
  ["outgoing", "Going out", "No answer is on its way.", "Answers that a channel has not taken yet."],
];

export function open(place) {
  return new Inbox(place);
}

class Inbox {
  constructor(place) {
    this.trouble = h("div");
    this.parts = PARTS.map(([name]) => [name, h("div")]);
    put(place, h("header", { class: "head" }, h("h1", null, "Inbox")), this.trouble,
      PARTS.map(([name, title, , words], index) => h("section", { class: "part", "aria-label": title }, h("h2", null, title), h("p", { class: "faint lead" }, words), this.parts[index][1])));
    this.load();
  }

  async load() {
    this.seen = JSON.stringify(live.inbox);
    try {
      const given = await get("inbox");
      const held = this.question?.contains(document.activeElement);
      for (const [index, [name, place]] of this.parts.entries()) put(place, this.rows(given[name] ?? [], name, PARTS[index]));
      if (held) this.question?.querySelector("button").focus();
    } catch (error) {
      put(this.trouble, problem(error));
    }
  }

  rows(rows, name, [, title, none]) {
    if (!rows.length) return empty(none);
    const shown = rows.slice(0, 100);
    return [table(title, [{ title: "Id" }, { title: "Time", class: "wide" }, { title: "Where" }, { title: "Message" }, { title: "Tried", class: "end wide" }],
      shown.map((row) => this.row(row, name)), { class: "inbox" }), rows.length > shown.length && h("p", { class: "faint" }, `The first 100 of ${rows.length} are shown.`)];
  }

  row(row, name) {
    const actions = h("div", { class: "buttons" });
    const focus = () => actions.querySelector("button").focus();
    const offer = () => name === "dead" && put(actions, button("Try again", () => settle("retry", "It is tried again."), { class: "button small" }),
      button("Drop …", () => { ask(); focus(); }, { class: "button plain small", "aria-label": `Drop ${row.id}` }));
    const ask = () => { // the question stays while the list is loaded again
      [this.asked, this.question] = [row.id, actions];
      put(actions, h("span", { class: "warn-text" }, "Drop it for good?"), button("Drop", () => settle("drop", "It is dropped."), { class: "button no small" }),
        button("Keep", () => { this.leave(); offer(); focus(); }, { class: "button plain small" }));
    };
    const settle = async (what, words) => {
      if (this.asked === row.id) this.leave();
      put(this.trouble);
      try {
        const { done } = await post(`inbox/${part(row.id)}/${what}`);
        announce(done ? words : "It is not there any more.");
        await this.load();
        find("main").focus({ preventScroll: true });
      } catch (error) {
        put(this.trouble, problem(error));
        offer();
      }
    };
    if (name === "dead" && this.asked === row.id) ask(); else offer();
    return h("tr", null, h("th", { scope: "row", class: "mono" }, row.id), h("td", { class: "wide nowrap", title: row.at ? away(row.at) : null }, moment(row.at)),
      h("td", null, visible([row.channel, row.chat].filter(Boolean).join(" · ")), row.kind && row.kind !== "normal" && h("span", { class: "faint" }, ` ${row.kind}`)),
      h("td", { class: "text" }, h("bdi", { class: "words" }, visible(String(row.text ?? "").slice(0, 600))), row.reason && h("div", { class: name === "dead" ? "bad-text" : "faint" }, visible(row.reason)), actions),
      h("td", { class: "end wide" }, row.attempts ? `${row.attempts}×` : ""));
  }

  leave() {
    this.asked = this.question = null;
  }

  update() {
    if (JSON.stringify(live.inbox) !== this.seen) this.load();
  }

  again() {
    this.load();
  }
}
