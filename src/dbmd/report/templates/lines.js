"use strict";
// Patterns as lines along features in order, all on one scale: together, or one by one beside the mean of all.
// {x: places; at(i): the name of a place; unit; lines: [{name, values, std, colour, title, aside}]; mean; title; show}

const BAND = 1; // standard deviations on either side

// Where the places leave a gap, as spectra do where air absorbs, the line is broken.
function runs(x) {
  const steps = x.slice(1).map((value, i) => Math.abs(value - x[i]));
  const far = 5 * median(steps);
  const found = [[0]];
  steps.forEach((step, i) => (step > far ? found.push([i + 1]) : found[found.length - 1].push(i + 1)));
  return found;
}

function pathOf(parts, x, y) {
  return parts.map((run) => (run.length > 1 ? run : [run[0], run[0]])
    .map((i, k) => `${k ? "L" : "M"}${x(i).toFixed(1)} ${y(i).toFixed(1)}`).join("")).join("");
}

function bandOf(parts, x, low, high) {
  return parts.filter((run) => run.length > 1).map((run) => {
    const there = run.map((i) => `${x(i).toFixed(1)} ${high(i).toFixed(1)}`);
    const back = [...run].reverse().map((i) => `${x(i).toFixed(1)} ${low(i).toFixed(1)}`);
    return `M${[...there, ...back].join("L")}Z`;
  }).join("");
}

function extentOf(lines, used) {
  const counted = used.map((k) => lines[k]);
  const ends = (sign) => counted.flatMap(({ values, std }) => values.map((v, i) => v + sign * (std ? BAND * std[i] : 0)));
  const least = ends(-1).reduce((a, b) => Math.min(a, b)), most = ends(1).reduce((a, b) => Math.max(a, b));
  const slack = (most - least) * 0.05 || Math.abs(most) * 0.05 || 1;
  // Zero is worth seeing if it is near.
  return [least > 0 && least < 0.5 * most ? 0 : least - slack, most < 0 && most > 0.5 * least ? 0 : most + slack];
}

function oneLine(root, { values, std, colour }, parts, x, y) {
  if (std) {
    const band = svg("path", { d: bandOf(parts, x, (i) => y(values[i] - BAND * std[i]), (i) => y(values[i] + BAND * std[i])), class: "band" });
    root.append(filled(band, colour));
  }
  root.append(stroked(svg("path", { d: pathOf(parts, x, (i) => y(values[i])), class: "line" }), colour));
}

// Labels at the ends of lines, pushed apart where they would overlap.
function spread(wanted, least, low, high) {
  const order = wanted.map((_, k) => k).sort((a, b) => wanted[a] - wanted[b]);
  const at = [...wanted];
  order.forEach((k, place) => { if (place) at[k] = Math.max(at[k], at[order[place - 1]] + least); else at[k] = Math.max(at[k], low); });
  [...order].reverse().forEach((k, place, back) => { at[k] = Math.min(at[k], place ? at[back[place - 1]] - least : high); });
  return at;
}

function axis(x, places, wanted) {
  const [low, high] = [Math.min(places[0], places[places.length - 1]), Math.max(places[0], places[places.length - 1])];
  return ticks(low, high, wanted);
}

