// The page: records profiles, and shows one profile, or compares two.
import "./page.css";
import { limitsOf } from "./comments.js";
import { Graph } from "./graph.js";
import { found, labelsOf, read, tableOf, total, treeOf, withLabels } from "./profile.js";
import { events, record } from "./record.js";
import { element, Table } from "./table.js";
import { amount, number, share } from "./units.js";

const at = (id) => document.getElementById(id);
const recordings = [];
let known = { maxSeconds: 600, events: [] };
let running = null; // the AbortController of the running recording

const graph = new Graph(at("graph"), at("details"));
const table = new Table(at("functions"), at("more"), (name) => {
  search(name);
  at("search").focus(); // the chosen row may have left the table, and the focus with it
});

// ---- Events ----------------------------------------------------------------------------------------------

const chosen = () => known.events.find((e) => e.name === at("event").value);

// Returns a sentence about the chosen period.
function aboutPeriod({ isTime, maxRate }) {
  const period = at("period").valueAsNumber;
  const rate = 1e9 / period;

  if (!(period >= 1))
    return ""; // no period is given, or an impossible one
  if (isTime && maxRate !== 0 && rate > maxRate)
    return `A sample every ${amount(period, "nanoseconds")} is ${number(rate)} a second for each thread, and the kernel `
      + `stops at ${number(maxRate)} (kernel.perf_event_max_sample_rate): take ${number(Math.ceil(1e9 / maxRate))} ns or more.`;
  if (isTime)
    return `A sample every ${amount(period, "nanoseconds")}: up to ${number(rate)} a second for each thread.`;
  return period === 1 ? "Each event is a sample." : `One event in ${number(period)} is a sample.`;
}

// Shows what the chosen event is good for, or why it does not work.
function aboutEvent() {
  const event = chosen();
  const what = event && (event.use || (event.description && `It counts ${event.description}.`));

  at("about-event").textContent = event === undefined ? ""
    : event.reason !== null ? `Does not work here: ${event.reason}`
    : `${what} ${aboutPeriod(event)}`;
}

function chooseEvent() {
  at("period").value = chosen()?.period ?? "";
  aboutEvent();
}

async function fillEvents() {
  known = await events();
  at("events").replaceChildren(...known.events.filter((e) => e.reason === null)
    .map((e) => Object.assign(document.createElement("option"), { value: e.name, label: e.description })));
  at("seconds").max = known.maxSeconds;
  at("seconds").value = Math.min(at("seconds").value, known.maxSeconds);
  chooseEvent();
}

// ---- Recording -------------------------------------------------------------------------------------------

function say(text, error = "") {
  at("status").textContent = text;
  at("error").textContent = error;
}

function tick(passed, seconds) {
  at("progress").value = Math.min(passed, seconds);
  at("progress").textContent = `${Math.floor(passed)} s of ${seconds} s`;
}

function setRunning(seconds) {
  const isRunning = seconds > 0;
  const [from, to] = isRunning ? [at("record"), at("cancel")] : [at("cancel"), at("record")];
  const hasFocus = document.activeElement === from;

  at("record").disabled = isRunning;
  at("cancel").hidden = at("progress").hidden = !isRunning;
  if (hasFocus)
    to.focus();
  at("progress").max = seconds || 1;
  at("progress").value = 0;
}

function add(recording) {
  recordings.push(recording);
  const option = new Option(recording.name, recordings.length - 1);
  at("shown").append(option);
  option.selected = true;
}

// Returns the name of a recording, without its number and time.
function describe({ event, seconds }, { period, types }) {
  const { unit } = types.at(-1);
  const every = unit === "nanoseconds" ? amount(period, unit) : number(period);
  return `${event} every ${every}, ${seconds} s`;
}

// Records a profile, reads it, and shows it.
async function take(order) {
  const blob = await record(order, running.signal, (passed) => tick(passed, order.seconds));
  const profile = await read(blob);
  const time = new Date().toLocaleTimeString("en-GB");

  add({
    ...profile,
    blob,
    limits: limitsOf(profile.comments),
    name: `${recordings.length + 1}: ${describe(order, profile)}, ${time}`,
    file: `profile-${order.event.replace(/[^A-Za-z0-9]+/g, "-")}-${recordings.length + 1}.pb.gz`,
  });
  chooseRecording();
  say(profile.samples.length > 0 ? `Recorded ${profile.samples.length} stacks.`
    : "The profile has no samples, because the event happened too rarely.");
}

async function start() {
  const order = { event: at("event").value, period: at("period").value, seconds: at("seconds").valueAsNumber };

  running = new AbortController();
  setRunning(order.seconds);
  say(`Recording ${order.event} for ${order.seconds} s.`);
  try {
    await take(order);
  } catch (error) {
    say("", error.name === "AbortError" ? "The recording was cancelled." : error.message);
  } finally {
    setRunning(0);
  }
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

function labelChoice(key, values, before) {
  const label = document.createElement("label");
  const select = document.createElement("select");

  select.dataset.key = key;
  select.append(new Option("anything", ""), ...[...values].sort().map((v) => new Option(v, `=${v}`)));
  select.value = before !== undefined && values.has(before) ? `=${before}` : "";
  select.addEventListener("change", render);
  label.append(`${key} `, select);
  return label;
}

function wantedLabels() {
  const selects = [...at("labels").querySelectorAll("select")].filter((s) => s.value !== "");
  return new Map(selects.map((s) => [s.dataset.key, s.value.slice(1)]));
}

// Fills the choices of labels, and keeps choices that are still possible.
function fillLabels() {
  const before = wantedLabels();
  const labels = labelsOf([...shown().samples, ...(base()?.samples ?? [])]);

  at("labels").hidden = labels.size === 0;
  at("labels").querySelectorAll("label").forEach((label) => label.remove());
  at("labels").append(...[...labels].map(([key, values]) => labelChoice(key, values, before.get(key))));
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

// Returns the views of the shown recording and of the one it is compared with, scaled to an equal time.
function views() {
  const now = view(shown(), 1);
  const then = base() === null ? null : view(base(), shown().seconds / base().seconds);
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

// ---- All of it -------------------------------------------------------------------------------------------

at("event").addEventListener("input", chooseEvent);
at("period").addEventListener("input", aboutEvent);
at("order").addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
at("cancel").addEventListener("click", () => running.abort());
at("shown").addEventListener("change", chooseRecording);
at("base").addEventListener("change", chooseBase);
at("value").addEventListener("change", render);
at("search").addEventListener("input", () => search(at("search").value));
fillEvents().catch((error) => say("", error.message));
