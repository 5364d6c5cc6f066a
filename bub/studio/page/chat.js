// A chat with a profile: the answer as it comes, tools as they run, questions in between.

import { get, part, post } from "./api.js";
import { card } from "./approvals.js";
import { TURNING, announce, button, h, problem, put, select, visible } from "./dom.js";
import { live } from "./feed.js";
import { duration, written } from "./format.js";
import { Prose } from "./markdown.js";
import { names, studio } from "./studio.js";

const drafts = new Map(); // what is typed, by chat, as long as the page is open
let profile = "";

const known = () => {
  try {
    const given = JSON.parse(localStorage.getItem("bub.chats") ?? "[]");
    return ["main", ...given.filter((name) => typeof name === "string" && name !== "main")].slice(0, 30);
  } catch {
    return ["main"];
  }
};
const remember = (all) => localStorage.setItem("bub.chats", JSON.stringify(all.filter((name) => name !== "main")));

export function open(place, rest) {
  return new Chat(place, rest);
}

class Chat {
  constructor(place, rest) {
    this.place = place;
    this.rest(rest);
    // the number of questions stays the same if one goes as another comes
    this.timer = setInterval(() => this.isRunning && !document.hidden && this.askAll(), 3000);
  }

  close() {
    clearInterval(this.timer);
  }

  rest([name]) {
    this.name = name || "main";
    if (!known().includes(this.name)) remember([...known(), this.name]);
    this.answers = new Map();
    this.own = new Set();
    this.asks = new Map();
    this.isRunning = false;
    this.log = h("div", { class: "log", role: "log", "aria-live": "off", "aria-label": `Chat ${this.name}`, tabindex: "0" });
    this.stop = button("Stop", () => this.halt(), { class: "button no", hidden: true });
    this.send = h("button", { class: "button main" }, "Send");
    this.trouble = h("div");
    this.input = h("textarea", { rows: 1, "aria-label": `Message to ${this.name}`, placeholder: "Write a message, or a ,command", "data-search": true, dir: "auto",
      oninput: () => { drafts.set(this.name, this.input.value); this.grow(); },
      onkeydown: (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        this.say();
      } });
    this.input.value = drafts.get(this.name) ?? "";
    const chats = h("ul", { class: "chips", "aria-label": "Chats" }, known().map((each) => h("li", null, h("a", { href: `#/chat/${part(each)}`, "aria-current": each === this.name ? "true" : null }, h("bdi", null, each)))),
      h("li", null, button("New chat", () => this.begin(), { class: "button plain small" })));
    profile = names().includes(profile) ? profile : "";
    this.naming = h("form", { class: "naming", hidden: true, onsubmit: (event) => {
      event.preventDefault();
      const wanted = event.target.querySelector("input").value.trim().slice(0, 60);
      if (wanted) location.hash = `#/chat/${part(wanted)}`;
    } }, h("input", { "aria-label": "Name of the new chat", placeholder: "Name of the new chat", maxlength: 60, autocomplete: "off" }), h("button", { class: "button" }, "Begin"));
    put(this.place, h("header", { class: "head" }, h("h1", null, "Chat"), chats,
      h("span", { class: "push" }, select(names(), profile || studio.profile, (value) => { profile = value; }, { "aria-label": "Profile that answers" })),
      this.name !== "main" && button("Close chat", () => { remember(known().filter((each) => each !== this.name)); location.hash = "#/chat"; }, { class: "button plain small", title: "Takes its name off this list; its tape stays" })),
    this.naming, this.log, this.trouble,
    h("form", { class: "write", onsubmit: (event) => { event.preventDefault(); this.say(); } }, this.input, h("div", { class: "buttons" }, this.stop, this.send)));
    this.load();
    this.grow();
    if (matchMedia("(hover: hover)").matches) this.input.focus();
  }

  begin() {
    this.naming.hidden = false;
    this.naming.querySelector("input").focus();
  }

  escape() {
    if (this.naming.hidden) return false;
    this.naming.hidden = true;
    return true;
  }

  async load() {
    const mine = this.name;
    let given;
    try {
      given = await get("chat", { chat: mine, profile });
    } catch (error) {
      put(this.trouble, problem(error));
      return;
    }
    if (mine !== this.name) return;
    put(this.trouble);
    this.answers.clear();
    put(this.log, given.entries.length ? past(given.entries) : h("p", { class: "empty" }, "Nothing has been said in this chat. What you write is asked about as from any channel, commands too."));
    this.runs(given.running);
    this.asks.clear();
    this.end();
    this.askAll();
  }

  again() {
    this.load();
  }

  grow() {
    this.input.rows = Math.min(10, Math.max(1, this.input.value.split("\n").length));
  }

  runs(is) {
    this.isRunning = Boolean(is);
    this.stop.hidden = !is;
    this.log.classList.toggle("is-busy", this.isRunning);
  }

  settle() {
    this.runs([...this.answers.values()].some((each) => !each.isOver));
  }

