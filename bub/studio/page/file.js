// The pipeline file: its findings as one types, what would change against what runs, and, if it may, prove and load.

import { get, post } from "./api.js";
import { announce, button, h, later, mark, problem, put, say, visible } from "./dom.js";
import { plural } from "./format.js";
import { source } from "./stage.js";
import { studio } from "./studio.js";

let draft = null; // {digest, text}: what was typed, as long as the page is open

export function open(place) {
  return new File(place);
}

class File {
  constructor(place) {
    this.place = place;
    this.findings = [];
    this.tabMoves = false;
    this.check = later(300, () => this.compile());
    this.area = h("textarea", { class: "text", id: "file-text", spellcheck: "false", autocomplete: "off", autocapitalize: "off", wrap: "off", dir: "ltr", "aria-describedby": "file-keys", "data-search": true,
      oninput: () => this.changed(), onscroll: () => this.follow(), onkeydown: (event) => this.key(event), onfocus: () => { this.tabMoves = false; } });
    this.numbers = h("pre", { class: "numbers-column", "aria-hidden": "true" });
    this.marks = h("pre", { class: "marks", "aria-hidden": "true" });
    this.list = h("ol", { class: "plain findings" });
    this.status = h("p", { class: "status", role: "status" }, "…");
    this.result = h("div", { class: "result", tabindex: "-1" });
    this.title = h("bdi", { class: "mono faint" });
    this.parents = h("div");
    this.actions = h("div", { class: "buttons" });
    put(place, h("header", { class: "head" }, h("h1", null, "File"), this.title, this.actions),
      h("div", { class: "split even" },
        h("section", { "aria-label": "Text of the file" },
          h("label", { class: "sr", for: "file-text" }, "The pipeline file"),
          h("div", { class: "editor" }, this.numbers, h("div", { class: "pane" }, this.marks, this.area)),
          h("p", { class: "faint small", id: "file-keys" }, "Tab indents. Press Escape, then Tab, to leave the text."), this.parents),
        h("div", { class: "side" }, h("section", { class: "block", "aria-label": "Findings" }, h("h2", null, "Findings"), this.status, this.list), this.result)));
    this.load();
  }

  async load() {
    let file;
    try {
      file = await get("file");
    } catch (error) {
      put(this.place, h("h1", null, "File"), problem(error));
      return;
    }
    this.file = file;
    say(this.title, file.path ?? file.name);
    const isOld = draft && draft.digest !== file.digest && draft.text !== file.text;
    this.area.value = draft ? draft.text : file.text;
    put(this.result, isOld && h("p", { class: "warn-text" }, "⚠ The file has changed since you began: “Discard” takes its text."));
    put(this.actions, button("What would change", () => this.diff()),
      file.write ? [button("Prove", () => this.prove()), button("Load", () => this.offer(), { class: "button main" })] : null,
      button("Discard", () => { draft = null; this.load(); }, { class: "button plain", title: "Takes the text that the file has now" }));
    if (!file.write) this.actions.append(h("span", { class: "faint small" }, visible(file.why ?? studio.writable_why ?? "Proving and loading are off: settings.gateway.studio.write.")));
    this.draw();
    this.compile();
    put(this.parents, (file.parents ?? []).map(({ name, text }) => h("details", null, h("summary", null, "extends ", h("code", null, visible(name))), source({ file: name, first: 1, lines: text.split("\n") })[1])));
  }

  changed() {
    draft = { digest: this.file?.digest, text: this.area.value };
    this.draw();
    this.check();
  }

  /** The numbers of lines, and marks below what has a finding. */
  draw() {
    const lines = this.area.value.split("\n");
    const bad = new Map();
    for (const finding of this.findings) {
      const line = finding.range?.start?.line;
      if (line && (!bad.has(line) || finding.severity === "error")) bad.set(line, finding);
    }
    const numbered = JSON.stringify([lines.length, [...bad.keys()]]);
    if (numbered !== this.numbered) {
      put(this.numbers, joined(lines.map((_, index) => {
        const finding = bad.get(index + 1);
        return [finding ? h("span", { class: `line-${finding.severity}` }, `${finding.severity === "error" ? "✗" : "!"} ${index + 1}`) : String(index + 1), "\n"];
      })));
      this.numbered = numbered;
    }
    put(this.marks, joined(this.underlined(lines)));
    this.follow();
  }

