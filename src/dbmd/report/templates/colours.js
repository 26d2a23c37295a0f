"use strict";
// Colours that tell clusters, sources and classes apart. A cluster has the same colour in every chart.

const CHOSEN = {
  light: ["#2274b5", "#e07b12", "#2b9a66", "#c23b5e", "#7f5bb5", "#8d6235", "#27a7b8", "#dd7fb2", "#99972a", "#66727f", "#24407f", "#6db552"],
  dark: ["#5aa9e6", "#f39c3d", "#4cc38a", "#ee6b8b", "#a98be0", "#c29563", "#4fd0df", "#f2a7cf", "#c9c74e", "#9aa7b4", "#8ea7ee", "#9bdb7f"],
};

// The k-th of n. Up to twelve are chosen by eye; of more, hues go round by the golden ratio and lightness alternates.
function kindColour(k, n) {
  const theme = document.documentElement.dataset.theme;
  if (k < 0) return theme === "dark" ? "#5c6670" : "#b4bac1"; // one that has no name here
  if (n <= CHOSEN.light.length) return CHOSEN[theme][k];
  const hue = 2 * Math.PI * ((0.69 + k * 0.618034) % 1), chroma = 0.13 - 0.03 * (k % 2);
  const light = [0.6, 0.47, 0.72][k % 3] + (theme === "dark" ? 0.1 : 0);
  return `rgb(${toRgb([light, chroma * Math.cos(hue), chroma * Math.sin(hue)])})`;
}

const clusterColour = (j) => kindColour(j, clusters.length);
const clusterLabel = (cluster) => (/^\d+$/.test(cluster.name) ? inside(cluster) : cluster.name);

const filled = (element, colour) => { element.style.fill = colour; return element; };
const stroked = (element, colour) => { element.style.stroke = colour; return element; };

// A path, for it is no mark that could be chosen.
const swatch = (x, y, colour) => filled(svg("path", { d: `M${x} ${y}h11v11h-11z` }), colour);

// Swatches with names in lines as wide as the drawing: [{name, colour}]. Returns what they need in height.
function swatches(root, items, x, y, width, most = 24) {
  const shown = items.slice(0, items.length > most + 1 ? most : items.length);
  const names = distinct(shown.map((item) => item.name), Math.min(width - 24, 160));
  let left = x, top = y;
  const go = (room) => {
    if (left > x && left + room > x + width) { left = x; top += 20; }
    const at = left;
    left += room + 16;
    return at;
  };
  for (const [k, { colour }] of shown.entries()) {
    const text = fitted(names[k], Math.min(width - 24, 220)), at = go(textWidth(text) + 16);
    root.append(swatch(at, top - 9, colour));
    root.append(label(at + 16, top, text, "muted"));
  }
  if (shown.length < items.length) {
    const text = `and ${items.length - shown.length} more`;
    root.append(label(go(textWidth(text)), top, text, "muted"));
  }
  return top - y + 20;
}

// How high a drawing becomes is known only after it was drawn: swatches wrap.
function setHeight(root, height) {
  root.setAttribute("height", height);
  root.setAttribute("viewBox", `0 0 ${root.getAttribute("width")} ${height}`);
}
