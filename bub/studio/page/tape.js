// Entries of a tape, as people read them.

import { empty, h, visible } from "./dom.js";
import { moment, written } from "./format.js";

const LONG = 700;
/** How much is shown of the system prompt, which people know and which is above what was said. */
const SHORT = 120;

/** A list of entries; `more(entry)` may add something to the head of each. */
export function tape(entries, more) {
  if (!entries.length) return empty("There is nothing on the tape.");
  return h("ol", { class: "tape" }, entries.map((entry) => item(entry, more)));
}

/** One entry as an item of a list. */
export function item(entry, more) {
  return h("li", { class: `entry ${entry.role || entry.kind}` },
    h("header", null, h("b", null, entry.role || entry.kind.replace("_", " ")), entry.name && [" ", h("code", null, visible(entry.name))], " ", h("span", { class: "faint" }, moment(entry.at)), more?.(entry)),
    entry.text && long(entry.text, (entry.role || entry.kind) === "system" ? SHORT : LONG), (entry.kind !== "event" || !entry.text) && rest(entry));
}

function long(text, most) {
  const whole = h("div", { class: "words", dir: "auto" }, visible(text.slice(0, most)));
  if (text.length <= most) return whole;
  return [whole, h("button", { type: "button", class: "button plain small", onclick: (event) => {
    whole.replaceChildren();
    whole.append(...[].concat(visible(text)));
    event.target.remove();
  } }, `Show all ${text.length.toLocaleString("en")} characters`)];
}

function rest(entry) {
  const isBare = !entry.data || (typeof entry.data === "object" && !Object.keys(entry.data).length);
  if (isBare) return null;
  const text = written(entry.data);
  return h("details", null, h("summary", null, "data"), h("pre", { class: "wrap" }, visible(text.slice(0, 40000)), text.length > 40000 && " …"));
}
