"use strict";
// Memberships as maps: a canvas for the clusters and one for each pattern, all of one size and, but for the first, on one
// scale from 0 to 1. A pointer on one map is seen on all of them.

const TALLEST = 560; // pixels of a map on the screen
const NO_MEMBERSHIPS = 255, NOT_SHOWN = 254;

// {shape, height, width, values, cluster: bytes; titles: [[name, text]], tips; names; size}
function maps(host, { shape, height, width, values, cluster, titles, tips, names, size }) {
  host.dataset.size = size;
  const theme = document.documentElement.dataset.theme, colours = palette("sequential", theme);
  const kinds = names.map((_, k) => rgbOf(clusterColour(k))), others = rgbOf(kindColour(-1)), none = rgbOf(getComputedStyle(document.body).backgroundColor);
  const n = height * width;
  const paint = (colourAt) => {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { height, width });
    const context = canvas.getContext("2d"), image = context.createImageData(width, height);
    for (let i = 0; i < n; i += 1) {
      image.data.set(colourAt(i), 4 * i);
      image.data[4 * i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    // Pixels of the picture are square, those that were kept of it may not be.
    canvas.style.aspectRatio = `${shape[1]} / ${shape[0]}`;
    canvas.style.width = `min(100%, ${Math.round((TALLEST * shape[1]) / shape[0])}px)`;
    return canvas;
  };
  const ofCluster = (i) => (cluster[i] === NO_MEMBERSHIPS ? none : cluster[i] === NOT_SHOWN ? others : kinds[cluster[i]]);
  const ofPattern = (k) => (i) => (values[k * n + i] === NO_MEMBERSHIPS ? none : colours[Math.round((values[k * n + i] / 254) * 255)]);
  const canvases = [paint(ofCluster), ...names.map((_, k) => paint(ofPattern(k)))];
  const cursors = canvases.map(() => Object.assign(document.createElement("i"), { className: "cursor", hidden: true }));
  host.replaceChildren(...canvases.map((canvas, k) => {
    const figure = document.createElement("figure"), caption = document.createElement("figcaption"), box = document.createElement("div");
    const name = document.createElement("strong"), rest = document.createElement("span");
    [name.textContent, rest.textContent] = titles[k];
    if (k) {
      caption.append(svg("svg", { width: 11, height: 11, viewBox: "0 0 11 11", "aria-hidden": "true" }, swatch(0, 0, clusterColour(k - 1))));
    }
    caption.append(name, rest);
    box.append(canvas, cursors[k]);
    figure.append(box, caption);
    return figure;
  }));
  const bar = document.createElement("div");
  bar.className = "colours";
  host.append(bar);
  const { root, width: room } = frame(bar, 32);
  colourBar(root, 0, 0, Math.min(room, 260), "sequential", theme, ["0", "membership", "1"]);

  host.onpointerleave = () => cursors.forEach((cursor) => { cursor.hidden = true; });
  return [...host.querySelectorAll("figure")].map((figure, k) => {
    const found = new Map(), canvas = canvases[k];
    const left = figure.offsetLeft + canvas.offsetLeft, top = figure.offsetTop + canvas.offsetTop;
    const wide = canvas.offsetWidth / width, high = canvas.offsetHeight / height;
    const within = (value, end) => Math.min(Math.max(Math.floor(value), 0), end - 1);
    return {
      x: figure.offsetLeft, y: figure.offsetTop, w: figure.offsetWidth, h: figure.offsetHeight, ...tips[k],
      at: (px, py) => {
        const column = within((px - left) / wide, width), row = within((py - top) / high, height), i = row * width + column;
        for (const cursor of cursors) {
          Object.assign(cursor.style, { left: `${((column + 0.5) / width) * canvas.offsetWidth}px`, top: `${((row + 0.5) / height) * canvas.offsetHeight}px` });
          cursor.hidden = false;
        }
        if (!found.has(i)) {
          const own = names.map((name, j) => [name, values[j * n + i]]).sort((a, b) => b[1] - a[1]).slice(0, 5);
          const place = (at, to, from) => {
            const first = Math.floor((at * from) / to), last = Math.ceil(((at + 1) * from) / to) - 1;
            return first === last ? `${first}` : `${first}–${last}`;
          };
          found.set(i, {
            x: left + column * wide, y: top + row * high, w: wide, h: high,
            title: `Row ${place(row, height, shape[0])}, column ${place(column, width, shape[1])}`,
            lines: cluster[i] === NO_MEMBERSHIPS ? ["left out"] : own.filter(([, value]) => value).map(([name, value]) => `${name}: ${(value / 254).toFixed(2)}`),
          });
        }
        return found.get(i);
      },
    };
  });
}

const rgbOf = (colour) => {
  if (colour.startsWith("#")) return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return colour.match(/\d+/g).slice(0, 3).map(Number);
};
