"use strict";
// Charts as SVG, one pixel to one unit, so that text has the same size on a phone and on a wide screen. Each draws into
// its host, as wide as that is, and returns its marks.

const TEXT = 12, SMALL = 11; // sizes of text; report.css has the same
const NAMES = 0.36; // of the width: the most that names of rows may take

function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Hosts can be without any width for a moment; the next drawing will be right.
const widthOf = (host) => Math.max(Math.floor(host.clientWidth), 200);

function frame(host, height) {
  const width = widthOf(host);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  host.replaceChildren(root);
  return { root, width };
}

// -- Text that fits --------------------------------------------------------------------------------------------------

const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text, size = TEXT) {
  ruler.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

// Cut in the middle: names that differ often differ at the end.
function fitted(text, room, size = TEXT) {
  if (textWidth(text, size) <= room) return text;
  for (let keep = text.length - 1; keep > 2; keep -= 1) {
    const end = Math.floor(keep / 2);
    const short = `${text.slice(0, keep - end).trimEnd()}…${text.slice(text.length - end).trimStart()}`;
    if (textWidth(short, size) <= room) return short;
  }
  return "…";
}

// Names too long for their room go without the words that all of them begin and end with.
function distinct(names, room, size = TEXT) {
  if (names.length < 2 || names.every((name) => textWidth(name, size) <= room)) return names;
  const words = names.map((name) => name.split(" "));
  const shared = (at) => {
    let k = 0;
    while (words.every((each) => k < each.length - 1 && at(each, k) === at(words[0], k))) k += 1;
    return k;
  };
  const before = shared((each, k) => each[k]);
  const after = Math.min(shared((each, k) => each[each.length - 1 - k]), ...words.map((each) => each.length - 1 - before));
  return words.map((each) => (before ? "…" : "") + each.slice(before, each.length - after).join(" ") + (after ? "…" : ""));
}

const labelRoom = (labels, width, size = TEXT, fraction = NAMES) =>
  Math.ceil(Math.min(Math.max(...labels.map((label) => textWidth(label, size))) + 10, width * fraction));

const label = (x, y, text, kind = "", anchor = "start") =>
  svg("text", { x, y, class: kind, "text-anchor": anchor }, document.createTextNode(text));

// -- Dots on a common scale, with a number to the right: {rows: [{name, value, aside, tip}], title, aside} -----------

function dotPlot(host, { rows, title, aside }) {
  const step = rows.length > 24 ? 20 : 28, top = 26;
  const values = rows.map((row) => row.value);
  const least = Math.min(...values), most = Math.max(...values);
  const wide = most > 4 * least && least > 0; // then a linear scale would crowd most of them at its foot
  const text = title + (wide ? ", logarithmic scale" : "");
  const lines = textWidth(text) > 240 ? text.split(", ") : [text]; // a phone has no room for a long one
  const height = top + rows.length * step + 24 + 16 * lines.length;
  const { root, width } = frame(host, height);
  const names = distinct(rows.map((row) => row.name), width * NAMES);
  const left = labelRoom(names, width);
  const right = Math.max(textWidth(aside), ...rows.map((row) => textWidth(row.aside))) + 26;
  const pad = wide ? Math.max((most / least) ** 0.06, 1.1) : 0;
  const domain = wide ? [least / pad, most * pad] : [0, most * 1.06];
  const across = [left + 8, width - right - 34];
  const x = (wide ? logarithmic : linear)(domain, across);
  const wanted = Math.max(Math.floor((across[1] - across[0]) / 56), 3);
  const bottom = top + rows.length * step;
  for (const tick of wide ? logTicks(...domain, wanted) : ticks(...domain, wanted)) {
    root.append(svg("line", { x1: x(tick), x2: x(tick), y1: top, y2: bottom, class: "grid" }));
    root.append(label(x(tick), bottom + 16, amount(tick), "muted", "middle"));
  }
  root.append(label(width, top - 10, aside, "muted", "end"));
  lines.forEach((line, i) => {
    const middle = Math.max((across[0] + across[1]) / 2, textWidth(line) / 2 + 2);
    root.append(label(middle, bottom + 34 + 16 * i, line, "muted", "middle"));
  });
  return rows.map((row, i) => {
    const y = top + (i + 0.5) * step;
    root.append(label(left, y + 4, fitted(names[i], left - 4), "", "end"));
    root.append(svg("line", { x1: across[0], x2: x(row.value), y1: y, y2: y, class: "stem" }));
    root.append(svg("circle", { cx: x(row.value), cy: y, r: 5, class: "dot" }));
    root.append(label(x(row.value) + 10, y + 4, amount(row.value), "value"));
    root.append(label(width, y + 4, row.aside, "", "end"));
    return { x: x(row.value) - 6, y: y - 6, w: 12, h: 12, ...row.tip };
  });
}

// -- Bars, each with a dot: {rows: [{name, short, bar, dot, aside, tip}], title}. Lying if few, upright if many. ------

function bars(host, chart) {
  return chart.rows.length > 20 ? columns(host, chart) : lyingBars(host, chart);
}

function lyingBars(host, { rows, title }) {
  const step = 28, top = 8, bottom = top + rows.length * step;
  const { root, width } = frame(host, bottom + 40);
  const names = distinct(rows.map((row) => row.name), width * NAMES);
  const left = labelRoom(names, width);
  const right = Math.max(...rows.map((row) => textWidth(row.aside))) + 16;
  const most = Math.max(...rows.flatMap((row) => [row.bar, row.dot]), 1e-9);
  const x = linear([0, most], [left + 8, width - right - 6]);
  for (const tick of ticks(0, most, Math.max(Math.floor((x(most) - x(0)) / 70), 2))) {
    root.append(svg("line", { x1: x(tick), x2: x(tick), y1: top, y2: bottom, class: "grid" }));
    root.append(label(x(tick), bottom + 16, amount(tick), "muted", "middle"));
  }
  root.append(label((x(0) + x(most)) / 2, bottom + 34, title, "muted", "middle"));
  return rows.map((row, i) => {
    const y = top + (i + 0.5) * step;
    root.append(label(left, y + 4, fitted(names[i], left - 4), "", "end"));
    root.append(svg("rect", { x: x(0), y: y - 9, width: Math.max(x(row.bar) - x(0), 1), height: 18, class: "bar" }));
    root.append(svg("circle", { cx: x(row.dot), cy: y, r: 4.5, class: "second" }));
    root.append(label(width, y + 4, row.aside, "", "end"));
    return { x: x(0), y: y - 9, w: Math.max(x(Math.max(row.bar, row.dot)) - x(0), 4), h: 18, ...row.tip };
  });
}

function columns(host, { rows, title, across }) {
  const top = 12, bottom = 212;
  const { root, width } = frame(host, bottom + 40);
  const most = Math.max(...rows.flatMap((row) => [row.bar, row.dot]), 1e-9);
  const marks = ticks(0, most, 4);
  const left = labelRoom(marks.map((tick) => amount(tick)), width);
  const y = linear([0, most], [bottom, top]), step = (width - left) / rows.length;
  for (const tick of marks) {
    root.append(svg("line", { x1: left, x2: width, y1: y(tick), y2: y(tick), class: "grid" }));
    root.append(label(left - 6, y(tick) + 4, amount(tick), "muted", "end"));
  }
  root.append(label((left + width) / 2, bottom + 34, `${across} (height: ${title})`, "muted", "middle"));
  const every = thinning(rows.map((row) => row.short), step);
  return rows.map((row, i) => {
    const x = left + i * step, thick = Math.max(step * 0.72, 1);
    const high = Math.min(y(row.bar), bottom - 1);
    root.append(svg("rect", { x: x + (step - thick) / 2, y: high, width: thick, height: bottom - high, class: "bar" }));
    root.append(svg("circle", { cx: x + step / 2, cy: y(row.dot), r: Math.min(3.5, step / 2.5), class: "second" }));
    if (i % every === 0) root.append(label(x + step / 2, bottom + 16, row.short, "muted", "middle"));
    const peak = y(Math.max(row.bar, row.dot));
    return { x, y: peak, w: step, h: Math.max(bottom - peak, 4), ...row.tip };
  });
}

// Every how many labels there is room for one.
const thinning = (labels, step) => Math.ceil((Math.max(...labels.map((text) => textWidth(text, SMALL))) + 6) / step);

// -- A matrix of coloured cells --------------------------------------------------------------------------------------
// {rows, columns: names; across, down: what they are; cell(i, j) -> {fraction, text, tip, outlined}; map: which colours;
//  legend: what its ends and the places between stand for; square: whether cells should be}

function matrix(host, { rows, columns: heads, across, down, cell, map, legend, square }) {
  const width = widthOf(host);
  const names = distinct(rows, width * NAMES);
  const left = labelRoom([...names, down], width);
  const cellWidth = Math.min((width - left) / heads.length, square ? 52 : 110);
  const few = rows.length <= 12 ? 30 : rows.length <= 30 ? 22 : 15;
  const cellHeight = square ? Math.min(Math.max(cellWidth, 20), 34) : few;
  const top = 40, bottom = top + rows.length * cellHeight;
  const { root } = frame(host, bottom + 48);
  const theme = document.documentElement.dataset.theme;
  const size = cellHeight < 18 ? SMALL : TEXT;
  const gap = Math.min(cellWidth, cellHeight) > 8 ? 1 : 0;
  root.append(label(left - 8, 14, fitted(down, left - 8), "muted", "end"));
  root.append(label(left, 14, across, "muted"));
  const every = thinning(heads, cellWidth);
  heads.forEach((head, j) => {
    if (j % every === 0) root.append(label(left + (j + 0.5) * cellWidth, top - 10, head, "", "middle"));
  });
  const marks = [];
  const outlines = [];
  const cells = names.map((_, i) => heads.map((_, j) => cell(i, j)));
  const texts = cells.flat().map(({ text }) => text || ""), written = numbersThatFit(texts, cellWidth, cellHeight);
  const hint = "point at a cell for its number";
  if (!written && texts.some(Boolean) && width - left > textWidth(hint + across) + 16) root.append(label(width, 14, hint, "muted", "end"));
  names.forEach((name, i) => {
    const y = top + i * cellHeight;
    root.append(label(left - 8, y + cellHeight / 2 + 4, fitted(name, left - 10, size), size === SMALL ? "small" : "", "end"));
    heads.forEach((head, j) => {
      const x = left + j * cellWidth;
      const { fraction, tip: words, outlined } = cells[i][j], text = written && written.texts[i * heads.length + j];
      const { fill, ink } = shade(map, theme, fraction);
      const box = { x, y, width: Math.max(cellWidth - gap, 0.5), height: cellHeight - gap };
      root.append(svg("rect", { ...box, fill, class: "cell" }));
      if (outlined) outlines.push(svg("rect", { ...box, class: "match" }));
      if (text) {
        const words = label(x + box.width / 2, y + cellHeight / 2 + 4, text, "small", "middle");
        words.style.fill = ink;
        words.style.fontSize = `${written.size}px`;
        root.append(words);
      }
      marks.push({ x, y, w: box.width, h: box.height, ...words });
    });
  });
  root.append(...outlines);
  colourBar(root, left, bottom + 16, Math.min(width - left, 260), map, theme, legend);
  return Object.assign(marks, { across: heads.length });
}

// 1,234 as 1.2k.
function inThousands(text) {
  const value = /^[\d,]{5,}$/.test(text) ? Number(text.replaceAll(",", "")) : 0;
  if (value < 1000) return text;
  return value < 999_500 ? `${Number((value / 1e3).toPrecision(2))}k` : `${Number((value / 1e6).toPrecision(2))}M`;
}

// All numbers of a matrix or none: if only the long ones were missing, the largest would look like nothing. Where there
// is no room they are smaller, then in thousands; null if they do not fit at all.
function numbersThatFit(texts, width, height) {
  if (height < 18 || !texts.some(Boolean)) return null;
  const short = texts.map(inThousands);
  for (const shown of [texts, short]) {
    for (const [size, space] of [[SMALL, 3], [10, 2], [9, 1]]) {
      if (shown.every((text) => textWidth(text, size) + space <= width)) return { texts: shown, size };
    }
  }
  return null;
}

function colourBar(root, x, y, width, map, theme, legend) {
  const steps = 64, thick = width / steps;
  for (let k = 0; k < steps; k += 1) {
    const { fill } = shade(map, theme, k / (steps - 1));
    root.append(svg("rect", { x: x + k * thick, y, width: thick + 0.6, height: 8, fill, class: "cell" }));
  }
  // The ends matter most, then the middle; the others stand where there is room for them.
  const last = legend.length - 1, taken = [];
  const order = [...legend.keys()].sort((a, b) => (b % last === 0) - (a % last === 0) || Math.abs(a - last / 2) - Math.abs(b - last / 2));
  for (const k of order) {
    const at = x + (k / last) * width, long = textWidth(legend[k]);
    const from = k === 0 ? at : k === last ? at - long : at - long / 2;
    if (taken.some(([low, high]) => from < high + 8 && from + long > low - 8)) continue;
    taken.push([from, from + long]);
    root.append(label(at, y + 24, legend[k], "muted", k === 0 ? "start" : k === last ? "end" : "middle"));
  }
}

// -- A histogram on [0, 1] in zones: {bins: counts, zones: [{from, to, name, kind}], title, tip(i)} -------------------

function histogram(host, { bins, zones, title, tip: words }) {
  const top = 34, bottom = 234;
  const { root, width } = frame(host, bottom + 40);
  const total = bins.reduce((sum, n) => sum + n, 0) || 1;
  const most = Math.max(...bins) / total || 1;
  const marks = ticks(0, most, 4);
  const left = labelRoom(marks.map(percentTick), width);
  const y = linear([0, most], [bottom, top]), x = linear([0, 1], [left, width - 8]);
  for (const tick of marks) {
    root.append(svg("line", { x1: left, x2: width - 8, y1: y(tick), y2: y(tick), class: "grid" }));
    root.append(label(left - 6, y(tick) + 4, percentTick(tick), "muted", "end"));
  }
  for (const tick of ticks(0, 1, width > 420 ? 10 : 5)) root.append(label(x(tick), bottom + 16, amount(tick), "muted", "middle"));
  let right = width; // names are placed from the right, so that none runs into the one after it
  for (const zone of [...zones].reverse()) {
    if (zone.from > 0) root.append(svg("line", { x1: x(zone.from), x2: x(zone.from), y1: 22, y2: bottom, class: "zone" }));
    const last = zone.to === 1, half = textWidth(zone.name) / 2;
    const middle = last ? x(1) - half : Math.min(x((zone.from + zone.to) / 2), right - 8 - half);
    root.append(label(middle, 16, zone.name, "muted", "middle"));
    right = middle - half;
  }
  root.append(label((left + width) / 2, bottom + 34, title, "muted", "middle"));
  return bins.map((n, i) => {
    const from = i / bins.length, zone = zones.find((each) => from >= each.from - 1e-9 && from < each.to - 1e-9);
    const high = n ? Math.min(y(n / total), bottom - 1) : bottom;
    const box = { x: x(from) + 0.5, width: x(1 / bins.length) - x(0) - 1 };
    if (n) root.append(svg("rect", { ...box, y: high, height: bottom - high, class: zone.kind }));
    return { x: box.x, y: high, w: box.width, h: bottom - high, ...words(i, n / total) };
  }).filter((mark, i) => bins[i]);
}

// -- Parts of a whole: {rows: [{name, parts: [{fraction, kind, tip}]}]} -------------------------------------------------

function strips(host, { rows }) {
  const step = rows.length > 24 ? 18 : 26, top = 4, bottom = top + rows.length * step;
  const { root, width } = frame(host, bottom + 24);
  const names = distinct(rows.map((row) => row.name), width * NAMES);
  const left = labelRoom(names, width);
  const x = linear([0, 1], [left + 8, width - 16]);
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) root.append(label(x(tick), bottom + 18, percent(tick), "muted", "middle"));
  const marks = [];
  rows.forEach((row, i) => {
    const y = top + i * step;
    root.append(label(left, y + step / 2 + 4, fitted(names[i], left - 4), "", "end"));
    let before = 0;
    for (const part of row.parts.filter(({ fraction }) => fraction > 0)) {
      const box = { x: x(before), width: Math.max(x(before + part.fraction) - x(before) - 1, 0.5) };
      root.append(svg("rect", { ...box, y: y + 3, height: step - 6, class: part.kind }));
      marks.push({ x: box.x, y: y + 3, w: box.width, h: step - 6, ...part.tip });
      before += part.fraction;
    }
  });
  return marks;
}

