// Turns, tokens and latency over the last hours, drawn from a bucket a minute; each plot is a table, too.

import { get } from "./api.js";
import { empty, h, mark, problem, put, s, say, table } from "./dom.js";
import { clock, count, duration } from "./format.js";

const HEIGHT = 160, LEFT = 46, BOTTOM = 20, TOP = 8;
const OUTCOMES = ["ok", "claimed", "denied", "cancelled", "dropped", "failed"];
let hours = 1;

export function open(place) {
  return new Plots(place);
}

class Plots {
  constructor(place) {
    this.body = h("div", { class: "plots" });
    const choice = h("fieldset", { class: "chips" }, h("legend", { class: "sr" }, "How far back"), [1, 3, 6].map((each) =>
      h("label", { class: "chip" }, h("input", { type: "radio", name: "hours", value: each, checked: each === hours, onchange: () => { hours = each; this.show(); } }), each === 1 ? "1 hour" : `${each} hours`)));
    put(place, h("header", { class: "head" }, h("h1", null, "Plots"), choice), this.body);
    this.load();
    this.timer = setInterval(() => document.hidden || this.load(), 10000);
    this.sizes = new ResizeObserver(() => this.body.clientWidth !== this.width && this.show());
    this.sizes.observe(this.body);
  }

  async load() {
    try {
      this.given = await get("plots");
    } catch (error) {
      put(this.body, problem(error));
      return;
    }
    if (!this.isClosed && !this.body.querySelector("details[open], :focus-visible")) this.show();
  }

  again() {
    this.load();
  }

  close() {
    this.isClosed = true;
    this.sizes.disconnect();
    clearInterval(this.timer);
  }

  show() {
    if (!this.given) return;
    const { step, from, turns = {}, tokens = {}, p50 = [], p95 = [] } = this.given;
    const length = Math.max(p50.length, p95.length, ...Object.values(turns).map((each) => each.length), ...Object.values(tokens).map((each) => each.length), 0);
    if (!length) return put(this.body, empty("Nothing has happened yet: a point for each minute shows here."));
    const wanted = (hours * 3600) / step, by = Math.max(1, Math.round(wanted / (this.body.clientWidth > 700 ? 90 : 60)));
    const cells = Math.floor(wanted / by), last = from + length * step;
    // each cell sums up `by` buckets, counted from the latest one backwards
    const fold = (values, join) => Array.from({ length: cells }, (_, index) => {
      const end = length - (cells - 1 - index) * by, start = end - by;
      return join(values.slice(Math.max(0, start), Math.max(0, end)).filter((value) => value !== null && value !== undefined));
    });
    const sum = (all) => all.reduce((total, value) => total + value, 0);
    const most = (all) => (all.length ? Math.max(...all) : null);
    const middle = (all) => (all.length ? all.sort((one, other) => one - other)[Math.floor(all.length / 2)] : null);
    const times = Array.from({ length: cells }, (_, index) => last - (cells - index) * by * step);
    const outcomes = [...OUTCOMES, ...Object.keys(turns).filter((name) => !OUTCOMES.includes(name))].filter((name) => turns[name]?.some(Boolean));
    const each = by * step >= 60 ? `${Math.round((by * step) / 60)} min` : `${by * step} s`;
    const whole = this.body.clientWidth, isNarrow = matchMedia("(max-width: 899px)").matches, half = isNarrow ? whole : (whole - 32) / 2;
    this.width = whole;
    return put(this.body,
      plot(`Turns, each ${each}`, times, outcomes.map((name) => ({ name, values: fold(turns[name], sum) })), { kind: "bars", write: count, width: whole }),
      plot(`Tokens, each ${each}`, times, [{ name: "in", values: fold(tokens.input ?? [], sum) }, { name: "out", values: fold(tokens.output ?? [], sum) }], { kind: "lines", write: count, width: half }),
      plot("Latency of turns", times, [{ name: "p50", values: fold(p50, middle) }, { name: "p95", values: fold(p95, most) }], { kind: "lines", write: duration, width: half }));
  }
}

/** A round number that is not below the largest value. */
function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].find((each) => each * power >= value * 0.999) * power;
}

