// Makes the page: node bundle.mjs MODULES OUT. MODULES has the node_modules of package-lock.json. The script writes into OUT:
// page.js and page.css, the other files of the page, the licences of the packages in the bundle, and a version, by which browsers
// know whether they have the page already; and report.html, in which everything stands that shows profiles, up to the profiles.
import { createHash } from "node:crypto";
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const [modules, out] = process.argv.slice(2).map((path) => resolve(path));
const { build } = createRequire(join(modules, "package.json"))("esbuild");

  // The d3 packages look classes up by their names, so names must survive (keepNames).
const { metafile } = await build({
  entryPoints: [join(here, "page.js"), join(here, "report.js")],
  nodePaths: [join(modules, "node_modules")],
  outdir: out,
  bundle: true,
  minify: true,
  keepNames: true,
  charset: "utf8",
  format: "esm",
  target: "es2022",
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});

const inputs = Object.keys(metafile.inputs).map((path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]);
const packages = [...new Set(inputs.filter((name) => name !== undefined))].sort();

// Returns the text of a package's licence files.
function licenceOf(name) {
  const folder = join(modules, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json")));
  const files = readdirSync(folder).filter((file) => /^(licen[cs]e|notice)(\.(md|txt))?$/i.test(file)).sort();

  if (files.length === 0)
    throw new Error(`${name} has no licence file`);
  return [`${name} ${version} (${license})`, ...files.map((file) => readFileSync(join(folder, file), "utf8"))]
    .join("\n\n");
}

const licences = ["The packages of which this page is made, besides Counterpoint itself.", ...packages.map(licenceOf)]
  .join(`\n\n${"-".repeat(80)}\n\n`);

// ---- HTML ------------------------------------------------------------------------------------------------

// Returns the text with each "<!-- NAME -->" replaced by parts[NAME]; what follows the name in the comment is for people.
function fill(text, parts) {
  return Object.entries(parts).reduce((filled, [name, part]) => {
    const [before, after, ...more] = filled.split(new RegExp(`<!-- ${name}(?:: .*)? -->\n`));
    if (after === undefined || more.length > 0)
      throw new Error(`"<!-- ${name} -->" must stand in the HTML exactly once`);
    return before + part + after;
  }, text);
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const sha256 = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const source = (name) => readFileSync(join(here, name), "utf8");

// Returns an element with a script or a style sheet in it, which must not end the element.
function inline(element, attributes, text) {
  if (text.toLowerCase().includes(`</${element}`))
    throw new Error(`"</${element}" stands in what goes into the element`);
  return `<${element}${attributes}>${text}</${element}>\n`;
}

// Returns the page of a report, without an end. Its policy lets it run its own script and use its own style, and load nothing.
function reportOf(script, style, result) {
  const policy = `default-src 'none'; script-src ${sha256(script)}; style-src ${sha256(style)}; img-src data:; `
    + "base-uri 'none'; form-action 'none'";
  const icon = Buffer.from(source("icon.svg")).toString("base64");

  return fill(source("report.html"), {
    policy: `<meta http-equiv="Content-Security-Policy" content="${policy}">\n`,
    icon: `<link rel="icon" href="data:image/svg+xml;base64,${icon}">\n`,
    style: inline("style", "", style),
    script: inline("script", ' type="module"', script),
    "result.html": result,
    licences: `<pre>${escaped(licences)}</pre>\n`,
    profiles: "",
  });
}

const result = source("result.html");
const made = (name) => readFileSync(join(out, name), "utf8");

writeFileSync(join(out, "licenses.txt"), licences);
writeFileSync(join(out, "index.html"), fill(source("index.html"), { "result.html": result }));
writeFileSync(join(out, "report.html"), reportOf(made("report.js"), made("report.css"), result));
copyFileSync(join(here, "icon.svg"), join(out, "icon.svg"));

const hash = createHash("sha256");
for (const file of ["index.html", "icon.svg", "page.css", "page.js", "licenses.txt"])
  hash.update(readFileSync(join(out, file)));
writeFileSync(join(out, "version"), hash.digest("hex").slice(0, 16));
