// The view of a profile's graph: turns move through it, a stage opens, and a message shows which way it would go.

import { get, part } from "./api.js";
import { drawingOf } from "./drawing.js";
import { empty, h, mark, problem, put, s, say } from "./dom.js";
import { live } from "./feed.js";
import { Flow, spotOf } from "./flow.js";
import { count, duration } from "./format.js";
import { StagePanel } from "./stage.js";
import { names, studio } from "./studio.js";
import { Way } from "./way.js";

const LETTER = 6.1; // how wide a letter of the small print is at most

export function open(place, rest) {
  return new Graph(place, rest);
}

class Graph {
  constructor(place, rest) {
    this.profile = null;
    this.stages = new Map();
    this.flow = null;
    this.panel = null;
    this.choices = h("ul", { class: "chips", "aria-label": "Profiles" });
    this.told = h("p", { class: "faint lead" });
    this.paper = h("div", { class: "drawing" });
    this.side = h("aside", { class: "side", "aria-label": "Details" });
    this.way = new Way((found) => this.light(found));
    put(place, h("header", { class: "head" }, h("h1", null, "Graph"), this.choices), this.told,
      h("div", { class: "split" }, h("section", { class: "canvas", "aria-label": "The stages of a turn" }, this.paper), this.side));
    this.rest(rest);
  }

  async rest([profile, stage]) {
    const wanted = profile && names().includes(profile) ? profile : studio.profile || names()[0];
    if (wanted !== this.profile) await this.draw(wanted);
    if (this.profile !== wanted) return;
    this.showStage(this.stages.has(stage) ? stage : null);
  }

  /** The pipeline was loaded again: everything may be another. */
  async again() {
    const stage = this.panel?.id, focused = document.activeElement?.dataset?.stage;
    await this.draw(names().includes(this.profile) ? this.profile : studio.profile);
    this.showStage(this.stages.has(stage) ? stage : null, false);
    this.stages.get(focused)?.focus();
  }

  async draw(profile) {
    this.profile = profile;
    const known = studio.profiles.find((each) => each.name === profile);
    put(this.choices, names().map((name) => h("li", null, h("a", { href: `#/graph/${part(name)}`, "aria-current": name === profile ? "true" : null }, h("bdi", null, name)))));
    let graph;
    try {
      graph = await get("graph", { profile });
    } catch (error) {
      put(this.paper, problem(error));
      return;
    }
    if (this.profile !== profile) return;
    this.flow?.close();
    const svg = drawingOf(graph.svg);
    mark(svg, "role", "group");
    for (const size of ["width", "height"]) mark(svg, size, Math.round(Number(svg.getAttribute(size)) * 1.2) || null);
    mark(svg, "aria-label", `Stages of the profile ${profile}`);
    put(this.paper, svg);
    say(this.told, known?.description ?? "");
    this.stages.clear();
    for (const element of svg.querySelectorAll("[data-stage]")) this.stages.set(element.dataset.stage, element);
    this.prepare(svg);
    this.flow = new Flow(svg, this.stages);
    this.tell(Object.keys(live.numbers[profile] ?? {}));
    this.light(this.way.found);
    if (!this.panel) put(this.side, this.way.element, routes());
  }

  /** Give each stage its place for numbers, the sign of turns that are in it, and one stop of Tab for all of them. */
  prepare(svg) {
    this.rooms = new Map();
    const ids = [...this.stages.keys()];
    for (const [index, id] of ids.entries()) {
      const element = this.stages.get(id), card = element.querySelector(".card"), spot = spotOf(element);
      mark(element, "tabindex", index ? "-1" : "0");
      mark(element, "role", "button");
      this.rooms.set(id, this.placeNumbers(element, card));
      if (spot) {
        const sign = s("g", { class: "now", "aria-hidden": "true" }, s("circle", { class: "halo", cx: spot.x, cy: spot.y, r: 12 }),
          s("circle", { class: "disc", cx: spot.x, cy: spot.y, r: 9 }), s("text", { x: spot.x, y: spot.y + 3.5, "text-anchor": "middle" }));
        element.append(sign);
      }
      element.addEventListener("click", () => this.go(id));
      element.addEventListener("keydown", (event) => this.key(event, ids, index));
      element.addEventListener("focus", () => {
        for (const other of this.stages.values()) mark(other, "tabindex", other === element ? "0" : "-1");
      });
      if (card) element.insertBefore(s("rect", { class: "ring", x: Number(card.getAttribute("x")) - 3, y: Number(card.getAttribute("y")) - 3,
        width: Number(card.getAttribute("width")) + 6, height: Number(card.getAttribute("height")) + 6, rx: 8 }), card);
    }
  }

  placeNumbers(element, card) {
    let text = element.querySelector("text.live");
    if (!card) return { text, letters: 40 };
    const right = Number(card.getAttribute("x")) + Number(card.getAttribute("width")) - 10;
    if (!text) element.append((text = s("text", { class: "live", x: right, y: Number(card.getAttribute("y")) + 34, "text-anchor": "end" })));
    const beside = [...element.querySelectorAll(":scope > text.faint")].find((each) => each.getAttribute("y") === text.getAttribute("y"));
    const room = Number(card.getAttribute("width")) - 20 - (beside ? beside.textContent.length * LETTER + 8 : 0);
    return { text, letters: room / LETTER };
  }

