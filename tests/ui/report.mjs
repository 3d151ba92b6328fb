// Looks at a report's file in a browser: node report.mjs FILE DIR. The file has the two profiles of report_html_test.c; a picture
// and a download go to DIR. Fails by an exception.
import assert from "node:assert/strict";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [file, dir] = process.argv.slice(2);
const url = pathToFileURL(file).href;
const complaints = [];
const requests = [];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium" });
const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, acceptDownloads: true, offline: true });
const page = await context.newPage();

page.setDefaultTimeout(20000);
context.on("request", (request) => requests.push(request.url()));
page.on("pageerror", (error) => complaints.push(String(error)));
page.on("console", (message) => complaints.push(message.text()));

const frame = (name) => page.locator(`#graph g.frame[name="${name}"]`);
const label = async (name) => {
  await frame(name).first().waitFor();
  return frame(name).first().getAttribute("aria-label");
};
const texts = (selector) => page.locator(selector).allTextContents();

try {
  await page.goto(url);
  console.log("the first profile is shown, by the file's name");
  assert.equal(await label("all"), "all: 100 ms, 100.0 %");
  assert.equal(await label("cook_meals"), "cook_meals: 75 ms, 75.0 %");
  assert.deepEqual(await texts("#shown option"), ["1: first.pb.gz", "2: a <b>&\"\ufffd\ufffd.pb"]);
  assert.equal(await page.title(), "first.pb.gz, a <b>&\"\ufffd\ufffd.pb");
  assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), await page.title());
  assert.ok(await page.locator("#limits").getByText("dropped: 7 # samples were lost").isVisible());
  assert.equal(await page.locator("#error").textContent(), "");
  await page.screenshot({ path: join(dir, "report.png"), fullPage: true });

  console.log("the values that --event has named are shown first");
  assert.deepEqual(await texts("#value option"), ["samples (count)", "cpu (nanoseconds)", "wall (nanoseconds)"]);
  assert.equal(await page.locator("#value").inputValue(), "1");

  console.log("nothing can be recorded");
  assert.equal(await page.locator("form").count(), 0);
  assert.equal(await page.getByRole("button", { name: "Record" }).count(), 0);

  console.log("the table and the search work");
  assert.deepEqual(await texts("#functions tbody td:last-child"), ["cook_meals", "serve", "main"]);
  await page.getByLabel("Search").fill("serve");
  assert.equal(await page.locator("#found").textContent(), "25 ms, 25.0 %");
  await page.getByLabel("Search").fill("");

  console.log("samples are chosen by watches, of which a sample may have several, and by the time of rounds");
  const watch = page.locator('#labels select[data-key="watch"]');
  const rounds = page.locator('#labels select[data-duration="meal"]');
  assert.deepEqual(await texts('#labels select[data-key="watch"] option'), ["anything", "meal", "oven"]);
  assert.equal(await page.locator("#labels select").count(), 2);
  await watch.selectOption({ label: "oven" });
  assert.equal(await label("all"), "all: 75 ms, 100.0 %");
  await watch.selectOption({ label: "meal" });
  assert.equal(await label("all"), "all: 100 ms, 100.0 %");
  assert.deepEqual(await texts('#labels select[data-duration="meal"] option'), ["anything",
    "slowest 50 %: 8.5 ms or longer", "slowest 10 %: 8.5 ms or longer", "slowest 1 %: 8.5 ms or longer"]);
  await rounds.selectOption({ label: "slowest 10 %: 8.5 ms or longer" });
  assert.equal(await label("all"), "all: 75 ms, 100.0 %");
  await rounds.selectOption({ label: "anything" });
  await watch.selectOption({ label: "anything" });

  console.log("the second profile, which says no time, can be compared with the first one");
  await page.locator("#shown").selectOption({ index: 1 });
  assert.equal(await label("cook_meals"), "cook_meals: 10 ms, 33.3 %");
  await page.locator("#base").selectOption({ label: "1: first.pb.gz" });
  assert.equal(await label("cook_meals"), "cook_meals: 10 ms, 33.3 %; before 75 ms, 75.0 %; -65 ms");

  console.log("a download is the profile");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByText("Download").click()]);
  assert.equal(download.suggestedFilename(), "a-b-.pb.pb.gz");
  await download.saveAs(join(dir, "report-download.pb.gz"));

  console.log("the licences of what is in the file come with it");
  await page.getByText("Licences").click();
  assert.match(await page.locator("footer pre").textContent(), /\nd3-flame-graph .*Apache License/s);

  console.log("a script that is not the page's does not run");
  assert.deepEqual(complaints, []);
  assert.equal(await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.wasRun = true;";
    document.body.append(script);
    return window.wasRun;
  }), undefined);
  assert.match(complaints.join(), /Content Security Policy/);

  console.log("nobody was asked for anything");
  assert.deepEqual(requests.filter((r) => !r.startsWith("data:") && !r.startsWith("blob:")), [url]);
} catch (error) {
  await page.screenshot({ path: join(dir, "failed.png"), fullPage: true }).catch(() => {});
  console.log("complaints:", complaints, "requests:", requests);
  throw error;
} finally {
  await browser.close();
}
