// Checks and tries the query while it is typed.

import { refreshTimes } from "./console.js";

const DELAY = 250;

const form = document.getElementById("bench");
const results = document.getElementById("results");
const chosen = document.getElementById("message");
let timer = 0;
let asked = 0;

async function refresh() {
  const number = ++asked;
  const body = new URLSearchParams(new FormData(form));
  body.set("csrf", form.dataset.csrf);
  results.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(form.dataset.results, {
      method: "POST", body, headers: { "X-Requested-With": "console" },
    });
    if (response.status === 401) { location.reload(); return; }
    // An answer to what was typed before is of no use any more.
    if (number !== asked) return;
    if (response.ok) show(await response.text());
  } catch {
    if (number === asked) results.querySelector("#verdict").textContent = "The broker does not answer.";
  } finally {
    if (number === asked) results.setAttribute("aria-busy", "false");
  }
}

function show(html) {
  const list = results.querySelector(".hits");
  const scrolled = list ? list.scrollTop : 0;
  const holder = document.createElement("div");
  holder.innerHTML = html;
  // The live region itself stays, so that screen readers notice what changes in it.
  const verdict = results.querySelector("#verdict");
  const fresh = holder.querySelector("#verdict");
  if (verdict.innerHTML !== fresh.innerHTML) verdict.replaceChildren(...fresh.childNodes);
  fresh.remove();
  while (verdict.nextSibling) verdict.nextSibling.remove();
  results.append(...holder.childNodes);
  refreshTimes(results);
  const now = results.querySelector(".hits");
  if (now) now.scrollTop = scrolled;
  address();
}

function address() {
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  history.replaceState(null, "", `${form.getAttribute("action")}?${query}`);
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(refresh, DELAY);
}

form.addEventListener("input", (event) => {
  // With another query, the message to look at is chosen anew.
  if (event.target.id === "query") chosen.value = "";
  soon();
});

form.addEventListener("submit", (event) => {
  if (event.submitter?.hasAttribute("formaction")) return;
  event.preventDefault();
  refresh();
});

results.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-message]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  chosen.value = link.dataset.message;
  refresh();
});
