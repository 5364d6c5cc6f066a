// One stage, opened: what `bub explain` says, the lines of the file, who implements it, its numbers, its last errors.

import { get, part } from "./api.js";
import { empty, h, problem, put, seldom, table, visible } from "./dom.js";
import { count, duration, moment } from "./format.js";

export class StagePanel {
  constructor(profile, id, close) {
    this.profile = profile;
    this.id = id;
    this.title = h("h2", { class: "mono", tabindex: "-1" }, id);
    this.numbers = h("div", { class: "numbers" });
    this.errors = h("div");
    this.body = h("div", null, h("p", { class: "faint" }, "…"));
    this.element = h("section", { class: "block panel" },
      h("header", { class: "head" }, this.title, h("button", { type: "button", class: "quiet", "aria-label": "Close the stage", title: "Close (Esc)", onclick: close }, h("span", { "aria-hidden": "true" }, "✕"))),
      this.numbers, this.body);
    this.refresh = seldom(2000, () => this.read(false));
    this.read(true);
  }

  focus() {
    this.title.focus({ preventScroll: matchMedia("(min-width: 900px)").matches });
  }

  close() {
    this.isClosed = true;
    this.refresh.cancel();
  }

  async read(isFirst) {
    let stage;
    try {
      stage = await get("stage", { profile: this.profile, stage: this.id });
    } catch (error) {
      if (isFirst) put(this.body, problem(error));
      return;
    }
    if (this.isClosed) return;
    this.showNumbers(stage.numbers);
    this.showErrors(stage.errors ?? []);
    if (isFirst) put(this.body, explained(stage), this.errors, (stage.sources ?? [stage.source]).map(source), implementers(stage.implementers ?? []), keys(stage.keys ?? []));
  }

  showNumbers(numbers) {
    if (!numbers) return;
    const told = [["done", count(numbers.count)], ["running", count(numbers.running)], ["failed", count(numbers.failed)],
      ["p50", duration(numbers.p50)], ["p95", duration(numbers.p95)], ["p99", duration(numbers.p99)]];
    put(this.numbers, h("dl", { class: "tiles" }, told.map(([name, value]) =>
      h("div", { class: name === "failed" && numbers.failed ? "bad" : null }, h("dt", null, name), h("dd", null, value || "–")))));
  }

  showErrors(errors) {
    const seen = JSON.stringify(errors);
    if (seen === this.seen) return null;
    this.seen = seen;
    if (!errors.length) return put(this.errors);
    return put(this.errors, h("h3", null, "Last errors"), h("ul", { class: "plain errors" }, errors.map((error) => h("li", null,
      h("p", { class: "faint" }, moment(error.at), error.turn && [" · ", h("a", { href: `#/turns/${part(error.turn)}` }, "its turn")]),
      h("pre", { class: "wrap bad" }, visible(error.text))))));
  }
}

const explained = (stage) => h("pre", { class: "explain", tabindex: "0", "aria-label": "As `bub explain` prints it" }, visible(stage.explain ?? ""));

/** Lines of a file with their numbers. */
export function source(from) {
  if (!from?.lines?.length) return null;
  return [h("h3", null, h("bdi", { class: "mono" }, visible(from.file)), h("span", { class: "faint" }, `:${from.first}`), from.layer && from.layer !== from.file && h("span", { class: "faint" }, " ", visible(from.layer))),
    h("pre", { class: "code", tabindex: "0", "aria-label": `Lines of ${from.file}` }, from.lines.map((line, index) =>
      h("span", { class: "line" }, h("span", { class: "number", "aria-hidden": "true" }, from.first + index), h("span", null, coloured(line), "\n"))))];
}

/** A line of YAML, with its comment, key and quoted text marked. */
function coloured(line) {
  const [, lead, key, colon, rest] = /^(\s*(?:- )?)([\w.$-]+)?(:(?=\s|$))?(.*)$/s.exec(line) ?? [null, "", "", "", line];
  if (!key || !colon) return valueOf(line);
  return [lead, h("span", { class: "y-key" }, key), colon, valueOf(rest)];
}

function valueOf(text) {
  const comment = /(^|\s)#.*$/.exec(text);
  const value = comment ? text.slice(0, comment.index) : text;
  const shown = value.split(/("(?:[^"\\]|\\.)*"|'[^']*'|\$\{[^}]*\})/).map((piece, index) => (index % 2 ? h("span", { class: "y-text" }, visible(piece)) : visible(piece)));
  return [shown, comment && h("span", { class: "y-comment" }, visible(comment[0]))];
}

function implementers(all) {
  return [h("h3", null, "Who implements it, in order"), all.length
    ? h("ol", { class: "plain rows" }, all.map((each) => h("li", null, h("b", null, each.plugin), h("span", { class: "faint" }, ` ${each.hook} `),
      each.file && h("span", { class: "faint mono small" }, visible(`${each.file}${each.line ? `:${each.line}` : ""}`)))))
    : empty("Nobody does.")];
}

function keys(all) {
  if (!all.length) return null;
  return [h("h3", null, "Keys"), table("Keys of the stage", [{ title: "Key" }, { title: "Value" }, { title: "From" }], all.map((key) =>
    h("tr", null, h("th", { scope: "row", class: "mono", title: key.meaning }, key.name), h("td", { class: "mono wrap" }, visible(typeof key.value === "string" ? key.value : JSON.stringify(key.value))),
      h("td", { class: "faint small mono" }, key.file ? visible(`${key.file}:${key.line}`) : "default"))), { class: "small" })];
}

