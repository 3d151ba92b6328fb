// Drives the page of the endpoint in a browser: node page.mjs URL OPEN DIR. The service at URL begins with
// something new once the file OPEN is there; pictures and downloads go to DIR. Fails by an exception.
import assert from "node:assert/strict";
import { join } from "node:path";
import { writeFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [url, open, dir] = process.argv.slice(2);
const origin = new URL(url).origin;
const complaints = [];
const foreign = [];
let allowed = []; // what the console may say: what is about to be provoked

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium" });
const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, acceptDownloads: true });
const page = await context.newPage();

page.setDefaultTimeout(60000); // a busy machine may take long
context.on("request", (request) => {
  if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith(`blob:${origin}/`))
    foreign.push(request.url());
});
page.on("pageerror", (error) => complaints.push(String(error)));
page.on("console", (message) => {
  const text = message.text();
  if (["error", "warning"].includes(message.type()) && !allowed.some((part) => text.includes(part)))
    complaints.push(text);
});

function step(text) {
  console.log(text);
}

async function picture(name) {
  await page.locator("#graph .d3-flame-graph-label", { hasText: "burn_here" }).first().waitFor();
  await page.screenshot({ path: join(dir, `${name}.png`), fullPage: true });
}

const frames = (name) => page.locator(`#graph g.frame[name="${name}"]`);
const cells = (column) => page.locator(`#functions tbody td:nth-child(${column})`).allTextContents();
const percent = (text) => Number(text.match(/\((-?[0-9.]+) %\)/)[1]);

async function record(event, period, seconds) {
  const before = await page.locator("#shown option").count();
  await page.getByLabel("Event", { exact: true }).fill(event);
  await page.getByLabel("Period", { exact: true }).fill(period);
  await page.getByLabel("Seconds", { exact: true }).fill(String(seconds));
  await page.getByRole("button", { name: "Record", exact: true }).click();
  await page.waitForFunction((n) => document.querySelectorAll("#shown option").length > n, before);
  await page.getByRole("progressbar", { name: "Recording" }).waitFor({ state: "hidden" });
}

// What a link of another site to a path leads to.
async function follow(path) {
  const visit = await browser.newPage();

  await visit.route("http://elsewhere.example/", (route) => route.fulfill({
    contentType: "text/html", body: `<a href="${new URL(path, url)}">here</a>`,
  }));
  await visit.goto("http://elsewhere.example/");
  const [answer] = await Promise.all([
    visit.waitForResponse((response) => response.url().startsWith(origin)),
    visit.getByText("here").click(),
  ]);
  await visit.close();
  return answer.status();
}

