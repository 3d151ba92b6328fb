// The script of a report's file: shows the profiles that stand in the file, and asks nobody for anything. A profile stands in a
// script element of class "profile", as pprof's bytes in base64. "data-name" is its name, and "data-value" says which of its values
// are shown first.
import { read } from "./profile.js";
import { add, at, show } from "./view.js";

const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

// Returns the name of the file that a download makes.
function fileOf(name, i) {
  const last = name.replace(/[?#].*$/, "").split("/").at(-1).replace(/[^\w.+-]+/g, "-");
  return last.endsWith(".gz") ? last : `${last || `profile-${i + 1}`}.pb.gz`;
}

async function addProfile({ textContent, dataset: { name } }, i) {
  const blob = new Blob([bytesOf(textContent)]);
  const profile = await read(blob);

  add({ ...profile, blob, name: `${i + 1}: ${name}`, file: fileOf(name, i) });
}

async function addAll(elements) {
  for (const [i, profile] of elements.entries())
    await addProfile(profile, i);
  show(0, elements[0].dataset.value);
}

const elements = [...document.querySelectorAll("script.profile")];

document.title = elements.map(({ dataset }) => dataset.name).join(", ") || document.title;
document.querySelector("h1").textContent = document.title;
addAll(elements).catch((error) => { at("error").textContent = `A profile in this file cannot be shown: ${error.message}`; });
