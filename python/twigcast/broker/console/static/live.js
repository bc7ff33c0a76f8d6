// Keeps charts, totals and the list of messages up to date while the page is looked at.

import { Chart } from "./charts.js";

const ROWS_MAX = 50;
const KEPT = 300;
const EVERY = 1000;
const TOTALS_EVERY = 5;

const charts = [...document.querySelectorAll(".chart")].map((figure) => new Chart(figure));
const given = document.getElementById("samples");
let samples = given ? JSON.parse(given.textContent) : [];
let newest = Number(document.querySelector("[data-newest]").dataset.newest);
let round = 0;
let changed = false;
for (const chart of charts) chart.show(samples);

const state = document.getElementById("live-state");
const body = document.querySelector("[data-live-table] tbody");
const rowsMax = charts.length ? 8 : ROWS_MAX;

function addRows(html) {
  const holder = document.createElement("tbody");
  holder.innerHTML = html;
  body.prepend(...holder.children);
  while (body.children.length > rowsMax) body.lastElementChild.remove();
  document.querySelector("[data-live-empty]")?.remove();
}

function take(answer) {
  if (answer.samples.length) {
    samples = [...samples, ...answer.samples].slice(-KEPT);
    for (const chart of charts) chart.show(samples);
  }
  changed = Boolean(answer.rows);
  if (answer.rows) {
    newest = answer.newest;
    addRows(answer.rows);
  }
  for (const [name, text] of Object.entries(answer.totals ?? {})) {
    const place = document.querySelector(`[data-total="${name}"]`);
    if (place) place.textContent = text;
  }
}

async function look() {
  if (document.visibilityState === "hidden") return;
  round += 1;
  const after = samples.length ? samples[samples.length - 1].number : 0;
  const totals = charts.length && (changed || round % TOTALS_EVERY === 0) ? "&totals=1" : "";
  try {
    const response = await fetch(`/console/live?sample=${after}&message=${newest}${totals}`, {
      headers: { "X-Requested-With": "console" },
    });
    if (response.status === 401) { location.reload(); return; }
    if (response.ok) take(await response.json());
    showConnection(response.ok);
  } catch {
    // The broker stopped, or the network is away: the next request may succeed.
    showConnection(false);
  }
}

function showConnection(works) {
  if (!state || state.classList.contains("off") === !works) return;
  state.classList.toggle("off", !works);
  state.textContent = works ? "live" : "no answer; trying again";
}

async function follow() {
  await look();
  setTimeout(follow, EVERY);
}

follow();
