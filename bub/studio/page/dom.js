// Elements made by hand: text is always a text node, attributes are set by name, and nothing is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const REFUSED = new Set(["style", "srcdoc", "src"]);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      if (typeof value === "function") element.addEventListener(name.slice(2), value);
    } else if (name === "value" || name === "checked" || name === "selected") {
      element[name] = value;
    } else if (!REFUSED.has(name)) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  }
}

/** Make an HTML element; children are nodes, strings, lists of them, or null. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** Make an SVG element. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export const find = (id) => document.getElementById(id);

/** Put other children in place of what is in an element. */
export function put(element, ...children) {
  const fresh = document.createDocumentFragment();
  add(fresh, children);
  element.replaceChildren(fresh);
}

/** Set the text of an element, but touch it only if that changes something. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set an attribute, or remove it for null, but only if that changes something. */
export function mark(element, name, value) {
  if (value === null || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

/** Let a screen reader say something once. */
export function announce(text) {
  const place = find("said");
  place.textContent = "";
  requestAnimationFrame(() => (place.textContent = text));
}

const sizes = new ResizeObserver((seen) => {
  for (const { target } of seen) mark(target, "tabindex", target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight + 1 ? "0" : null);
});

/** A place that can be scrolled with keys, too, as soon as it has more than it shows. */
export function scrolls(name, attributes, ...children) {
  const place = h("div", { role: "group", "aria-label": name, ...attributes }, children);
  sizes.observe(place);
  return place;
}

/** A table with headers. Columns are {title, class?}; one that is wider than its place can be scrolled, also with keys. */
export function table(caption, columns, rows, attributes) {
  return scrolls(caption, { class: "scroll" }, h("table", attributes, h("caption", { class: "sr" }, caption),
    h("thead", null, h("tr", null, columns.map((column) => h("th", { scope: "col", class: column.class }, column.title)))),
    h("tbody", null, rows)));
}

/** Let a list of children follow rows: `make(row)` gives {node, set(row)}; only what changed is touched, focus stays. */
export class Rows {
  constructor(parent, key, make) {
    Object.assign(this, { parent, key, make, known: new Map() });
  }

  show(rows) {
    const wanted = new Map(rows.map((row) => [this.key(row), row]));
    for (const [key, { node }] of this.known) {
      if (wanted.has(key)) continue;
      node.remove();
      this.known.delete(key);
    }
    let next = this.parent.firstChild;
    for (const [key, row] of wanted) {
      let kept = this.known.get(key);
      if (!kept) this.known.set(key, (kept = this.make(row)));
      if (kept.row !== row) kept.set((kept.row = row));
      if (kept.node === next) next = next.nextSibling;
      else this.parent.insertBefore(kept.node, next);
    }
  }
}

/** Wait until calls have ceased for a while (milliseconds), then run the last one. */
export function later(pause, run) {
  let timer = 0;
  const call = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), pause);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** Run at most once in a while (milliseconds), the last call included. */
export function seldom(pause, run) {
  let timer = 0, last = -Infinity;
  const call = () => {
    if (timer) return;
    timer = setTimeout(() => { timer = 0; last = performance.now(); run(); }, Math.max(0, last + pause - performance.now()));
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

let made = 0;
/** A field with its label; `control` gets an id if it has none. */
export function field(label, control, hint) {
  control.id ||= `field-${++made}`;
  const told = hint && h("small", { id: `${control.id}-hint`, class: "faint" }, hint);
  if (told) control.setAttribute("aria-describedby", told.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, told);
}

export const button = (label, onclick, attributes) => h("button", { type: "button", class: "button", onclick, ...attributes }, label);

/** A list to choose from: options are strings or [value, label]. */
export function select(options, value, onchange, attributes) {
  const made = h("select", { ...attributes, onchange: (event) => onchange(event.target.value) },
    options.map((option) => (Array.isArray(option) ? option : [option, option])).map(([key, label]) => h("option", { value: key }, label)));
  made.value = value;
  return made;
}

/** Facts as a list of definitions; those without a value are left out. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
    .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

/** What went wrong, for people. */
export function problem(error) {
  return h("div", { class: "problem", role: "alert" }, h("strong", null, visible(error.message ?? String(error))), error.help && h("p", null, visible(error.help)));
}

export const empty = (text) => h("p", { class: "empty" }, text);

const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu;

/** What turns other characters around, or is for terminals: never part of honest prose. */
export const TURNING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/gu;

/** Text in which each character that nobody would see, or that turns others around, is written as its escape. */
export function visible(text, hidden = UNSEEN) {
  const parts = [];
  let end = 0;
  const whole = String(text ?? "");
  for (const found of whole.matchAll(hidden)) {
    parts.push(whole.slice(end, found.index), h("span", { class: "escape" }, escape(found[0])));
    end = found.index + found[0].length;
  }
  return end ? [...parts, whole.slice(end)] : whole;
}

function escape(character) {
  const code = character.codePointAt(0);
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** A link to somebody else's page: shown plainly, and only if it is one of the web. */
export function link(address, text) {
  return /^https?:\/\//i.test(address) && URL.canParse(address)
    ? h("a", { href: address, target: "_blank", rel: "noreferrer noopener" }, text ?? address)
    : text ?? address;
}