  underlined(lines) {
    const at = new Map();
    for (const finding of this.findings) {
      const { start, end } = finding.range ?? {};
      if (!start) continue;
      const until = end?.line === start.line ? end.column : Infinity;
      at.set(start.line, [...(at.get(start.line) ?? []), { from: start.column - 1, to: Math.max(until - 1, start.column), severity: finding.severity }]);
    }
    return lines.map((line, index) => {
      const parts = [];
      let end = 0;
      for (const { from, to, severity } of (at.get(index + 1) ?? []).sort((one, other) => one.from - other.from)) {
        if (from < end) continue;
        parts.push(line.slice(end, from), h("span", { class: `squiggle ${severity}` }, line.slice(from, to) || " "));
        end = Math.max(from, Math.min(to, line.length));
      }
      return [...parts, line.slice(end), "\n"];
    });
  }

  follow() {
    this.numbers.scrollTop = this.marks.scrollTop = this.area.scrollTop;
    this.marks.scrollLeft = this.area.scrollLeft;
  }

  key(event) {
    if (event.key === "Escape") {
      this.tabMoves = true;
      announce("Tab moves on.");
      event.preventDefault();
    } else if (event.key === "Tab" && !this.tabMoves && !event.shiftKey && !event.ctrlKey && !event.altKey) {
      event.preventDefault();
      this.write("  ");
    } else if (event.key === "Enter" && !event.isComposing) {
      const before = this.area.value.slice(0, this.area.selectionStart);
      const lead = /(?:^|\n)([ ]*)[^\n]*$/.exec(before)?.[1] ?? "";
      event.preventDefault();
      this.write(`\n${lead}${/:\s*$/.test(before) ? "  " : ""}`);
    }
  }

  /** Put text in place of what is selected, so that the browser can undo it. */
  write(text) {
    if (document.execCommand("insertText", false, text)) return;
    this.area.setRangeText(text, this.area.selectionStart, this.area.selectionEnd, "end");
    this.changed();
  }

  async compile() {
    const text = this.area.value;
    let given;
    try {
      given = await post("file/check", { text });
    } catch (error) {
      put(this.status, problem(error));
      return;
    }
    if (text !== this.area.value) return;
    if (given.is_old) {
      this.check();
      return;
    }
    this.findings = given.findings;
    const errors = given.findings.filter((finding) => finding.severity === "error").length;
    const words = given.findings.length ? `${plural(errors, "error")}, ${plural(given.findings.length - errors, "other finding")}` : "✓ Nothing is wrong.";
    say(this.status, words);
    mark(this.status, "class", `status ${errors ? "bad-text" : ""}`);
    const seen = JSON.stringify(given.findings);
    if (seen !== this.seen) put(this.list, given.findings.map((finding) => this.item(finding)));
    this.seen = seen;
    this.draw();
  }

  item(finding) {
    const { start } = finding.range ?? {};
    return h("li", { class: finding.severity }, h("button", { type: "button", class: "jump", onclick: () => this.jump(finding.range) },
      h("span", { class: `state ${finding.severity === "error" ? "bad" : "warn"}` }, h("span", { "aria-hidden": "true" }, finding.severity === "error" ? "✗ " : "! "), finding.severity), " ",
      h("code", null, finding.code), start && h("span", { class: "faint" }, ` line ${start.line}`), h("span", { class: "words" }, visible(finding.message))),
    finding.help && h("p", { class: "faint words" }, visible(finding.help)),
    finding.fix && h("div", { class: "buttons" }, button(fixWords(finding.fix), () => this.fix(finding), { class: "button small" })), about(finding.code));
  }

  offsetOf({ line, column }) {
    const lines = this.area.value.split("\n");
    const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    return Math.min(before + Math.min(column - 1, lines[line - 1]?.length ?? 0), this.area.value.length);
  }

  jump(range) {
    if (!range) return;
    const from = this.offsetOf(range.start);
    this.area.focus();
    this.area.setSelectionRange(from, Math.max(from, this.offsetOf(range.end ?? range.start)));
    const height = Number.parseFloat(getComputedStyle(this.area).lineHeight) || 19;
    this.area.scrollTop = Math.max(0, (range.start.line - 6) * height);
    this.follow();
  }

