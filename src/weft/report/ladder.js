// The theme's button, and sources with or without what has gone.
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
});
for (const box of document.querySelectorAll(".toggle input"))
  box.addEventListener("change", () => box.closest("details").querySelector(".pane").classList.toggle("diff", box.checked));
document.documentElement.dataset.ready = "yes";
