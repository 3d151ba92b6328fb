// A profile as the page needs it: samples with the names of their frames, their labels and values; and what is
// computed of them: a tree, a table, and both of two profiles.
import { Profile } from "pprof-format";

async function unzip(blob) {
  const stream = blob.stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// What it is by address where it has no name.
function framesOf(location, functions, strings) {
  if (location.line.length === 0)
    return ["0x" + BigInt(location.address).toString(16)];
  return location.line.map((line) => strings[functions.get(Number(line.functionId))?.name] || "?");
}

// A location's first line is the innermost of what was inlined, and a sample's first location the leaf.
export function samplesOf(profile) {
  const strings = profile.stringTable.strings;
  const functions = new Map(profile.function.map((f) => [Number(f.id), f]));
  const locations = new Map(profile.location.map((l) => [Number(l.id), framesOf(l, functions, strings)]));

  return profile.sample.map((sample) => ({
    frames: sample.locationId.flatMap((id) => locations.get(Number(id)) ?? ["?"]).reverse(),
    values: sample.value.map(Number),
    labels: new Map(sample.label.map((label) => [strings[label.key],
      Number(label.str) ? strings[label.str] : String(label.num)])),
  }));
}

export async function read(blob) {
  const profile = Profile.decode(await unzip(blob));
  const strings = profile.stringTable.strings;

  return {
    types: profile.sampleType.map((t) => ({ type: strings[t.type], unit: strings[t.unit] })),
    period: Number(profile.period),
    seconds: Number(profile.durationNanos) / 1e9,
    comments: profile.comment.map((i) => strings[i]),
    samples: samplesOf(profile),
  };
}

// Keys with the values that samples have for them.
export function labelsOf(samples) {
  const labels = new Map();

  for (const sample of samples)
    for (const [key, value] of sample.labels)
      labels.set(key, (labels.get(key) ?? new Set()).add(value));
  return labels;
}

export function withLabels(samples, wanted) {
  return samples.filter((sample) => [...wanted].every(([key, value]) => sample.labels.get(key) === value));
}

function childOf(node, name) {
  let child = node.byName.get(name);
  if (child === undefined) {
    child = { name, now: 0, then: 0, byName: new Map() };
    node.byName.set(name, child);
  }
  return child;
}

function addTo(root, samples, valueOf, which) {
  for (const sample of samples) {
    const value = valueOf(sample);
    let node = root;
    node[which] += value;
    for (const name of sample.frames) {
      node = childOf(node, name);
      node[which] += value;
    }
  }
}

// A frame is as wide as both have it together, so that what has gone can still be seen.
function finish(node) {
  node.value = node.now + node.then;
  node.children = [...node.byName.values()];
  delete node.byName;
  node.children.forEach(finish);
  return node;
}

// The views take {samples, valueOf} of what is shown ("now"), and of what it is compared with ("then"), or
// null. Values of the second are those that it would have had in the first one's time.
export function treeOf(now, then) {
  const root = { name: "all", now: 0, then: 0, byName: new Map() };

  addTo(root, now.samples, now.valueOf, "now");
  if (then !== null)
    addTo(root, then.samples, then.valueOf, "then");
  return finish(root);
}

function addRows(rows, samples, valueOf, flat, cum) {
  for (const sample of samples) {
    const value = valueOf(sample);
    for (const name of new Set(sample.frames)) { // a function that calls itself counts once
      if (!rows.has(name))
        rows.set(name, { name, flat: 0, cum: 0, flatThen: 0, cumThen: 0 });
      rows.get(name)[cum] += value;
    }
    if (sample.frames.length > 0)
      rows.get(sample.frames.at(-1))[flat] += value;
  }
}

export function tableOf(now, then) {
  const rows = new Map();

  addRows(rows, now.samples, now.valueOf, "flat", "cum");
  if (then !== null)
    addRows(rows, then.samples, then.valueOf, "flatThen", "cumThen");
  for (const row of rows.values()) {
    row.flatMore = row.flat - row.flatThen;
    row.cumMore = row.cum - row.cumThen;
  }
  return [...rows.values()];
}

export function total({ samples, valueOf }) {
  return samples.reduce((sum, sample) => sum + valueOf(sample), 0);
}

export function matches(name, term) {
  return term !== "" && name.toLowerCase().includes(term.toLowerCase());
}

// Of the samples with a frame that matches.
export function found({ samples, valueOf }, term) {
  return total({ samples: samples.filter((s) => s.frames.some((name) => matches(name, term))), valueOf });
}
