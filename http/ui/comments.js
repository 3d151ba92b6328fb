// What a recording's comments say of how it was taken, and which of them tell of a limit or a loss.

// What every recording says, or what takes nothing from it. Anything else is worth a look.
const usual = [
  /^(engine|event|rate): /,
  /^precise_ip: asked (\d+), reached \1$/,
  /^threads: \d+ sampled, 0 without a perf ring [^,]*, [^,]*, 0 refused$/,
  /^(foreign SIGPROFs|periods folded into a later sample): \d+$/,
  /^losses: none$/,
];

// Below 99 % something is missing, if it is more than the period of each thread that was not over at the end.
function isCovered(comment, threads) {
  const [, samples, percent] = comment.match(/^coverage: (\d+) samples, ([\d.]+) % /) ?? [];
  return percent >= 99 || samples * (100 - percent) <= threads * percent;
}

export function limitsOf(comments) {
  const threads = comments.map((c) => c.match(/^threads: (\d+) sampled/)?.[1]).find((n) => n !== undefined) ?? 1;
  return comments.filter((c) => !usual.some((pattern) => pattern.test(c)) && !isCovered(c, threads));
}
