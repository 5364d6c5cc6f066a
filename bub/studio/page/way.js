// Which way would a message go? A form, and the answer as words; the graph lights its stages.

import { post } from "./api.js";
import { announce, button, field, h, problem, put, select, table, visible } from "./dom.js";
import { names, studio } from "./studio.js";

const SIGNS = { yes: "✓ yes", no: "– no", depends: "? depends" };

export class Way {
  constructor(light) {
    this.light = light;
    this.found = null;
    this.given = { content: "", channel: "", chat_id: "", sender_id: "", kind: "normal", session: "known", profile: "" };
    this.answer = h("div", { class: "answer" });
    const set = (name) => (event) => { this.given[name] = event.target.value; };
    const content = h("textarea", { rows: 2, oninput: set("content"), placeholder: "Is the build green?", "data-search": true, onkeydown: (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.ask();
      }
    } });
    const channels = h("datalist", { id: "way-channels" }, studio.channels.map((channel) => h("option", { value: typeof channel === "string" ? channel : channel.name })));
    this.element = h("section", { class: "block" }, h("h2", null, "Which way would it go?"),
      h("form", { onsubmit: (event) => { event.preventDefault(); this.ask(); } },
        field("A message", content),
        h("div", { class: "fields" },
          field("Channel", h("input", { list: "way-channels", oninput: set("channel"), placeholder: "any", autocomplete: "off" })), channels,
          field("Chat", h("input", { oninput: set("chat_id"), autocomplete: "off" })),
          field("Sender", h("input", { oninput: set("sender_id"), autocomplete: "off" })),
          field("Kind", select([["normal", "message"], ["command", "command"]], "normal", (value) => { this.given.kind = value; })),
          field("Session", select([["known", "known"], ["new", "new"]], "known", (value) => { this.given.session = value; })),
          field("Profile", select([["", "by the routes"], ...names()], "", (value) => { this.given.profile = value; }))),
        h("div", { class: "buttons" }, h("button", { class: "button main" }, "Show the way"), button("Clear", () => this.clear(), { class: "button plain" }))),
      this.answer);
  }

  async ask() {
    const { session, profile, channel, chat_id, sender_id, kind, content } = this.given;
    const message = { content, kind, channel: channel || "cli", chat_id: chat_id || "local", sender_id };
    try {
      this.found = await post("way", { message, session, ...(profile ? { profile } : {}) });
    } catch (error) {
      put(this.answer, problem(error));
      return;
    }
    put(this.answer, this.words());
    announce(this.summary());
    this.light(this.found);
  }

  summary() {
    const { profile, route, stages } = this.found;
    const by = route === null || route === undefined ? "" : ` by route ${route}`;
    return `It goes to the profile ${profile}${by}: ${stages.filter((stage) => stage.runs === "yes").length} of ${stages.length} stages run.`;
  }

  words() {
    const { session_id, stages, gates, note } = this.found;
    const reasons = stages.filter((stage) => stage.runs !== "yes");
    return [
      h("p", null, this.summary(), session_id && [" Its session is ", h("code", null, visible(session_id)), "."]),
      note && h("p", { class: "faint" }, visible(note)),
      gates.length > 0 && [h("h3", null, "Gates"), table("Gates on the way", [{ title: "Gate" }, { title: "Asked" }, { title: "Who, and why" }], gates.map((gate) =>
        h("tr", null, h("th", { scope: "row", class: "mono" }, [gate.stage, gate.point].filter((name, index, all) => name && all.indexOf(name) === index).join(" / ")), h("td", { class: `nowrap way-${gate.asked}` }, SIGNS[gate.asked] ?? gate.asked),
          h("td", null, gate.implementers?.length ? gate.implementers.map((each) => (typeof each === "string" ? each : each.plugin)).join(", ") : "nobody", gate.why && h("p", { class: "faint" }, visible(gate.why))))), { class: "small" })],
      reasons.length > 0 && [h("h3", null, "Stages that may not run"), h("ul", { class: "plain rows" }, reasons.map((stage) =>
        h("li", null, h("code", null, stage.id), " ", h("span", { class: `way-${stage.runs}` }, SIGNS[stage.runs] ?? stage.runs), stage.why && h("span", { class: "faint" }, ": ", visible(stage.why)))))],
    ];
  }

  clear() {
    this.found = null;
    put(this.answer);
    this.light(null);
  }
}
