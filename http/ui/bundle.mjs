// Makes the page: node bundle.mjs MODULES OUT. MODULES has the node_modules of package-lock.json. The script writes into OUT:
// page.js and page.css, the other files of the page, the licences of the packages in the bundle, and a version, by which browsers
// know whether they have the page already.
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
  entryPoints: [join(here, "page.js")],
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

writeFileSync(join(out, "licenses.txt"),
  ["The packages of which the page of /debug/pprof/ui/ is made, besides Counterpoint itself.", ...packages.map(licenceOf)]
    .join(`\n\n${"-".repeat(80)}\n\n`));
for (const file of ["index.html", "icon.svg"])
  copyFileSync(join(here, file), join(out, file));

const hash = createHash("sha256");
for (const file of ["index.html", "icon.svg", "page.css", "page.js", "licenses.txt"])
  hash.update(readFileSync(join(out, file)));
writeFileSync(join(out, "version"), hash.digest("hex").slice(0, 16));
