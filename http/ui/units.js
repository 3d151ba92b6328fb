const steps = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const prefixes = [[1e9, " G"], [1e6, " M"], [1e4, " k"]];

// Returns the value, scaled by the first unit of the list that fits, and that unit.
function scaled(value, list) {
  const [factor, suffix] = list.find(([least]) => Math.abs(value) >= least) ?? [1, " "];
  return [(value / factor).toLocaleString("en", { maximumSignificantDigits: 4, useGrouping: false }), suffix];
}

// Formats a number with no-break spaces between thousands.
export function number(value) {
  const digits = value < 100 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 0 };
  return value.toLocaleString("en", digits).replaceAll(",", "\u00a0");
}

// Formats a value with its unit.
export function amount(value, unit) {
  if (unit === "nanoseconds") {
    const [number, suffix] = scaled(value, steps);
    return value === 0 ? "0" : `${number} ${suffix.trim() || "ns"}`;
  }
  const [number, prefix] = scaled(value, prefixes);
  return `${number}${prefix.trimEnd()}`;
}

export function share(value, all) {
  return `${(all === 0 ? 0 : (100 * value) / all).toFixed(1)} %`;
}

export function change(value, unit) {
  return `${value > 0 ? "+" : ""}${amount(value, unit)}`;
}
