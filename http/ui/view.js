// Shows one recording, or compares two. The endpoint's page and the file of a report have this in common.
import "./page.css";
import { limitsOf } from "./comments.js";
import { Graph } from "./graph.js";
import { boundsOf, found, labelsOf, tableOf, total, treeOf, withLabels } from "./profile.js";
import { element, Table } from "./table.js";
import { amount, share } from "./units.js";

export const at = (id) => document.getElementById(id);
const recordings = [];

const graph = new Graph(at("graph"), at("details"));
const table = new Table(at("functions"), at("more"), (name) => {
  search(name);
  at("search").focus(); // the chosen row may have left the table, and the focus with it
});

// ---- Recordings ------------------------------------------------------------------------------------------

export const count = () => recordings.length;

// Adds a recording, and shows it: what read() of profile.js returns, with the "blob" that it was read from, its "name", and the
// name of the "file" that a download makes.
export function add(recording) {
  recordings.push({ ...recording, limits: limitsOf(recording.comments) });
  const option = new Option(recording.name, recordings.length - 1);
  at("shown").append(option);
  option.selected = true;
  chooseRecording();
}

// Shows one of a recording's values. Both are numbers, from 0.
export function show(i, value) {
  at("shown").value = i;
  chooseRecording();
  at("value").value = value;
  render();
}

// ---- What is shown ---------------------------------------------------------------------------------------

const shown = () => recordings[at("shown").value];
const base = () => recordings[at("base").value] ?? null;

function isComparable(a, b) {
  return JSON.stringify(a.types) === JSON.stringify(b.types);
}

// Fills the list of recordings that the shown one can be compared with.
function fillBases() {
  const before = at("base").value;
  const bases = recordings.map((r, i) => [r, i]).filter(([r]) => r !== shown() && isComparable(r, shown()));

  at("base").replaceChildren(new Option("nothing", ""), ...bases.map(([r, i]) => new Option(r.name, i)));
  at("base").value = bases.some(([, i]) => String(i) === before) ? before : "";
}

function fillValues() {
  const before = at("value").value;
  const { types } = shown();

  at("value").replaceChildren(...types.map((t, i) => new Option(`${t.type} (${t.unit})`, i)));
  at("value").value = before !== "" && Number(before) < types.length ? before : types.length - 1;
}

// Makes a choice of "options", each a text to show and what it stands for: see withLabels() in profile.js. "key" is that of
// labels, or of the durations of a watch's rounds.
function labelChoice(title, key, options, before) {
  const label = document.createElement("label");
  const select = document.createElement("select");

  Object.assign(select.dataset, key);
  select.append(new Option("anything", ""), ...options.map(([text, choice]) => new Option(text, JSON.stringify(choice))));
  select.value = before.find((value) => options.some(([, choice]) => JSON.stringify(choice) === value)) ?? "";
  select.addEventListener("change", render);
  label.append(`${title} `, select);
  return label;
}

const choicesOfLabels = () =>
  [...at("labels").querySelectorAll("select")].map((select) => select.value).filter((value) => value !== "");

function wantedLabels() {
  return choicesOfLabels().map((value) => JSON.parse(value));
}

const boundText = (percent, ns) => `slowest ${percent} %: ${amount(ns, "nanoseconds")} or longer`;

// Fills the choices of labels, and keeps choices that are still possible.
function fillLabels() {
  const before = choicesOfLabels();
  const samples = [...shown().samples, ...(base()?.samples ?? [])];
  const choices = [
    ...[...labelsOf(samples)].map(([key, values]) =>
      labelChoice(key, { key }, values.map((text) => [text, { key, text }]), before)),
    ...[...boundsOf(samples)].map(([key, bounds]) => labelChoice(`rounds of ${key}`, { duration: key },
      bounds.map(([percent, least]) => [boundText(percent, least), { key, least }]), before)),
  ];

  at("labels").hidden = choices.length === 0;
  at("labels").querySelectorAll("label").forEach((label) => label.remove());
  at("labels").append(...choices);
}

function list(title, texts) {
  return [element("p", {}, title), element("ul", {}, ...texts.map((text) => element("li", {}, text)))];
}

// Shows the comments of the recordings, and limits and losses above the graph.
function tellHow() {
  const both = [shown(), base()].filter((recording) => recording !== null);

  at("limits").replaceChildren(...both.filter(({ limits }) => limits.length > 0)
    .flatMap(({ name, limits }) => list(`Limits and losses of recording ${name}`, limits)));
  at("comments").replaceChildren(...both.flatMap(({ name, comments }) => list(name, comments)));
}

function chooseBase() {
  fillLabels();
  tellHow();
  render();
}

function chooseRecording() {
  const link = at("download");

  at("result").hidden = false;
  fillBases();
  fillValues();
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(shown().blob);
  link.download = shown().file;
  chooseBase();
}

// Returns a recording's samples as the functions of profile.js take them, with all values multiplied by "scale".
function view(recording, scale) {
  const index = Number(at("value").value);
  return {
    samples: withLabels(recording.samples, wantedLabels()),
    valueOf: (sample) => sample.values[index] * scale,
  };
}

// Returns the views of the shown recording and of the one it is compared with, scaled to an equal time. Profiles of other
// programs may not say their time, and are not scaled.
function views() {
  const now = view(shown(), 1);
  const isTimeKnown = shown().seconds > 0 && base()?.seconds > 0;
  const then = base() === null ? null : view(base(), isTimeKnown ? shown().seconds / base().seconds : 1);
  return [now, then];
}

function render() {
  const { unit } = shown().types[at("value").value];
  const [now, then] = views();

  at("legend").hidden = then === null;
  graph.show(treeOf(now, then), unit, then !== null);
  table.show(tableOf(now, then), total(now), unit, then !== null);
  tellFound();
}

// ---- Search ----------------------------------------------------------------------------------------------

function tellFound() {
  const term = at("search").value;
  const [now] = views();
  const { unit } = shown().types[at("value").value];
  const sum = found(now, term);

  at("found").value = term === "" ? "" : `${amount(sum, unit)}, ${share(sum, total(now))}`;
}

function search(term) {
  at("search").value = term;
  graph.search(term);
  table.search(term);
  tellFound();
}

at("shown").addEventListener("change", chooseRecording);
at("base").addEventListener("change", chooseBase);
at("value").addEventListener("change", render);
at("search").addEventListener("input", () => search(at("search").value));
