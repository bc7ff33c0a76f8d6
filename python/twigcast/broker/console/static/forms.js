// Shows and sends the fields of a fieldset only with the choice that they belong to.

for (const part of document.querySelectorAll("[data-only-with]")) {
  const form = part.closest("form");
  const show = () => { part.hidden = part.disabled = new FormData(form).get("kind") !== part.dataset.onlyWith; };
  form.addEventListener("change", show);
  show();
}
