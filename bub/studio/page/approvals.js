// What waits for a yes: the very arguments of each call, who may answer, until when, and the two buttons.

import { get, part, post } from "./api.js";
import { Rows, announce, button, facts, h, problem, put, scrolls, visible } from "./dom.js";
import { live } from "./feed.js";
import { away, moment, written } from "./format.js";

const MUCH = 6000; // characters that are shown at once; a yes to more needs a second step

export function open(place) {
  return new Approvals(place);
}

class Approvals {
  constructor(place) {
    this.list = h("div", { class: "asks" });
    this.none = h("div");
    this.trouble = h("div");
    this.cards = new Rows(this.list, (row) => row.id, (row) => card(row, () => this.load()));
    put(place, h("header", { class: "head" }, h("h1", null, "Approvals")),
      h("p", { class: "faint lead" }, "A yes counts once, for just these arguments. Characters that nobody would see are shown as escapes, such as ", h("span", { class: "escape" }, "\\u202e"), "."),
      this.trouble, this.none, this.list);
    this.number = live.approvals;
    this.load();
    let second = 0;
    this.timer = setInterval(() => {
      this.cards.known.forEach((kept) => kept.tick());
      if ((second += 1) % 5 === 0 && !document.hidden) this.load();
    }, 1000);
  }

  async load() {
    try {
      const { open: rows } = await get("approvals");
      if (this.isClosed) return;
      put(this.trouble);
      this.show(rows);
    } catch (error) {
      put(this.trouble, problem(error));
    }
  }

  show(rows) {
    const answered = [...this.cards.known.values()].filter((kept) => kept.isAnswered && !rows.some((row) => row.id === kept.row.id)).map((kept) => kept.row);
    this.cards.show([...rows, ...answered]);
    put(this.none, !rows.length && h("p", { class: "empty" }, "Nothing waits for an answer. A tool that needs a yes shows up here, and in the title of this page."));
  }

  update() {
    if (live.approvals === this.number) return;
    this.number = live.approvals;
    this.load();
  }

  again() {
    this.load();
  }

  close() {
    this.isClosed = true;
    clearInterval(this.timer);
  }
}

/** The card of one question: {node, set(row), tick()}. */
export function card(row, answered) {
  const node = h("article", { class: "ask", tabindex: "-1", "aria-label": `${row.tool || row.asker}, waits for an answer` });
  const kept = { node, row: null, isAnswered: false, set: (fresh) => kept.isAnswered || draw(fresh), tick: () => null };

  function draw(row) {
    const until = h("span");
    kept.tick = () => {
      const isLate = row.until && row.until < Date.now() / 1000;
      until.textContent = row.until ? (isLate ? "too late" : away(row.until)) : "no limit";
    };
    kept.tick();
    const told = h("p", { class: "result" });
    const shown = argumentsOf(row);
    const size = shown.reduce((sum, { text }) => sum + text.length, 0);
    let hasSeen = size <= MUCH;
    const yes = button("Yes", () => decide(true), { class: "button yes" });
    const no = button("No", () => decide(false), { class: "button no" });
    const buttons = h("div", { class: "buttons" }, yes, no);
    const pairs = h("dl");
    let left = hasSeen ? Infinity : MUCH;
    const rest = [];
    for (const { name, text } of shown) {
      const value = h("dd", null, h("pre", { class: "wrap", dir: "ltr" }, visible(text.slice(0, left)), text.length > left && h("span", { class: "faint" }, ` … ${(text.length - left).toLocaleString("en")} characters more`)));
      if (text.length > left) rest.push(() => put(value, h("pre", { class: "wrap", dir: "ltr" }, visible(text))));
      left = Math.max(0, left - text.length);
      pairs.append(h("div", null, h("dt", { class: name ? null : "sr" }, name ? visible(name) : "Arguments"), value));
    }
    const more = !hasSeen && button(`Show all ${size.toLocaleString("en")} characters`, (event) => {
      rest.forEach((show) => show());
      hasSeen = true;
      event.target.remove();
    }, { class: "button plain" });

    async function decide(isYes, isSure = false) {
      if (isYes && !hasSeen && !isSure) {
        put(buttons, h("p", { class: "warn-text" }, "You have not seen all of the arguments. A yes is to all of them."),
          button("Yes, to what is not shown as well", () => decide(true, true), { class: "button yes" }), button("Back", () => { put(buttons, yes, no); yes.focus(); }, { class: "button plain" }));
        buttons.querySelector("button").focus();
        return;
      }
      for (const each of buttons.querySelectorAll("button")) each.disabled = true;
      try {
        const said = await post(`approvals/${part(row.id)}`, { yes: isYes });
        kept.isAnswered = true;
        const words = said?.words || (isYes ? "You said yes." : "You said no.");
        put(buttons);
        told.textContent = words;
        node.classList.add("is-over");
        node.focus();
        announce(words);
        answered?.();
      } catch (error) {
        put(buttons, yes, no);
        yes.disabled = no.disabled = false;
        put(told, problem(error));
      }
    }

    put(node, h("header", null, h("h2", null, row.asker ? [visible(row.asker), " asks"] : h("code", null, visible(row.tool))), h("span", { class: "faint" }, until)),
      row.again && h("p", { class: "warn-text" }, "⚠ Bub called it before the process ended, and nobody knows whether that call took effect."),
      row.why && !String(row.arguments).includes(row.why) && h("p", { class: "warn-text" }, "⚠ ", visible(row.why)),
      row.text && !row.form && h("p", { class: "words faint" }, firstLine(row.text).split("`").map((piece, index) => (index % 2 ? h("code", null, visible(piece)) : visible(piece)))), formOf(row.form),
      scrolls("Arguments", { class: "arguments" }, pairs), more,
      h("details", null, h("summary", null, "Where it comes from"), facts([["profile", row.profile], ["session", visible(row.session)], ["from", visible([row.channel, row.chat].filter(Boolean).join(" · "))], ["asked", moment(row.at)],
        ["until", moment(row.until)], ["who may answer", `you${approvers(row.approvers)}`], ["id", row.id]])),
      buttons, told);
  }

  return kept;
}

const firstLine = (text) => text.split("\n", 1)[0];

function argumentsOf(row) {
  const given = row.arguments;
  if (given && typeof given === "object" && !Array.isArray(given)) return Object.entries(given).map(([name, value]) => ({ name, text: written(value) }));
  return given === null || given === undefined || given === "" ? [] : [{ name: "", text: written(given) }];
}

function formOf(form) {
  if (!form) return null;
  if (typeof form === "string") return h("div", { class: "words" }, visible(form));
  const queries = form.queries ?? [];
  return h("div", null, h("p", { class: "words" }, visible(form.message ?? form.text ?? "")), form.address && h("p", null, "It wants you to open: ", h("code", { class: "wrap" }, visible(form.address))),
    queries.length > 0 && h("ul", null, queries.map((query) => h("li", null, visible(query.title ?? query.name ?? String(query))))),
    queries.length > 1 && h("p", { class: "faint" }, "It wants more than a yes or a no: Bub's terminal can fill it in. A no declines it."));
}

function approvers(all) {
  const names = (all ?? []).map((each) => (Array.isArray(each) ? each.join(" ") : String(each)));
  return names.length ? `, and ${names.join(", ")}` : "";
}
