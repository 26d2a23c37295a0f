"use strict";
// When the charts of a page are drawn, and its buttons. `charts` has a function for each chart, `tables` its numbers, and
// `REACH` from how far a pointer takes hold of its marks.

const drawnAt = new WeakMap();
function draw(host) {
  drawnAt.set(host, host.clientWidth);
  setTable(host, tables[host.dataset.chart]);
  interact(host, charts[host.dataset.chart](host), REACH[host.dataset.chart]);
}
const hosts = [...document.querySelectorAll("[data-chart]")];
const drawAll = () => hosts.forEach(draw);
drawAll();
document.querySelectorAll("figure.chart").forEach(addSaving);

// A new width is a new drawing; a new height is our own doing.
const watch = new ResizeObserver((entries) => requestAnimationFrame(() => {
  for (const { target } of entries) if (target.clientWidth !== drawnAt.get(target)) draw(target);
}));
hosts.forEach((host) => watch.observe(host));

theme.onChange(drawAll);
document.getElementById("theme").addEventListener("click", theme.toggle);

// Paper is white.
addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; drawAll(); });
addEventListener("afterprint", () => { document.documentElement.dataset.theme = theme.current(); drawAll(); });

for (const button of document.querySelectorAll("[data-copy]")) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      // Not every browser lets a file write to the clipboard: then it is selected, one key away.
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}
document.documentElement.dataset.ready = "yes";
