// The page of the endpoint: records profiles, and shows them.
import { read } from "./profile.js";
import { events, record } from "./record.js";
import { amount, number } from "./units.js";
import { add, at, count } from "./view.js";

let known = { maxSeconds: 600, events: [] };
let running = null; // the AbortController of the running recording

// ---- Events ----------------------------------------------------------------------------------------------

const chosen = () => known.events.find((e) => e.name === at("event").value);

// Returns a sentence about the chosen period.
function aboutPeriod({ isTime, isWait, isWall, maxRate }) {
  const period = at("period").valueAsNumber;
  const rate = 1e9 / period;

  if (!(period >= 1))
    return ""; // no period is given, or an impossible one
  if (isWall && period < 1e6)
    return `Green threads are looked at every millisecond at most: take ${number(1e6)} ns or more.`;
  if (isWall)
    return `Up to 16 green threads are looked at every ${amount(period, "nanoseconds")} or so, and marked as running, `
      + "runnable or waiting.";
  if (isWait)
    return `Each wait of ${amount(period, "nanoseconds")} or more is recorded, and shorter ones in proportion.`;
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
    name: `${count() + 1}: ${describe(order, profile)}, ${time}`,
    file: `profile-${order.event.replace(/[^A-Za-z0-9]+/g, "-")}-${count() + 1}.pb.gz`,
  });
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

// ---- All of it -------------------------------------------------------------------------------------------

at("event").addEventListener("input", chooseEvent);
at("period").addEventListener("input", aboutEvent);
at("order").addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
at("cancel").addEventListener("click", () => running.abort());
fillEvents().catch((error) => say("", error.message));
