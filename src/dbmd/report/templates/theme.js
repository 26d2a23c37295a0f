// Runs before anything is drawn, so that the page does not flash in the wrong theme.
"use strict";
const theme = (() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];
  let chosen = null;
  // Pages opened from a file may not be allowed to remember anything.
  try { chosen = localStorage.getItem("dbmd-theme"); } catch { /* then the system decides */ }

  const current = () => (chosen === "light" || chosen === "dark" ? chosen : system.matches ? "dark" : "light");
  const apply = () => {
    document.documentElement.dataset.theme = current();
    listeners.forEach((listener) => listener());
  };
  system.addEventListener("change", apply);
  apply();
  return {
    current,
    onChange: (listener) => listeners.push(listener),
    toggle: () => {
      chosen = current() === "dark" ? "light" : "dark";
      try { localStorage.setItem("dbmd-theme", chosen); } catch { /* for this visit only */ }
      apply();
    },
  };
})();
