// Asks the endpoint of this program for profiles and events.

const LOOK_MS = 100;

// Records a profile. Calls tick() with the seconds that have passed until the answer is there. Throws the endpoint's message.
export async function record({ event, period, seconds }, signal, tick) {
  const query = new URLSearchParams({ event, seconds });
  if (period !== "")
    query.set("period", period);
  const start = performance.now();
  const timer = setInterval(() => tick((performance.now() - start) / 1000), LOOK_MS);
  try {
    const response = await fetch(`../profile?${query}`, { signal, cache: "no-store" });
    if (!response.ok)
      throw new Error((await response.text()).trim());
    return await response.blob();
  } finally {
    clearInterval(timer);
  }
}

export async function events() {
  const response = await fetch("events.json");
  if (!response.ok)
    throw new Error((await response.text()).trim());
  return response.json();
}