  get isAtEnd() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 80;
  }

  end() {
    this.log.scrollTop = this.log.scrollHeight;
  }

  async say() {
    const content = this.input.value;
    if (!content.trim() || this.send.disabled) return;
    this.send.disabled = true;
    this.sending = content;
    const mine = this.name, bubble = own(content);
    this.log.querySelector(".empty")?.remove();
    this.log.append(bubble);
    for (const answer of this.answers.values()) if (!answer.isOver) this.log.append(answer.goOn());
    this.end();
    try {
      const { message_id } = await post("chat", { chat: mine, profile: profile || studio.profile, content });
      drafts.set(mine, "");
      if (mine !== this.name) return;
      this.own.add(message_id);
      this.answer(message_id, content.startsWith(","));
      if (this.input.value === content) this.input.value = "";
      put(this.trouble);
      this.grow();
      this.settle();
      this.end();
    } catch (error) {
      bubble.remove();
      put(this.trouble, problem(error));
    } finally {
      this.send.disabled = false;
      this.sending = "";
      this.input.focus();
    }
  }

  async halt() {
    try {
      await post("chat/stop", { chat: this.name });
    } catch (error) {
      put(this.trouble, problem(error));
    }
  }

  answer(id, isCommand = false) {
    let answer = this.answers.get(id);
    if (!answer) {
      answer = new Answer(isCommand || (this.sending ?? "").startsWith(","));
      this.answers.set(id, answer);
      this.log.querySelector(".empty")?.remove();
      this.log.append(answer.element);
    }
    return answer;
  }

  update(batch) {
    const wasAtEnd = this.isAtEnd;
    let isTouched = false, isForeign = false;
    for (const { chat, message_id: id, events } of batch.chat) {
      if (chat !== this.name) continue;
      isTouched = true;
      if (events.some((event) => event.kind === "reload")) {
        this.load();
        return;
      }
      const answer = this.answer(id);
      const wasOver = answer.isOver;
      answer.take(events);
      if (!answer.isOver || wasOver) continue;
      if (answer.words) announce(`Answer: ${answer.words.slice(0, 300)}`);
      if (!this.own.has(id) && !this.send.disabled) isForeign = true;
    }
    if (isTouched) this.settle();
    if (isForeign) this.load(); // somebody else wrote: the tape has what they said
    if (this.asked !== live.approvals) {
      this.asked = live.approvals;
      this.askAll();
    }
    if (isTouched && wasAtEnd) this.end();
  }

  /** Show the questions of this chat where they were asked. */
  async askAll() {
    let rows;
    try {
      rows = (await get("approvals")).open.filter((row) => row.chat === this.name && ["studio", "page"].includes(row.channel));
    } catch {
      return;
    }
    const wasAtEnd = this.isAtEnd;
    for (const row of rows) {
      if (this.asks.has(row.id)) continue;
      const made = card(row, null);
      this.asks.set(row.id, made);
      made.set(row);
      this.log.append(made.node);
    }
    for (const [id, made] of this.asks) {
      if (rows.some((row) => row.id === id) || made.isAnswered) continue;
      made.node.remove();
      this.asks.delete(id);
    }
    if (wasAtEnd) this.end();
  }
}

const said = (role, ...children) => h("div", { class: `said-by ${role}` }, h("b", { class: "who" }, role === "user" ? "You" : "Bub"), children);

/** What somebody wrote, as they wrote it. */
const own = (text) => said("user", h("div", { class: "prose", dir: "auto" }, h("p", null, visible(text, TURNING))));

/** What is on the tape of a chat: what was said, and tools in short. */
function past(entries) {
  return entries.map((entry) => {
    if (entry.role === "user" || entry.role === "assistant") return entry.text ? (entry.role === "user" ? own(entry.text) : said(entry.role, new Prose().add(entry.text).element)) : null;
    if (entry.kind === "tool_call" || entry.kind === "tool_result") {
      const before = entry.kind === "tool_call" ? entry.text.split(/^→ /m)[0].trim() : "";
      return [before && said("assistant", new Prose().add(before).element), h("details", { class: "tool" }, h("summary", null, h("span", { "aria-hidden": "true" }, entry.kind === "tool_call" ? "● " : "↳ "), h("code", null, visible(entry.name || entry.kind.replace("_", " ")))),
        h("pre", { class: "wrap" }, visible(String(entry.text || written(entry.data)).slice(before.length, 20000).trim())))];
    }
    if (entry.kind === "error") return h("p", { class: "problem" }, visible(entry.text));
    return null;
  });
}

/** What a command prints, as it is. */
class Printed {
  constructor() {
    this.element = h("pre", { class: "wrap command" });
    this.text = "";
  }

  add(delta) {
    this.text += delta;
    this.element.append(...[].concat(visible(delta)));
    return this;
  }
}

