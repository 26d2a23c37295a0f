"use strict";
// Samples among the corners of their simplex, seen in the plane.
// {x, y: places; extent; corners: [{x, y, name, colour}]; ternary; colour(i); kinds: [{name, colour}]; tip(i)}

// The corners on the outside, in order.
function hull(points) {
  const sorted = [...points].sort((a, b) => a.x - b.x || a.y - b.y);
  const turn = (o, a, b) => (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x);
  const half = (list) => list.reduce((kept, point) => {
    while (kept.length > 1 && turn(kept[kept.length - 2], kept[kept.length - 1], point) <= 0) kept.pop();
    return [...kept, point];
  }, []).slice(0, -1);
  return [...half(sorted), ...half(sorted.reverse())];
}

function simplex(host, { x: xs, y: ys, extent, corners, ternary, colour, kinds, tip: words }) {
  const { root, width } = frame(host, 10);
  const margin = { top: 34, side: Math.min(64, width * 0.12) };
  const scale = Math.min(width - 2 * margin.side, 620, 520 / Math.max(extent[1], 0.15));
  const deep = Math.max(extent[1] * scale, 120), left = (width - extent[0] * scale) / 2;
  const flat = extent[1] * scale < 120 ? (120 - extent[1] * scale) / 2 : 0;
  const x = (value) => left + value * scale, y = (value) => margin.top + deep - flat - value * scale;
  const outline = hull(corners);
  const shape = svg("polygon", { points: outline.map((point) => `${x(point.x).toFixed(1)},${y(point.y).toFixed(1)}`).join(" "), class: "outline" });
  root.append(shape);
  if (ternary) thirds(root, corners, x, y);
  const radius = xs.length > 1500 ? 2.2 : xs.length > 300 ? 2.8 : 3.6;
  const group = svg("g", { class: "samples" });
  const marks = xs.map((value, i) => {
    group.append(filled(svg("circle", { cx: x(value).toFixed(1), cy: y(ys[i]).toFixed(1), r: radius }), colour(i)));
    return { x: x(value) - radius - 1, y: y(ys[i]) - radius - 1, w: 2 * radius + 2, h: 2 * radius + 2, get lines() { return words(i).lines; }, get title() { return words(i).title; } };
  });
  root.append(group);
  const at = corners.map((corner) => ({ ...corner, px: x(corner.x), py: y(corner.y) }));
  for (const { px, py, colour: own } of at) {
    root.append(filled(svg("rect", { x: px - 4.5, y: py - 4.5, width: 9, height: 9, rx: 1.5, class: "corner" }), own));
  }
  // A label that would cover another, or a corner, is left out: the largest clusters come first, and a pointer tells the rest.
  const taken = at.map(({ px, py }) => ({ left: px - 5, right: px + 5, top: py - 5, bottom: py + 5 }));
  const isFree = (box) => !taken.some((other) => box.left < other.right + 3 && other.left < box.right + 3 && box.top < other.bottom && other.top < box.bottom);
  const middle = at.reduce((sum, { py }) => sum + py, 0) / at.length;
  for (const { px, py, name } of at) {
    const text = fitted(name, Math.max(margin.side * 2 - 6, 60)), wide = textWidth(text) * 1.08;
    const from = Math.min(Math.max(px - wide / 2, 0), width - wide);
    const [above, below] = [[from, py - 9], [from, py + 18]];
    const beside = [[px + 9, py + 4], [px - 9 - wide, py + 4]].filter(([place]) => place >= 0 && place + wide <= width);
    for (const [place, line] of [...(py > middle ? [below, above] : [above, below]), ...beside]) {
      const box = { left: place, right: place + wide, top: line - 11, bottom: line + 3 };
      if (!isFree(box)) continue;
      taken.push(box);
      root.append(label(place, line, text, "value halo-text"));
      break;
    }
  }
  if (ternary) shares(root, corners, x, y, isFree);
  let bottom = margin.top + deep + 40;
  if (kinds.length) bottom += swatches(root, kinds, 0, bottom, width) - 8;
  setHeight(root, bottom);
  const ends = corners.map((corner) => ({ x: x(corner.x) - 6, y: y(corner.y) - 6, w: 12, h: 12, ...corner.tip }));
  return [...ends, ...marks.sort((a, b) => a.x - b.x)]; // arrow keys go from left to right
}

// Lines of equal membership in the corners of a triangle.
function thirds(root, corners, x, y) {
  const at = (a, b, part) => ({ x: a.x + part * (b.x - a.x), y: a.y + part * (b.y - a.y) });
  const below = [];
  corners.forEach((corner, k) => {
    const [b, c] = [corners[(k + 1) % 3], corners[(k + 2) % 3]];
    for (const part of [0.2, 0.4, 0.6, 0.8]) {
      const from = at(corner, b, 1 - part), to = at(corner, c, 1 - part);
      below.push(svg("line", { x1: x(from.x), y1: y(from.y), x2: x(to.x), y2: y(to.y), class: "grid" }));
    }
  });
  root.append(...below);
}

// The share in a corner is read along the side that ends there, in its colour.
function shares(root, corners, x, y, isFree) {
  const sides = [[2, 0, 6, 4, "start"], [0, 1, -6, 4, "end"], [1, 2, 0, 17, "middle"]];
  for (const [from, to, dx, dy, anchor] of sides) {
    for (const part of [0.2, 0.4, 0.6, 0.8]) {
      const text = `${Math.round(100 * part)}%`, wide = textWidth(text, SMALL);
      const px = x(corners[from].x + part * (corners[to].x - corners[from].x)) + dx, py = y(corners[from].y + part * (corners[to].y - corners[from].y)) + dy;
      const left = px - { start: 0, middle: wide / 2, end: wide }[anchor];
      if (isFree({ left, right: left + wide, top: py - 9, bottom: py })) root.append(filled(label(px, py, text, "small", anchor), corners[to].colour));
    }
  }
}