  /** A repair is {text}, or edits {range, text}; they are put in from the end to the beginning. */
  fix({ fix, range }) {
    const edits = (fix.edits ?? (Array.isArray(fix) ? fix : [typeof fix === "string" ? { range, text: fix } : fix]))
      .map((edit) => ({ from: this.offsetOf((edit.range ?? range).start), to: this.offsetOf((edit.range ?? range).end), text: edit.text ?? edit.replacement ?? edit.new ?? "" }))
      .sort((one, other) => other.from - one.from);
    this.area.focus();
    for (const { from, to, text } of edits) {
      this.area.setSelectionRange(from, to);
      this.write(text);
    }
    this.changed();
  }

  async act(path, body) {
    put(this.result, h("p", { class: "faint" }, "…"));
    try {
      return await post(path, body);
    } catch (error) {
      put(this.result, problem(error));
      return null;
    }
  }

  async diff() {
    const given = await this.act("file/diff", { text: this.area.value });
    if (given) put(this.result, h("section", { class: "block" }, h("h2", null, "What would change"), findings(given), changes(given)));
  }

  async prove() {
    const given = await this.act("file/prove", { text: this.area.value });
    if (given) put(this.result, outcome("Proof", given));
  }

  async offer() {
    const given = await this.act("file/diff", { text: this.area.value });
    if (!given) return;
    const danger = given.groups.some((group) => group.danger);
    const load = button(danger ? "Load it all the same" : "Load", () => this.loadIt(), { class: danger ? "button no" : "button main" });
    put(this.result, h("section", { class: "block" }, h("h2", null, "Load this file?"), changes(given), h("div", { class: "buttons" }, load, button("Back", () => put(this.result), { class: "button plain" }))));
    load.focus();
  }

  async loadIt() {
    const text = this.area.value;
    const given = await this.act("file/load", { text, digest: this.file.digest });
    if (!given) return;
    put(this.result, outcome("Loading", given));
    this.result.focus();
    if (given.outcome !== "ok") return;
    draft = null;
    const fresh = await get("file").catch(() => null);
    if (fresh) this.file = fresh;
  }

  close() {
    this.check.cancel();
  }
}

/** Lists of parts as one, texts that follow each other as one text: so there are few nodes, however long the file is. */
function joined(lists) {
  const parts = [];
  for (const part of lists.flat()) {
    if (typeof part === "string" && typeof parts.at(-1) === "string") parts[parts.length - 1] += part;
    else parts.push(part);
  }
  return parts;
}

/** The page of a finding's code, read as soon as somebody opens it. */
function about(code) {
  const text = h("pre", { class: "wrap finding" });
  return h("details", { ontoggle: async (event) => {
    if (!event.target.open || text.firstChild) return;
    try {
      put(text, visible((await get("file/code", { code })).text));
    } catch (error) {
      put(text, visible(error.message));
    }
  } }, h("summary", null, `About ${code}`), text);
}

const fixWords = (fix) => (fix.title ? fix.title : "Repair");

const findings = (given) => (given.findings ?? []).map((finding) => h("pre", { class: "wrap finding" }, visible(typeof finding === "string" ? finding : `${finding.severity}[${finding.code}] ${finding.message}${finding.help ? `\n${finding.help}` : ""}`)));

function changes({ groups, text, findings: found }) {
  if (!groups.length && found?.length) return null;
  if (!groups.length) return h("p", { class: "empty" }, "Nothing: what runs is just this.");
  const sorted = [...groups].sort((one, other) => Number(other.danger) - Number(one.danger));
  return [sorted.map((group) => h("section", { class: group.danger ? "danger" : null }, h("h3", null, group.danger && h("span", { class: "state bad" }, h("span", { "aria-hidden": "true" }, "⚠ "), "danger "), visible(group.title)),
    h("ul", { class: "changes" }, group.changes.map((change) => h("li", null, visible(change)))))), text && h("details", null, h("summary", null, "As `bub diff` prints it"), h("pre", { class: "wrap" }, visible(text)))];
}

function outcome(title, given) {
  const isGood = given.outcome === "ok";
  announce(given.words ?? given.outcome);
  return h("section", { class: "block" }, h("h2", null, title), h("p", { class: isGood ? "good-text" : "bad-text" }, h("span", { "aria-hidden": "true" }, isGood ? "✓ " : "✗ "), visible(given.words ?? given.outcome)),
    findings(given));
}