try {
  step("a link of another site leads to the pages, and to no profile");
  assert.equal(await follow("."), 200);
  assert.equal(await follow("../"), 200);
  assert.equal(await follow("../profile?seconds=1"), 403);

  step("the page opens, and knows the events");
  const answer = await page.goto(url);
  assert.equal(answer.status(), 200);
  await page.waitForFunction(() => document.querySelectorAll("#events option").length > 0);
  await page.getByLabel("Event", { exact: true }).fill("taskClock");
  assert.equal(await page.getByLabel("Period", { exact: true }).inputValue(), "500000");
  const about = async () => (await page.locator("#about-event").textContent()).replaceAll("\u00a0", " ");
  assert.match(await about(), /CPU time.* every 500 µs: up to 2 000 a second for each thread\.$/);

  step("what is said of an event follows the period");
  await page.getByLabel("Period", { exact: true }).fill("10000000");
  assert.match(await about(), / every 10 ms: up to 100 a second /);
  await page.getByLabel("Period", { exact: true }).fill("333333");
  assert.match(await about(), / every 333\.3 µs is 3 000 a second .* stops at 3 000 .*: take 333 334 ns or more\.$/);
  await page.getByLabel("Period", { exact: true }).fill("333334");
  assert.match(await about(), / every 333\.3 µs: up to 3 000 a second /);
  await page.getByLabel("Event", { exact: true }).fill("timer");
  await page.getByLabel("Period", { exact: true }).fill("50000");
  assert.match(await about(), / every 50 µs: up to 20 000 a second /);
  await page.getByLabel("Event", { exact: true }).fill("taskClock");
  await page.getByLabel("Period", { exact: true }).fill("");
  assert.match(await about(), /CPU time[^0-9]*$/);
  await page.getByLabel("Event", { exact: true }).fill("pageFaults");
  assert.match(await about(), / One event in 100 is a sample\.$/);
  await page.getByLabel("Period", { exact: true }).fill("1000003");
  assert.match(await about(), / One event in 1 000 003 is a sample\.$/);
  await page.getByLabel("Period", { exact: true }).fill("1");
  assert.match(await about(), / Each event is a sample\.$/);
  await page.getByLabel("Event", { exact: true }).fill("wait");
  assert.match(await about(), / Each wait of 1 ms or more is recorded, and shorter ones in proportion\.$/);
  await page.getByLabel("Event", { exact: true }).fill("wall");
  assert.match(await about(), / Up to 16 green threads are looked at every 10 ms or so, and marked as running, runnable or waiting\.$/);
  await page.getByLabel("Period", { exact: true }).fill("999999");
  assert.match(await about(), / every millisecond at most: take 1 000 000 ns or more\.$/);

  step("what is inline does not run");
  allowed = ["Content Security Policy"];
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.wasRun = true;";
    document.body.append(script);
  });
  assert.equal(await page.evaluate(() => window.wasRun), undefined);
  allowed = [];

  step("two seconds are recorded, and their functions are in the graph");
  await record("taskClock", "1000000", 2);
  await frames("serve_customers").first().waitFor();
  assert.match(await frames("serve_customers").first().getAttribute("aria-label"), /^serve_customers: .+ m?s, /);
  assert.equal(await frames("cook_meals").count(), 0);
  await picture("graph");

  step("the table sorts");
  const flat = (await cells(1)).map(percent);
  assert.deepEqual(flat, [...flat].sort((a, b) => b - a));
  assert.equal((await cells(3))[0], "burn_here");
  await page.getByRole("columnheader").getByRole("button", { name: "Function" }).click();
  const names = await cells(3);
  assert.ok(names.length > 2);
  assert.deepEqual(names, [...names].sort((a, b) => a.localeCompare(b)));
  assert.equal(await page.locator('th[aria-sort="ascending"]').textContent(), "Function");
  await page.getByRole("columnheader").getByRole("button", { name: "Function" }).click();
  assert.deepEqual(await cells(3), names.reverse());
  await page.getByRole("columnheader").getByRole("button", { name: "Cum" }).click();
  const cum = (await cells(2)).map(percent);
  assert.deepEqual(cum, [...cum].sort((a, b) => b - a));
  await page.getByRole("columnheader").getByRole("button", { name: "Flat" }).click();

  step("the search marks, counts and filters");
  await page.getByLabel("Search").fill("SERVE_cust");
  assert.deepEqual(await cells(3), ["serve_customers"]);
  const [cumulated] = await cells(2);
  assert.match(cumulated, /^\d.* m?s \(\d.* %\)$/);
  assert.equal(await page.locator("#found").textContent(), cumulated.replace(/ \((.*)\)/, ", $1"));
  assert.match(await frames("serve_customers").first().locator("rect").getAttribute("fill"), /290/);
  await page.getByLabel("Search").fill("");
  assert.doesNotMatch(await frames("serve_customers").first().locator("rect").getAttribute("fill"), /290/);

  step("the keyboard reaches every frame, and zooms");
  await page.locator('#graph g.frame[tabindex="0"]').focus();
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("name"));
  assert.equal(await focused(), "all");
  for (let depth = 0; depth < 30 && (await focused()) !== "serve_customers"; depth++)
    await page.keyboard.press("ArrowDown");
  assert.equal(await focused(), "serve_customers");
  assert.match(await page.locator("#details").textContent(), /^serve_customers: /);
  await page.keyboard.press("Enter");
  assert.equal(await focused(), "serve_customers");
  assert.match(await frames("all").getAttribute("class"), /fade/);
  await page.keyboard.press("Escape");
  assert.doesNotMatch(await frames("all").getAttribute("class"), /fade/);
  await page.keyboard.press("Home");
  assert.equal(await focused(), "all");
  assert.equal(await page.locator("#graph [role=treeitem]").count(), await page.locator("#graph g.frame").count());

  step("the keyboard keeps its place where what it was on goes");
  const focusedId = () => page.evaluate(() => document.activeElement.id);
  await page.locator("#functions tbody button").first().focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.getByLabel("Search").inputValue(), "burn_here");
  assert.equal(await focusedId(), "search");
  await page.getByLabel("Search").fill("");
  await page.getByLabel("Seconds", { exact: true }).fill("60");
  await page.getByRole("button", { name: "Record", exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Cancel", exact: true }).waitFor();
  await page.getByRole("progressbar", { name: "Recording" }).waitFor();
  assert.equal(await focusedId(), "cancel");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "cancelled" }).waitFor();
  assert.equal(await focusedId(), "record");

  step("a download is the profile");
  const started = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download" }).click();
  const download = await started;
  assert.equal(download.suggestedFilename(), "profile-taskClock-1.pb.gz");
  await download.saveAs(join(dir, "downloaded.pb.gz"));

  step("what is new shows in the difference");
  writeFileSync(open, "");
  await record("taskClock", "1000000", 2);
  await frames("cook_meals").first().waitFor();
  await page.getByLabel("Compared with").selectOption({ index: 1 });
  await frames("cook_meals").first().waitFor();
  assert.match(await frames("cook_meals").first().getAttribute("aria-label"), /; before 0, 0\.0 %; \+/);
  assert.match(await frames("cook_meals").first().locator("rect").getAttribute("fill"), /^hsl\(0 85% 64%\)$/);
  await page.getByLabel("Search").fill("cook_meals");
  const [row] = await page.locator("#functions tbody tr").all();
  const change = (await row.locator("td").allTextContents())[3];
  assert.match(change, /^\+.+ m?s$/);
  await page.getByLabel("Search").fill("");
  await picture("difference");

  step("what limits a recording stands beside it, for two that are compared too");
  const limits = page.getByRole("status").filter({ hasText: "Limits and losses of recording" });
  const option = (n) => page.locator(`#shown option:nth-child(${n})`).textContent();
  const warning = (ns) => `warning: A sample of taskClock every ${ns} ns is `;
  await page.getByLabel("Compared with").selectOption({ label: "nothing" });
  await record("taskClock", "200000", 1);
  assert.match(await option(1), /^1: taskClock every 1 ms, 2 s, \d\d:\d\d:\d\d$/);
  assert.match(await option(3), /^3: taskClock every 200 µs, 1 s, /);
  await limits.filter({ hasText: warning(200000) }).waitFor();
  assert.ok((await limits.textContent()).includes(`Limits and losses of recording ${await option(3)}`));
  assert.doesNotMatch(await limits.textContent(), /engine:|rate: |limits:/);
  assert.ok(!(await page.getByText(/engine: (trap|signal) # an event of perf_event_open/).isVisible()));
  await page.getByText("How it was taken").click();
  await page.getByText(/engine: (trap|signal) # an event of perf_event_open/).waitFor();
  assert.match(await page.locator("#comments").textContent(), /engine: .*threads: .*rate: .*coverage: .*warning: .*limits: .*warning/);
  await record("taskClock", "250000", 1);
  await page.getByLabel("Compared with").selectOption({ index: 3 });
  assert.equal(await page.locator("#base option:checked").textContent(), await option(3));
  for (const [n, ns] of [[3, 200000], [4, 250000]]) {
    await limits.filter({ hasText: warning(ns) }).waitFor();
    assert.ok((await limits.textContent()).includes(`Limits and losses of recording ${await option(n)}`));
  }
  assert.equal(await page.getByText(/engine: (trap|signal) # an event of perf_event_open/).count(), 2);
  await picture("limits");
  await page.getByLabel("Compared with").selectOption({ label: "nothing" });
  await page.locator("#shown").selectOption({ index: 1 });
  await limits.filter({ hasText: warning(250000) }).waitFor({ state: "detached" });
  assert.ok(!(await page.locator("#limits").textContent()).includes("warning: "));

  step("labels filter");
  const role = page.locator('#labels select[data-key="role"]');
  assert.deepEqual(await role.locator("option").allTextContents(), ["anything", "kitchen", "service"]);
  await role.selectOption({ label: "kitchen" });
  await frames("serve_customers").first().waitFor({ state: "detached" });
  assert.ok((await frames("cook_meals").count()) > 0);
  assert.ok(!(await cells(3)).includes("serve_customers"));

  step("what was inlined stands below what it was inlined into");
  const level = async (name) => Number(await frames(name).first().getAttribute("aria-level"));
  assert.equal(await level("stir"), (await level("cook_meals")) + 1);
  assert.equal(await level("burn_here"), (await level("stir")) + 1);
  await role.selectOption({ label: "anything" });
  await frames("serve_customers").first().waitFor();

  step("it is dark where one likes it so");
  await page.emulateMedia({ colorScheme: "dark" });
  const background = await page.evaluate(() => {
    const probe = document.body.appendChild(document.createElement("p"));
    probe.style.backgroundColor = "Canvas";
    const color = getComputedStyle(probe).backgroundColor;
    probe.remove();
    return color;
  });
  assert.ok(background.match(/\d+/g).slice(0, 3).every((part) => Number(part) < 64), background);
  await picture("dark");

  step("a recording without samples says so");
  await record("pageFaults", "1000000000", 1);
  await page.getByRole("status").filter({ hasText: "no sample" }).waitFor();
  await record("cpuClock", "1000000000000000", 1);
  await limits.filter({ hasText: /empty: \d+ # .* less than the period .* take a period of at most \d+ ns/ }).waitFor();

  step("the period may stand after the event's name");
  await record("cpuClock:2ms", "", 1);
  await page.locator("#shown option", { hasText: /cpuClock:2ms every 2 ms, 1 s/ }).waitFor({ state: "attached" });

  step("a recording can be cancelled, and errors are shown");
  await page.getByLabel("Seconds", { exact: true }).fill("60");
  await page.getByRole("button", { name: "Record", exact: true }).click();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("alert").filter({ hasText: "cancelled" }).waitFor();
  allowed = ["400"];
  await page.getByLabel("Event", { exact: true }).fill("nonsense");
  await page.getByRole("button", { name: "Record", exact: true }).click();
  await page.getByRole("alert").filter({ hasText: "nonsense" }).waitFor();
  allowed = [];

  step("no more seconds are offered than there may be");
  assert.equal(await page.getByLabel("Seconds", { exact: true }).getAttribute("max"), "600");
  await page.route("**/ui/events.json", (route) => route.fulfill({ json: { maxSeconds: 5, events: [] } }));
  await page.reload();
  await page.waitForFunction(() => document.getElementById("seconds").max === "5");
  assert.equal(await page.getByLabel("Seconds", { exact: true }).inputValue(), "5");

  step("nothing went elsewhere, and nothing was complained of");
  assert.deepEqual(foreign, []);
  assert.deepEqual(complaints, []);
} catch (error) {
  await page.screenshot({ path: join(dir, "failed.png"), fullPage: true }).catch(() => {});
  console.log("complaints:", complaints, "foreign:", foreign);
  throw error;
} finally {
  await browser.close();
}
