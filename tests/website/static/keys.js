// "/" leads to the search, as on many sites.
document.addEventListener("keydown", (event) => {
  const busy = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || busy || event.ctrlKey || event.metaKey || event.altKey) return;
  const field = document.querySelector("#ask input, .sidebar-search");
  if (!field) return;
  event.preventDefault();
  field.focus();
});
