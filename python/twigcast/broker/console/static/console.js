// What all pages share: the menu on narrow screens, times that stay true, and copying.

document.documentElement.classList.add("js");

const menu = document.querySelector(".menu");
menu?.addEventListener("click", () => {
  const open = document.querySelector(".side").classList.toggle("open");
  menu.setAttribute("aria-expanded", String(open));
});

const UNITS = [["d", 86400], ["h", 3600], ["min", 60]];

function ago(seconds) {
  const passed = Date.now() / 1000 - seconds;
  const length = Math.abs(passed);
  if (length < 1) return "now";
  const [unit, size] = UNITS.find(([, size]) => length >= size) ?? ["s", 1];
  const text = `${Math.floor(length / size)} ${unit}`;
  return passed > 0 ? `${text} ago` : `in ${text}`;
}

export function refreshTimes(root = document) {
  for (const time of root.querySelectorAll("time[data-ago]")) {
    const text = ago(Number(time.dataset.ago));
    if (time.textContent !== text) time.textContent = text;
  }
}

setInterval(refreshTimes, 5000);

for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

// An open question closes when something else is clicked, or with Escape.
document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details.ask[open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const open of document.querySelectorAll("details.ask[open]")) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});
