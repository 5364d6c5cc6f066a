// How Bub is: channels, the file's reloads with their findings, schedules, servers, workers.

import { get } from "./api.js";
import { empty, h, problem, put, table, visible } from "./dom.js";
import { live } from "./feed.js";
import { away, moment, state, written } from "./format.js";
import { studio } from "./studio.js";

export function open(place) {
  return new Health(place);
}

class Health {
  constructor(place) {
    this.body = h("div", { class: "columns" });
    this.head = h("span");
    put(place, h("header", { class: "head" }, h("h1", null, "Health"), this.head), this.body);
    this.load();
    this.timer = setInterval(() => document.hidden || this.load(), 5000);
  }

  async load() {
    let health;
    try {
      health = await get("health");
    } catch (error) {
      put(this.body, problem(error));
      return;
    }
    const text = JSON.stringify(health);
    if (text === this.seen) return;
    this.seen = text;
    put(this.head, light(health.status));
    put(this.body,
      part("Channels", pairs(health.channels, "Channel", "No channel runs.")),
      part("Reloads", reloads(health.reloads ?? [])),
      part("Schedules", pairs(health.schedules, "Schedule", "The file has no schedules.")),
      part("MCP servers", servers(health.servers ?? [])),
      health.workers?.length ? part("Workers", list(health.workers, "Worker")) : null,
      part("Plugins", pairs(health.plugins, "Plugin", "No plugin has a problem.")),
      part("This Bub", pairs({ version: studio.version, workspace: studio.workspace, file: studio.file, since: studio.started ? moment(studio.started) : "", "turns that run": health.turns, "messages that wait": health.inbox, "answers that wait": health.outbox }, "Fact", "")));
  }

  update() {
    if (live.health === this.told) return;
    this.told = live.health;
    this.load();
  }

  again() {
    this.load();
  }

  close() {
    clearInterval(this.timer);
  }
}

const part = (title, ...children) => h("section", { class: "part" }, h("h2", null, title), children);

const GOOD = new Set(["ok", "ready", "running", "connected", "up", "loaded", "open", "healthy", "active", "polling", "idle"]);
const BAD = new Set(["failed", "failing", "down", "dead", "error", "broken", "refused", "lost", "stopped"]);

/** A state with its sign; what is not known is shown as it is. */
function light(word) {
  const first = String(word ?? "").split(/[\s:,]/, 1)[0].toLowerCase();
  const tone = GOOD.has(first) ? "good" : BAD.has(first) ? "bad" : "warn";
  return h("span", { class: `state ${tone}` }, h("span", { "aria-hidden": "true" }, { good: "✓ ", bad: "✗ ", warn: "! " }[tone]), visible(String(word ?? "unknown")));
}

function shown(value) {
  if (value instanceof Node) return value;
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "object") return visible(String(value));
  const given = Array.isArray(value) ? value.map((each, index) => [index + 1, each]) : Object.entries(value);
  if (Array.isArray(value) && value.every((each) => typeof each !== "object")) return visible(value.join(", "));
  return h("span", { class: "inner" }, given.map(([name, each]) => h("span", null, h("span", { class: "faint" }, `${String(name).replaceAll("_", " ")} `),
    /^(state|status)$/.test(name) ? light(each) : isMoment(name, each) ? [moment(each), h("span", { class: "faint" }, ` ${away(each)}`)] : typeof each === "object" && each ? h("code", null, visible(written(each))) : shown(each))));
}

const isMoment = (name, value) => typeof value === "number" && value > 1e9 && value < 1e11 && /(^|_)(at|next|last|since|until|seen|due|began|started)$/.test(name);

function pairs(given, title, none) {
  const rows = Object.entries(given ?? {}).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  if (!rows.length) return empty(none);
  return table(title, [{ title }, { title: title === "Fact" ? "Value" : "State" }], rows.map(([name, value]) =>
    h("tr", null, h("th", { scope: "row" }, visible(name.replaceAll("_", " "))), h("td", null, title !== "Fact" && typeof value === "string" ? light(value) : isMoment("at", value) ? moment(value) : shown(value)))), { class: "small" });
}

function list(rows, title) {
  return table(title, [{ title }, { title: "State" }], rows.map((row, index) => {
    if (typeof row !== "object") return h("tr", null, h("th", { scope: "row" }, visible(row)), h("td"));
    const { name, id, ...rest } = row;
    return h("tr", null, h("th", { scope: "row" }, visible(name ?? id ?? index + 1)), h("td", null, shown(rest)));
  }), { class: "small" });
}

function servers(rows) {
  if (!rows.length) return empty("The file names no MCP server.");
  return table("MCP servers", [{ title: "Server" }, { title: "State" }, { title: "Tools", class: "end" }], rows.map((row) => h("tr", null, h("th", { scope: "row" }, visible(row.name)),
    h("td", null, light(row.state), row.problem && h("div", { class: "bad-text" }, visible(row.problem))), h("td", { class: "end" }, Array.isArray(row.tools) ? row.tools.length : row.tools ?? ""))), { class: "small" });
}

function reloads(rows) {
  if (!rows.length) return empty("The file has not been loaded again since Bub started.");
  return h("ol", { class: "plain rows" }, rows.slice(0, 20).map((row) => h("li", null, moment(row.at), " ", row.outcome === "ok" || row.outcome === "loaded" ? state("ok") : h("span", { class: "state bad" }, h("span", { "aria-hidden": "true" }, "✗ "), row.outcome),
    row.findings?.map((finding) => h("pre", { class: "wrap finding" }, visible(typeof finding === "string" ? finding : written(finding)))))));
}
