// Shows fields only with the choice that they belong to.

for (const part of document.querySelectorAll("[data-only-with]")) {
  const form = part.closest("form");
  const show = () => { part.hidden = new FormData(form).get("kind") !== part.dataset.onlyWith; };
  form.addEventListener("change", show);
  show();
}