/** One answer while it comes. */
class Answer {
  constructor(isCommand) {
    this.isCommand = isCommand;
    this.body = h("div");
    this.wait = h("p", { class: "waits" }, h("span", { class: "wheel", "aria-hidden": "true" }), h("span", null, "…"));
    this.element = said("assistant", this.body, this.wait);
    this.tools = new Map();
    this.prose = null;
    this.isOver = false;
    this.words = "";
    this.all = "";
  }

  /** Go on below what was written meanwhile; returns the element for that. */
  goOn() {
    if (!this.body.childNodes.length) return this.element;
    this.body = h("div");
    this.prose = this.thoughts = this.steps = null;
    return (this.element = said("assistant", this.body, this.wait));
  }

  take(events) {
    let delta = "";
    const flush = () => {
      if (!delta) return;
      if (!this.prose) this.body.append((this.prose = this.isCommand ? new Printed() : new Prose()).element);
      this.prose.add(delta);
      this.words = this.prose.text;
      this.all += delta;
      delta = "";
    };
    for (const { kind, data } of events) {
      if (kind === "text") delta += data.delta ?? data.text ?? "";
      else {
        flush();
        this.other(kind, data ?? {});
      }
    }
    flush();
  }

  other(kind, data) {
    if (kind === "reasoning") {
      if (!this.thoughts) this.add(h("details", { class: "tool" }, h("summary", null, "Thinking"), (this.thoughts = h("div", { class: "words faint" }))), true);
      this.thoughts.append(data.delta ?? "");
      return;
    }
    if (kind === "tool_call") this.call(data);
    else if (kind === "tool_result") this.result(data);
    else if (kind === "plan") this.plan(data.steps ?? []);
    else if (kind === "error") {
      this.hasFailed = true;
      this.add(h("p", { class: "problem" }, visible(data.message ?? data.text ?? "The turn failed.")));
    }
    else if (kind === "waiting") this.status(`The model is asked again in ${duration(data.seconds)}${data.reason ? `: ${data.reason}` : ""}`);
    else if (["notice", "compaction", "note"].includes(kind)) this.add(h("p", { class: "faint note" }, visible(data.text ?? "")));
    else if (kind === "message") this.whole(data);
    else if (kind === "final" && data.cut) this.add(h("p", { class: "faint note" }, visible(data.cut)));
    else if (kind === "over") this.over();
  }

  add(element, keepsThoughts = false) {
    this.prose = null;
    if (!keepsThoughts) this.thoughts = null;
    this.body.append(element);
  }

  status(text) {
    put(this.wait.lastChild, visible(text));
  }

  call(data) {
    const sign = h("span", { class: "wheel", "aria-hidden": "true" }), took = h("span", { class: "faint" }, " runs"), out = h("pre", { class: "wrap" });
    const given = data.arguments ?? data.raw ?? "";
    const short = typeof given === "object" && given ? Object.values(given).map(written).join(" ") : String(given);
    this.tools.set(data.id, { sign, took, out, began: performance.now() });
    this.add(h("details", { class: "tool" }, h("summary", null, sign, " ", h("code", null, visible(data.name ?? "tool")), " ", h("span", { class: "mono clip" }, visible(short.slice(0, 160))), took),
      h("pre", { class: "wrap" }, visible(written(given).slice(0, 20000))), out));
  }

  result(data) {
    const tool = this.tools.get(data.id ?? data.tool_call_id ?? data.call_id);
    if (!tool) return;
    const isBad = data.ok === false || Boolean(data.error) || data.is_error || data.status === "error" || data.denied;
    tool.sign.className = isBad ? "bad" : "good";
    tool.sign.textContent = isBad ? "✗" : "●";
    tool.took.textContent = ` · ${duration(data.seconds ?? (performance.now() - tool.began) / 1000)}${isBad ? " · failed" : ""}`;
    tool.out.append(...[].concat(visible(written(data.content ?? data.output ?? data.result ?? data.error ?? "").slice(0, 20000))));
  }

  plan(steps) {
    const signs = { done: "✔", doing: "▶", left: "○" };
    const fresh = h("ul", { class: "plain plan", "aria-label": "Plan" }, steps.map((step) => h("li", { class: step.state }, h("span", { "aria-hidden": "true" }, signs[step.state] ?? "○"), " ", visible(step.step), h("span", { class: "sr" }, `, ${step.state}`))));
    if (this.steps?.isConnected) this.steps.replaceWith(fresh);
    else this.add(fresh);
    this.steps = fresh;
  }

  /** A whole message in place of pieces: what a command answers, or an error. */
  whole(data) {
    const content = data.content ?? "", bare = (text) => text.replace(/\s+/g, "");
    if (data.kind === "error" ? this.hasFailed : this.all && bare(this.all).includes(bare(content))) return;
    this.words = content;
    if (data.kind === "error") this.add(h("p", { class: "problem" }, visible(content)));
    else if (data.kind === "command" || this.isCommand) this.add(new Printed().add(content).element);
    else this.add(new Prose().add(content).element);
  }

  over() {
    this.isOver = true;
    this.wait.remove();
    if (!this.body.childNodes.length) this.element.remove();
  }
}

