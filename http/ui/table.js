// The table of functions, which can be sorted by any column.
import { matches } from "./profile.js";
import { amount, change, share } from "./units.js";

const MAX_ROWS = 500;

const columns = [
  { key: "flat", title: "Flat", has: "share" },
  { key: "flatMore", title: "Flat, change", has: "change" },
  { key: "cum", title: "Cum", has: "share" },
  { key: "cumMore", title: "Cum, change", has: "change" },
  { key: "name", title: "Function", has: "name" },
];

function compare(a, b, key) {
  return key === "name" ? a.name.localeCompare(b.name) : a[key] - b[key];
}

// Makes an element with the given properties and children.
export function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export class Table {
  // choose() is called with the name of a function that the user has chosen.
  constructor(table, more, choose) {
    this.table = table;
    this.more = more;
    this.choose = choose;
    this.by = "flat";
    this.isUp = false;
    this.term = "";
    this.rows = [];
    this.columns = [];
  }

  show(rows, all, unit, isDifference) {
    Object.assign(this, { rows, all, unit });
    this.columns = columns.filter((c) => isDifference || c.has !== "change");
    if (!this.columns.some((c) => c.key === this.by))
      this.by = "flat";
    this.table.tHead.replaceChildren(element("tr", {}, ...this.columns.map((c) => this.heading(c))));
    this.render();
  }

  search(term) {
    this.term = term;
    this.render();
  }

  // Sorts by a column; a second time in the other direction.
  sort(key) {
    this.isUp = this.by === key ? !this.isUp : key === "name";
    this.by = key;
    this.render();
  }

  heading(column) {
    const button = element("button", { type: "button", onclick: () => this.sort(column.key) }, column.title);
    const heading = element("th", { scope: "col" }, button);
    heading.dataset.key = column.key;
    return heading;
  }

  cell(row, column) {
    if (column.has === "name")
      return element("td", {}, element("button", { type: "button", onclick: () => this.choose(row.name) }, row.name));
    const value = row[column.key];
    return element("td", {}, column.has === "change"
      ? change(value, this.unit)
      : `${amount(value, this.unit)} (${share(value, this.all)})`);
  }

  render() {
    const wanted = this.rows.filter((row) => this.term === "" || matches(row.name, this.term));
    const direction = this.isUp ? 1 : -1;

    wanted.sort((a, b) => direction * compare(a, b, this.by) || b.cum - a.cum);
    for (const heading of this.table.tHead.querySelectorAll("th"))
      heading.ariaSort = heading.dataset.key !== this.by ? "none" : this.isUp ? "ascending" : "descending";
    this.table.tBodies[0].replaceChildren(...wanted.slice(0, MAX_ROWS).map((row) =>
      element("tr", {}, ...this.columns.map((column) => this.cell(row, column)))));
    this.more.textContent = wanted.length > MAX_ROWS
      ? `The first ${MAX_ROWS} of ${wanted.length} functions; the search finds the others.` : "";
  }
}