  key(event, ids, index) {
    const to = { ArrowDown: index + 1, ArrowRight: index + 1, ArrowUp: index - 1, ArrowLeft: index - 1, Home: 0, End: ids.length - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") this.go(ids[index]);
    else if (to !== undefined) this.stages.get(ids[Math.max(0, Math.min(to, ids.length - 1))])?.focus();
    else return;
    event.preventDefault();
  }

  go(stage) {
    location.hash = stage === null ? `#/graph/${part(this.profile)}` : `#/graph/${part(this.profile)}/${part(stage)}`;
  }

  showStage(id, moves = true) {
    const before = this.panel?.id;
    this.panel?.close();
    this.panel = null;
    for (const [each, element] of this.stages) mark(element, "aria-pressed", each === id ? "true" : null);
    if (id === null) {
      put(this.side, this.way.element, routes());
      this.side.classList.remove("is-open");
      if (before && moves) this.stages.get(before)?.focus();
      return;
    }
    this.panel = new StagePanel(this.profile, id, () => this.go(null));
    put(this.side, this.panel.element);
    this.side.classList.add("is-open");
    if (moves) this.panel.focus();
  }

  escape() {
    if (this.panel) this.go(null);
    else if (this.way.found) this.way.clear();
    else return false;
    return true;
  }

  update(batch) {
    if (!this.flow) return;
    const mine = [...batch.turns.values()].filter((row) => row.profile === this.profile);
    this.flow.follow(mine);
    const changed = Object.keys(batch.numbers[this.profile] ?? {});
    this.tell(changed);
    if (this.panel && changed.includes(this.panel.id)) this.panel.refresh();
  }

  /** Write the numbers of stages that changed, and how many turns are in each stage now. */
  tell(changed) {
    const running = live.running[this.profile] ?? {}, numbers = live.numbers[this.profile] ?? {};
    for (const [id, element] of this.stages) {
      const now = running[id] ?? 0;
      const isNew = changed.includes(id);
      if (element.now === now && !isNew) continue;
      element.now = now;
      mark(element, "data-now", now || null);
      const sign = element.querySelector(".now text");
      if (sign) say(sign, now ? count(now) : "");
      this.write(id, element, now, numbers[id]);
    }
  }

  write(id, element, now, numbers) {
    const { text, letters } = this.rooms.get(id);
    const words = (this.way.found ? wayWords(this.way.found, id) : null) ?? numberWords(numbers, letters);
    if (text) {
      const whole = words.map(([word]) => word).join("");
      if (text.textContent !== whole) put(text, words.map(([word, tone]) => (tone ? s("tspan", { class: tone }, word) : word)));
    }
    const told = [...element.querySelectorAll("text")].map((each) => each.textContent).filter(Boolean);
    mark(element, "aria-label", `${told.join(", ")}${now ? " running" : ""}`);
  }

  /** Show on the stages which way a message would go; null shows the numbers again. */
  async light(found) {
    if (found && found.profile !== this.profile && names().includes(found.profile)) {
      location.hash = `#/graph/${part(found.profile)}`;
      return;
    }
    const svg = this.paper.querySelector("svg");
    if (!svg) return;
    mark(svg, "class", found ? "has-way" : null);
    const runs = new Map(found?.stages.map((stage) => [stage.id, stage.runs]) ?? []);
    for (const [id, element] of this.stages) {
      mark(element, "data-way", found ? runs.get(id) ?? "no" : null);
      this.write(id, element, element.now ?? 0, live.numbers[this.profile]?.[id]);
    }
  }

  close() {
    this.flow?.close();
    this.panel?.close();
  }
}

function wayWords(found, id) {
  const runs = found.stages.find((stage) => stage.id === id)?.runs ?? "no";
  return [[{ yes: "✓ runs", no: "– does not run", depends: "? depends" }[runs] ?? runs, runs === "yes" ? "good" : runs === "depends" ? "warn" : ""]];
}

function numberWords(numbers, letters) {
  if (!numbers || !numbers[0]) return [];
  const [done, failed, p50, p95] = numbers;
  const bad = failed ? [[`${count(failed)} ✗ `, "bad"]] : [];
  const ways = [
    [...bad, [`${count(done)}× · p50 ${duration(p50)} · p95 ${duration(p95)}`]],
    [...bad, [`${count(done)}× · ${duration(p50)} / ${duration(p95)}`]],
    [...bad, [`${count(done)}× · ${duration(p50)}`]],
    [...bad, [`${count(done)}×`]],
  ];
  return ways.find((words) => words.reduce((sum, [word]) => sum + word.length, 0) <= letters) ?? bad;
}

function routes() {
  const rows = studio.routes.map((route, index) => h("li", null, h("span", { class: "faint" }, `${index + 1}. `), matchOf(route.match), h("span", { "aria-label": "goes to" }, " → "),
    h("a", { href: `#/graph/${part(route.profile)}` }, h("bdi", null, route.profile))));
  return h("section", { class: "block" }, h("h2", null, "Routes"),
    rows.length ? h("ol", { class: "plain" }, rows) : empty("All messages go to the profile that runs first."));
}

function matchOf(match) {
  if (typeof match === "string") return h("code", null, match);
  const pairs = Object.entries(match ?? {});
  if (!pairs.length) return h("span", null, "every message");
  return pairs.map(([name, value], index) => [index ? ", " : "", h("code", null, `${name}: ${Array.isArray(value) ? value.join(" | ") : typeof value === "object" ? JSON.stringify(value) : value}`)]);
}