function linesTogether(host, { x: places, at, lines, used, title, across, show: written }) {
  const top = title ? 30 : 12, bottom = top + 260;
  const { root, width } = frame(host, bottom + 42);
  const named = lines.length <= 14;
  const names = named ? lines.map((each) => fitted(each.name, width * 0.22)) : [];
  const right = named ? Math.ceil(Math.max(...names.map((name) => textWidth(name)))) + 12 : 10;
  const domain = extentOf(lines, used), marks = ticks(...domain, 5);
  const left = labelRoom(marks.map(written), width, TEXT, 0.4);
  const y = linear(domain, [bottom, top]), scale = linear([places[0], places[places.length - 1]], [left + 4, width - right]);
  const x = (i) => scale(places[i]);
  if (title) root.append(label(0, 14, title, "muted"));
  for (const tick of marks) {
    root.append(svg("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: tick === 0 ? "zero" : "grid" }));
    root.append(label(left - 6, y(tick) + 4, written(tick), "muted", "end"));
  }
  for (const tick of axis(x, places, Math.max(Math.floor((width - left - right) / 80), 3))) {
    root.append(label(scale(tick), bottom + 18, at.tick(tick), "muted", "middle"));
  }
  root.append(label((left + width - right) / 2, bottom + 36, across, "muted", "middle"));
  const parts = runs(places);
  [...lines].reverse().forEach((each) => oneLine(root, each, parts, x, y)); // the largest on top
  if (named) {
    const last = places.length - 1;
    const inRoom = (v) => Math.min(Math.max(y(v), top), bottom);
    spread(lines.map((each) => inRoom(each.values[last])), 15, top, bottom).forEach((height, k) => {
      const name = label(width - right + 7, height + 4, names[k], "value");
      root.append(filled(name, lines[k].colour));
    });
  }
  return places.map((_, i) => ({
    x: x(i) - 0.5, y: top, w: 1, h: bottom - top, title: at.name(i),
    get lines() {
      const order = lines.map((_, k) => k).sort((a, b) => lines[b].values[i] - lines[a].values[i]);
      const said = order.slice(0, 10).map((k) => `${lines[k].name}: ${said1(lines[k], i, written)}`);
      return order.length > 10 ? [...said, `and ${order.length - 10} more below`] : said;
    },
  }));
}

const said1 = ({ values, std }, i, written) => written(values[i]) + (std ? ` ± ${amount(std[i], 2)}` : "");

function linesOneByOne(host, { x: places, at, lines, used, mean, title, across, show: written }) {
  const width = widthOf(host), gap = 26;
  const across1 = Math.max(Math.floor((width + gap) / 300), 1), high = 104, top = title ? 24 : 4, step = high + 62;
  const rows = Math.ceil(lines.length / across1);
  const { root } = frame(host, top + rows * step);
  if (title) root.append(label(0, 14, title, "muted"));
  const domain = extentOf(mean ? [...lines, { values: mean }] : lines, used), marks = ticks(...domain, 3);
  const left = labelRoom(marks.map(written), width, TEXT, 0.3);
  const each = (width - gap * (across1 - 1)) / across1, parts = runs(places);
  return lines.map((one, k) => {
    const x0 = (k % across1) * (each + gap), y0 = top + Math.floor(k / across1) * step;
    const scale = linear([places[0], places[places.length - 1]], [x0 + left + 2, x0 + each - 4]), x = (i) => scale(places[i]);
    const y = linear(domain, [y0 + 22 + high, y0 + 22]);
    for (const tick of marks) {
      root.append(svg("line", { x1: x0 + left, x2: x0 + each, y1: y(tick), y2: y(tick), class: tick === 0 ? "zero" : "grid" }));
      root.append(label(x0 + left - 6, y(tick) + 4, written(tick), "muted", "end"));
    }
    const wanted = axis(x, places, Math.max(Math.floor((each - left) / 80), 3));
    for (const tick of wanted) root.append(label(scale(tick), y0 + high + 38, at.tick(tick), "muted", "middle"));
    const name = fitted(one.title, each - left - textWidth(one.aside) - 12);
    root.append(filled(label(x0 + left, y0 + 12, name, "value"), one.colour));
    root.append(label(x0 + each, y0 + 12, one.aside, "muted", "end"));
    // Patterns that no sample has may lie anywhere: what is beyond the scale is cut.
    const inside1 = svg("svg", { x: x0 + left, y: y0 + 20, width: each - left, height: high + 4, viewBox: `${x0 + left} ${y0 + 20} ${each - left} ${high + 4}`, overflow: "hidden", class: "clip" });
    if (mean) inside1.append(svg("path", { d: pathOf(parts, x, (i) => y(mean[i])), class: "mean" }));
    oneLine(inside1, one, parts, x, y);
    root.append(inside1);
    const near = new Map();
    return {
      x: x0 + left, y: y0 + 20, w: each - left, h: high + 4, title: one.title, lines: [
        `from ${written(Math.min(...one.values))} to ${written(Math.max(...one.values))}`, `highest at ${at.name(one.values.indexOf(Math.max(...one.values)))}`,
      ],
      at: (px) => {
        let i = 0;
        places.forEach((_, j) => { if (Math.abs(x(j) - px) < Math.abs(x(i) - px)) i = j; });
        if (!near.has(i)) {
          near.set(i, {
            x: x(i) - 0.5, y: y0 + 22, w: 1, h: high, title: at.name(i),
            lines: [`${one.name}: ${said1(one, i, written)}`, ...(mean ? [`mean of the patterns: ${written(mean[i])}`] : [])],
          });
        }
        return near.get(i);
      },
    };
  });
}
