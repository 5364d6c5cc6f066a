// Turns as dots that go along the rails of the graph; where nothing moves, only the numbers change.

import { s } from "./dom.js";

const MOST = 24, PACE = 260, FRAME = 30;
const stillness = matchMedia("(prefers-reduced-motion: reduce)");

/** Where the dot of a stage is. */
export function spotOf(stage) {
  const dot = stage.querySelector(".dot");
  if (!dot) return null;
  if (dot.hasAttribute("cx")) return { x: Number(dot.getAttribute("cx")), y: Number(dot.getAttribute("cy")) };
  const corners = (dot.getAttribute("points") ?? "").trim().split(/[\s,]+/).map(Number);
  if (corners.length < 6) return null;
  const mean = (from) => corners.filter((_, index) => index % 2 === from).reduce((sum, value) => sum + value, 0) / (corners.length / 2);
  return { x: mean(0), y: mean(1) };
}

export class Flow {
  constructor(svg, stages) {
    this.layer = s("g", { class: "flow", "aria-hidden": "true" });
    svg.append(this.layer);
    this.spots = new Map();
    for (const [id, element] of stages) {
      const spot = spotOf(element);
      if (spot) this.spots.set(id, spot);
    }
    this.ids = [...this.spots.keys()];
    this.wires = new Map();
    for (const path of svg.querySelectorAll("path.rail")) {
      const { from, to } = path.dataset, length = path.getTotalLength();
      if (!this.spots.has(from) || !this.spots.has(to)) continue;
      if (!this.wires.has(from)) this.wires.set(from, []);
      this.wires.get(from).push({ to, path, length });
    }
    this.ways = new Map();
    this.dots = [];
    this.spare = [];
    this.frame = 0;
    this.drawn = 0;
  }

  /** Let dots follow what has changed of these turns. */
  follow(rows) {
    if (stillness.matches || document.hidden) return;
    for (const row of rows) {
      const before = row.before ?? [], now = row.stages_now ?? [];
      if (row.isOld) continue;
      if (row.phase === "over") {
        const from = before[0] ?? (row.before === undefined ? this.ids[0] : undefined);
        if (from !== undefined) this.move(from, ["failed", "denied"].includes(row.outcome) ? this.ids[Math.min(row.done, this.ids.length) - 1] ?? from : this.lastOf(from), row.outcome);
        continue;
      }
      for (const stage of now) {
        if (!before.includes(stage)) this.move(before.find((id) => !now.includes(id)) ?? before[0] ?? stage, stage, "");
      }
    }
  }

  /** The stage at the end of the longest chain from one on: where a turn that is over has gone. */
  lastOf(from) {
    let at = from;
    for (let step = 0; step < 64; step += 1) {
      const next = this.wires.get(at)?.find((wire) => !wire.path.classList.contains("cleanup"));
      if (!next) return at;
      at = next.to;
    }
    return at;
  }

  /** The wires from one stage to another, the fewest; none if there is no such way. */
  wayTo(from, to) {
    const name = `${from} ${to}`;
    if (this.ways.has(name)) return this.ways.get(name);
    const came = new Map([[from, null]]), queue = [from];
    while (queue.length && !came.has(to)) {
      const at = queue.shift();
      for (const wire of this.wires.get(at) ?? []) {
        if (came.has(wire.to)) continue;
        came.set(wire.to, { at, wire });
        queue.push(wire.to);
      }
    }
    const way = [];
    for (let step = came.get(to); step; step = came.get(step.at)) way.unshift(step.wire);
    this.ways.set(name, way);
    return way;
  }

  move(from, to, outcome) {
    const start = this.spots.get(from), end = this.spots.get(to);
    if (!start || !end || this.dots.length >= MOST) return;
    const way = from === to ? [] : this.wayTo(from, to);
    const element = this.spare.pop() ?? s("circle", { r: 4.5 });
    element.setAttribute("class", `turn-dot ${outcome === "failed" || outcome === "denied" ? outcome : ""}`);
    this.layer.append(element);
    const legs = Math.max(way.length, 1);
    this.dots.push({ element, way, start, end, legs, began: performance.now(), time: Math.min(PACE * legs, 1100) });
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.draw(now));
  }

  draw(now) {
    this.frame = 0;
    if (now - this.drawn < FRAME) {
      this.frame = requestAnimationFrame((next) => this.draw(next));
      return;
    }
    this.drawn = now;
    this.dots = this.dots.filter((dot) => {
      const part = Math.max(0, (now - dot.began) / dot.time);
      if (part >= 1.15) {
        dot.element.remove();
        this.spare.push(dot.element);
        return false;
      }
      const along = Math.min(part, 1);
      let at;
      if (dot.way.length) {
        const leg = Math.min(Math.floor(along * dot.way.length), dot.way.length - 1);
        const wire = dot.way[leg];
        at = wire.path.getPointAtLength(wire.length * (along * dot.way.length - leg));
      } else at = { x: dot.start.x + (dot.end.x - dot.start.x) * along, y: dot.start.y + (dot.end.y - dot.start.y) * along };
      dot.element.setAttribute("cx", at.x.toFixed(1));
      dot.element.setAttribute("cy", at.y.toFixed(1));
      return true;
    });
    if (this.dots.length) this.frame = requestAnimationFrame((next) => this.draw(next));
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.layer.remove();
    this.dots = [];
  }
}
