// A small, safe part of Markdown as elements; what it does not know stays text. An answer grows block by block.

import { TURNING, h, link, scrolls, visible } from "./dom.js";

const plain = (text) => visible(text, TURNING);

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

/** Cut a text into blocks, each {kind, lines, …}; the last one may still grow. */
export function blocksOf(text) {
  const lines = text.split("\n"), blocks = [];
  let open = null;
  const add = (kind, line, more) => {
    if (open?.kind === kind && !more?.isNew) open.lines.push(line);
    else blocks.push((open = { kind, lines: [line], ...more }));
  };
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at], fence = FENCE.exec(line);
    if (fence) {
      const body = [];
      while (++at < lines.length && !(lines[at].trimStart().startsWith(fence[1]) && !lines[at].trim().replaceAll(fence[1][0], ""))) body.push(lines[at]);
      blocks.push({ kind: "code", lines: body, language: fence[2] });
      open = null;
    } else if (!line.trim()) open = null;
    else if (/^#{1,6}\s/.test(line)) {
      add("heading", line.replace(/^#+\s+/, ""), { isNew: true });
      open = null;
    } else if (/^ {0,3}([-*_])( *\1){2,}\s*$/.test(line)) {
      add("rule", "", { isNew: true });
      open = null;
    } else if (/^\s*\|.*\|\s*$/.test(line)) add("table", line);
    else if (/^ {0,3}>/.test(line)) add("quote", line.replace(/^ {0,3}> ?/, ""));
    else if (ITEM.test(line)) add("list", line);
    else if (open?.kind === "list") open.lines.push(line);
    else add("paragraph", line);
  }
  return blocks;
}

/** Make the element of a block. */
export function elementOf({ kind, lines, language }) {
  if (kind === "code") return h("pre", { class: "code-block", "data-language": language || null, tabindex: "0" }, plain(lines.join("\n")));
  if (kind === "heading") return h("p", { class: "md-heading" }, inline(lines[0]));
  if (kind === "rule") return h("hr");
  if (kind === "quote") return h("blockquote", null, inline(lines.join("\n")));
  if (kind === "list") return list(lines);
  if (kind === "table") return grid(lines);
  return h("p", null, inline(lines.join("\n")));
}

function list(lines) {
  const isOrdered = /^\s*\d/.test(lines[0]);
  const items = [];
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (found && (found[1].length < 2 || !items.length)) items.push({ text: found[3], below: [] });
    else if (items.length) items.at(-1).below.push(line);
  }
  return h(isOrdered ? "ol" : "ul", isOrdered ? { start: Number.parseInt(lines[0].trim(), 10) } : null, items.map(({ text, below }) => {
    const first = below.findIndex((line) => ITEM.test(line));
    const more = first < 0 ? below : below.slice(0, first);
    return h("li", null, inline([text, ...more.map((line) => line.trim())].join("\n")), first >= 0 && list(unindent(below.slice(first))));
  }));
}

function unindent(lines) {
  const by = /^\s*/.exec(lines[0])[0].length;
  return lines.map((line) => line.slice(Math.min(by, /^\s*/.exec(line)[0].length)));
}

function grid(lines) {
  const rows = lines.map((line) => line.trim().slice(1, -1).split("|").map((cell) => cell.trim()));
  const hasHead = rows.length > 1 && rows[1].every((cell) => /^:?-+:?$/.test(cell));
  const body = hasHead ? rows.slice(2) : rows;
  return scrolls("Table", { class: "scroll" }, h("table", null, hasHead && h("thead", null, h("tr", null, rows[0].map((cell) => h("th", { scope: "col" }, inline(cell))))),
    h("tbody", null, body.map((row) => h("tr", null, row.map((cell) => h("td", null, inline(cell))))))));
}

const SPANS = /(`+)(.+?)\1(?!`)|\*\*(?=\S)(.+?)\*\*|(?<![\w*])[*_](?=[^\s*_])([^*_\n]+?)[*_](?![\w*])|\[([^\]\n]+)\]\(([^)\s]+)\)|(https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}])/g;

/** The words of a line: code, bold, italics, links; a link always shows where it leads. */
function inline(text, depth = 0) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(SPANS)) {
    const [all, , code, bold, slanted, words, address, bare] = found;
    parts.push(plain(text.slice(end, found.index)));
    end = found.index + all.length;
    if (code !== undefined) parts.push(h("code", null, plain(code)));
    else if (bold !== undefined) parts.push(h("strong", null, depth < 3 ? inline(bold, depth + 1) : plain(bold)));
    else if (slanted !== undefined) parts.push(h("em", null, plain(slanted)));
    else if (bare !== undefined) parts.push(link(bare, plain(bare)));
    else parts.push(words === address ? link(address, plain(address)) : [plain(words), " (", link(address, plain(address)), ")"]);
  }
  return [...parts, plain(text.slice(end))];
}

/** An answer that grows: only blocks that changed are made again. */
export class Prose {
  constructor() {
    this.element = h("div", { class: "prose", dir: "auto" });
    this.text = "";
    this.sources = [];
  }

  add(delta) {
    this.text += delta;
    const blocks = blocksOf(this.text);
    blocks.forEach((block, index) => {
      const source = `${block.kind}\n${block.language ?? ""}\n${block.lines.join("\n")}`;
      if (this.sources[index] === source) return;
      this.sources[index] = source;
      const made = elementOf(block), old = this.element.children[index];
      if (old) old.replaceWith(made);
      else this.element.append(made);
    });
    while (this.element.children.length > blocks.length) this.element.lastChild.remove();
    this.sources.length = blocks.length;
    return this;
  }
}
