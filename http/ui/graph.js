// The flame graph: d3-flame-graph with our own colours, usable by keyboard and screen reader.
import flamegraph from "d3-flame-graph";
import { select } from "d3-selection";
import { matches } from "./profile.js";
import { amount, change, share } from "./units.js";

const CELL = 20;

// Returns a warm hue for a name; equal names have equal hues.
function hueOf(name) {
  let hash = 0;
  for (const c of name)
    hash = (hash * 31 + c.codePointAt(0)) >>> 0;
  return 5 + (hash % 50);
}

// Returns the colour of a frame: by its name or, in a comparison, by how much it grew (red) or shrank (blue).
function colorOf(node, isDifference) {
  const { name, now, then, value } = node.data;

  if (node.highlight)
    return "hsl(290 85% 78%)";
  if (!isDifference)
    return `hsl(${hueOf(name)} 85% 72%)`;
  const change = value === 0 ? 0 : (now - then) / value; // -1: the frame has gone; 1: it is new
  return change === 0 ? "hsl(0 0% 88%)" : `hsl(${change > 0 ? 0 : 215} 85% ${94 - 30 * Math.abs(change)}%)`;
}

export class Graph {
  constructor(element, details) {
    this.element = element;
    this.details = details;
    this.term = "";
    new ResizeObserver(() => this.resize()).observe(element);
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("focusin", (event) => this.tell(select(event.target).datum()));
  }

  // Shows a tree. "difference" says whether the tree compares two recordings.
  show(tree, unit, difference) {
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;

    this.chart?.destroy();
    this.all = { now: tree.now, then: tree.then };
    this.unit = unit;
    this.isDifference = difference;
    this.chart = flamegraph().width(this.width()).cellHeight(CELL).inverted(true).sort(true).minFrameSize(1)
      .transitionDuration(0) // a new graph appears at once; only zooming is animated, see below
      .label((d) => this.textOf(d))
      .setColorMapper((d) => colorOf(d, this.isDifference))
      .setSearchMatch((d, term) => matches(d.data.name, term))
      .setSearchHandler(() => {})
      .setDetailsHandler((text) => { this.details.value = text ?? ""; })
      .onClick((d) => this.zoomed(d));
    select(this.element).datum(tree).call(this.chart);
    this.details.value = "";
    this.search(this.term);
    this.chart.transitionDuration(isCalm ? 0 : 200);
  }

  width() {
    return Math.max(200, Math.floor(this.element.clientWidth));
  }

  // Redraws the graph if the width of the page has changed.
  resize() {
    if (this.chart === undefined || this.chart.width() === this.width())
      return;
    this.chart.width(this.width());
    this.chart.update();
    this.describe();
  }

  search(term) {
    this.term = term;
    if (this.chart === undefined)
      return;
    this.chart.search(term);
    this.describe();
  }

  // Returns the sentence that describes a frame.
  textOf(d) {
    const { name, now, then } = d.data;
    const own = `${name}: ${amount(now, this.unit)}, ${share(now, this.all.now)}`;

    return this.isDifference
      ? `${own}; before ${amount(then, this.unit)}, ${share(then, this.all.then)}; ${change(now - then, this.unit)}`
      : own;
  }

  tell(d) {
    if (d?.data !== undefined)
      this.details.value = this.textOf(d);
  }

  frames() {
    return [...this.element.querySelectorAll("g.frame")];
  }

  frameOf(d) {
    return this.frames().find((frame) => select(frame).datum() === d);
  }

  // Sets what assistive technology reads of the frames. Only one frame, "current", can be reached by the Tab key.
  describe(current) {
    const frames = this.frames();
    const svg = this.element.querySelector("svg");
    const active = current ?? frames.find((f) => f === document.activeElement) ?? frames[0];

    svg.setAttribute("role", "tree");
    svg.setAttribute("aria-labelledby", "graph-title");
    svg.setAttribute("aria-describedby", "graph-help");
    for (const frame of frames) {
      const d = select(frame).datum();
      frame.setAttribute("role", "treeitem");
      frame.setAttribute("aria-level", d.depth + 1);
      frame.setAttribute("aria-label", this.textOf(d));
      frame.setAttribute("tabindex", frame === active ? 0 : -1);
    }
  }

  zoomed(d) {
    const frame = this.frameOf(d);
    const isWithin = this.element.contains(document.activeElement);

    this.describe(frame);
    if (isWithin)
      frame?.focus();
  }

  // Returns the node that an arrow key leads to. Callees are below their caller.
  next(key, d) {
    const beside = (step) => {
      const all = (d.parent?.children ?? [d]).filter((n) => this.frameOf(n) !== undefined);
      return all[all.indexOf(d) + step];
    };
    const widest = () => [...(d.children ?? [])].sort((a, b) => b.value - a.value)[0];

    switch (key) {
    case "ArrowUp": return d.parent;
    case "ArrowDown": return widest();
    case "ArrowLeft": return beside(-1);
    case "ArrowRight": return beside(1);
    case "Home": return d.ancestors().at(-1);
    default: return undefined;
    }
  }

  key(event) {
    const d = select(event.target).datum();

    if (d?.data === undefined)
      return;
    if (event.key === "Enter" || event.key === " ") {
      this.chart.zoomTo(d);
    } else if (event.key === "Escape") {
      this.chart.resetZoom();
    } else {
      const to = this.next(event.key, d);
      const frame = to && this.frameOf(to);
      if (frame === undefined)
        return;
      event.target.setAttribute("tabindex", -1);
      frame.setAttribute("tabindex", 0);
      frame.focus();
    }
    event.preventDefault();
  }
}