function plot(title, times, lines, { kind, write, width: WIDTH }) {
  const size = times.length, step = (WIDTH - LEFT - 4) / size, tall = HEIGHT - TOP - BOTTOM;
  const sums = times.map((_, index) => (kind === "bars" ? lines.reduce((total, line) => total + (line.values[index] ?? 0), 0) : Math.max(0, ...lines.map((line) => line.values[index] ?? 0))));
  const top = Math.max(ceiling(Math.max(0, ...sums)), write === count ? 2 : 0);
  const x = (index) => LEFT + index * step, y = (value) => TOP + tall * (1 - value / top);
  const drawn = [];
  for (const part of [0, 0.5, 1]) {
    drawn.push(s("line", { class: "grid", x1: LEFT, x2: WIDTH - 4, y1: y(top * part), y2: y(top * part) }),
      s("text", { class: "axis", x: LEFT - 6, y: y(top * part) + 4, "text-anchor": "end" }, part ? write(top * part) : "0"));
  }
  const every = Math.ceil(size / Math.max(3, Math.floor(WIDTH / 90)));
  times.forEach((time, index) => {
    if (index % every === 0) drawn.push(s("text", { class: "axis", x: x(index), y: HEIGHT - 5 }, clock(time, false).slice(-5)));
  });
  if (kind === "bars") {
    times.forEach((_, index) => {
      let at = 0;
      for (const line of lines) {
        const value = line.values[index] ?? 0;
        if (!value) continue;
        drawn.push(s("rect", { class: `fill-${line.name}`, x: (x(index) + 0.5).toFixed(2), y: y(at + value).toFixed(2), width: Math.max(1, step - 1.5).toFixed(2), height: Math.max(0.8, y(at) - y(at + value)).toFixed(2), rx: 1 }));
        at += value;
      }
    });
  } else {
    for (const line of lines) drawn.push(s("path", { class: `stroke-${line.name}`, d: pathOf(line.values, (index) => x(index) + step / 2, y) }),
      ...line.values.map((value, index) => (value !== null && (line.values[index - 1] ?? null) === null && (line.values[index + 1] ?? null) === null ? s("circle", { class: `point-${line.name}`, cx: x(index) + step / 2, cy: y(value), r: 2 }) : null)));
  }
  const cross = s("line", { class: "cross", y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  const svg = s("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. The table below has the numbers.` }, drawn, cross);
  const readout = h("span", { class: "faint readout" });
  const words = (index) => `${clock(times[index], false)} · ${lines.map((line) => `${line.name} ${line.values[index] === null ? "–" : write(line.values[index])}`).join(" · ")}`;
  const rest = () => {
    const totals = lines.map((line) => line.values.filter((value) => value !== null));
    say(readout, kind === "bars" || write === count ? lines.map((line, index) => `${line.name} ${write(totals[index].reduce((sum, value) => sum + value, 0))}`).join(" · ") : "");
    mark(cross, "x1", -9);
    mark(cross, "x2", -9);
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const index = Math.floor((((event.clientX - box.left) / box.width) * WIDTH - LEFT) / step);
    if (index < 0 || index >= size) return rest();
    mark(cross, "x1", x(index) + step / 2);
    mark(cross, "x2", x(index) + step / 2);
    return say(readout, words(index));
  });
  svg.addEventListener("pointerleave", rest);
  rest();
  const filled = times.map((time, index) => [time, index]).filter(([, index]) => lines.some((line) => line.values[index]));
  return h("section", { class: "part plot-part" }, h("header", { class: "head" }, h("h2", null, title), h("ul", { class: "legend" }, lines.map((line) => h("li", null, s("svg", { width: 16, height: 10, "aria-hidden": "true" },
    kind === "bars" ? s("rect", { class: `fill-${line.name}`, x: 2, y: 0, width: 10, height: 10, rx: 2 }) : s("path", { class: `stroke-${line.name}`, d: "M0 5H16" })), line.name))), readout),
  svg, h("details", null, h("summary", null, "As a table"), table(title, [{ title: "Time" }, ...lines.map((line) => ({ title: line.name, class: "end" }))],
    filled.map(([time, index]) => h("tr", null, h("th", { scope: "row" }, clock(time, false)), lines.map((line) => h("td", { class: "end" }, line.values[index] === null ? "–" : write(line.values[index]))))), { class: "small" })));
}

function pathOf(values, x, y) {
  let path = "", isOpen = false;
  values.forEach((value, index) => {
    if (value === null || value === undefined) isOpen = false;
    else {
      path += `${isOpen ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
      isOpen = true;
    }
  });
  return path || "M0 0";
}