// -- A line over iterations: {points: [{x, y, tip}], title (if any), log, show: how ticks of y are written} -------------------

function line(host, { points, title, log, show: written }) {
  const top = 30, bottom = 210;
  const { root, width } = frame(host, bottom + 40);
  const values = points.map((point) => point.y);
  const least = Math.min(...values), most = Math.max(...values);
  const slack = (most - least) * 0.06 || Math.abs(most) * 0.01 || 1;
  const domain = log ? [least / 1.4, most * 1.4] : [least - slack, most + slack];
  const marks = log ? logTicks(...domain, 5) : ticks(...domain, 5);
  const left = labelRoom(marks.map(written), width, TEXT, 0.5);
  const y = (log ? logarithmic : linear)(domain, [bottom, top]);
  const first = points[0].x, last = points[points.length - 1].x;
  const x = linear(first === last ? [first - 1, last + 1] : [first, last], [left + 6, width - 8]);
  if (title) root.append(label(0, 14, title, "muted"));
  for (const tick of marks) {
    root.append(svg("line", { x1: left, x2: width, y1: y(tick), y2: y(tick), class: "grid" }));
    root.append(label(left - 6, y(tick) + 4, written(tick), "muted", "end"));
  }
  for (const tick of ticks(first, last, Math.max(Math.floor(width / 60), 2)).filter(Number.isInteger)) {
    root.append(label(x(tick), bottom + 16, count(tick), "muted", "middle"));
  }
  root.append(label((left + width) / 2, bottom + 34, "iteration", "muted", "middle"));
  root.append(svg("polyline", { points: points.map((p) => `${x(p.x).toFixed(1)},${y(p.y).toFixed(1)}`).join(" "), class: "line" }));
  return points.map((point) => {
    const radius = points.length > 60 ? 1.5 : 3;
    root.append(svg("circle", { cx: x(point.x), cy: y(point.y), r: radius, class: "dot" }));
    return { x: x(point.x) - 4, y: y(point.y) - 4, w: 8, h: 8, ...point.tip };
  });
}
