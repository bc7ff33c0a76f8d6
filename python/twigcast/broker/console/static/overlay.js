// Keeps the page of the overlay up to date: what the server draws is fetched again, and flows are the difference of two.

const EVERY = 2000;

const state = document.getElementById("live-state");
const place = document.getElementById("overlay");
let before = counts(document);
let at = performance.now();

// By neighbour: messages sent, messages left out, bytes sent and received, since the link began.
function counts(page) {
  return new Map([...page.querySelectorAll("[data-link]")].map((row) => [row.dataset.link, { ...row.dataset }]));
}

function rate(now, then, name, seconds) {
  // A link that began anew counts from nothing.
  const difference = then && Number(now[name]) >= Number(then[name]) ? now[name] - then[name] : Number(now[name]);
  return difference / seconds;
}

function withUnit(value, unit) {
  return `${value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
}

function showTraffic(now, seconds) {
  for (const row of document.querySelectorAll("[data-link]")) {
    const link = now.get(row.dataset.link);
    const then = before.get(row.dataset.link);
    const messages = rate(link, then, "messages", seconds);
    const bytes = rate(link, then, "sent", seconds) + rate(link, then, "received", seconds);
    row.querySelector("[data-flow]").textContent = withUnit(messages, "messages a second");
    row.querySelector("[data-bytes]").textContent = withUnit(bytes / 1000, "KB a second, both ways");
    for (const line of document.querySelectorAll("[data-line]")) {
      // The breadth of a line grows with the logarithm of its flow.
      if (line.dataset.line === row.dataset.link) line.style.strokeWidth = `${2 + 2 * Math.log10(1 + messages)}px`;
    }
  }
}

async function look() {
  if (document.hidden || place.contains(document.activeElement) || !getSelection().isCollapsed) return;
  try {
    const answer = await fetch(location.href, { redirect: "error" });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    place.replaceChildren(...page.getElementById("overlay").childNodes);
    const now = counts(document);
    showTraffic(now, (performance.now() - at) / 1000);
    before = now;
    at = performance.now();
    state.textContent = "live";
    state.classList.remove("off");
  } catch {
    state.textContent = "not reached";
    state.classList.add("off");
  }
}

setInterval(look, EVERY);
