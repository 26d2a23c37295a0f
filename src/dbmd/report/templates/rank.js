"use strict";
// The curve of `dbmd rank`: what changes with the number of patterns.

const data = JSON.parse(document.getElementById("data").textContent);
const patterns = (r) => `${count(r)} ${r === 1 ? "pattern" : "patterns"}`;
const three = (value) => value.toFixed(3);

// Lines over the number of patterns: {lines: [{kind, points: [{r, y, low, high}]}], domain, show, tip: row -> mark, limit}.
function curve(host, { lines, domain, show: written, tip: told, limit }) {
  const top = 30, bottom = 250;
  const { root, width } = frame(host, bottom + 42);
  const steps = ticks(...domain, 5);
  const left = labelRoom(["100%", ...steps.map(written)], width, TEXT, 0.5); // the same in all charts
  const y = linear(domain, [bottom, top]);
  const first = data.rows[0].r, last = data.rows[data.rows.length - 1].r;
  const x = linear(first === last ? [first - 1, last + 1] : [first, last], [left + 14, width - 14]);
  for (const tick of steps) {
    root.append(svg("line", { x1: left, x2: width, y1: y(tick), y2: y(tick), class: "grid" }));
    root.append(label(left - 6, y(tick) + 4, written(tick), "muted", "end"));
  }
  for (const row of data.rows.filter((each) => each.proposed)) {
    const at = x(row.r), room = textWidth("proposed") / 2 + 2;
    root.append(svg("line", { x1: at, x2: at, y1: top - 6, y2: bottom, class: "chosen" }));
    root.append(label(Math.min(Math.max(at, room), width - room), top - 12, "proposed", "chosen-name", "middle"));
  }
  // Only numbers that were tried have a label, and only as many as there is room for.
  let free = -Infinity;
  for (const { r } of data.rows) {
    const half = textWidth(count(r)) / 2;
    if (x(r) - half < free) continue;
    root.append(label(x(r), bottom + 18, count(r), "muted", "middle"));
    free = x(r) + half + 6;
  }
  root.append(label((left + width) / 2, bottom + 36, "number of patterns", "muted", "middle"));
  if (limit !== undefined) root.append(svg("line", { x1: left, x2: width, y1: y(limit), y2: y(limit), class: "limit" }));
  const place = (r, value) => `${x(r).toFixed(1)},${y(value).toFixed(1)}`;
  for (const { kind, points } of lines) {
    const band = [...points.map((p) => place(p.r, p.high)), ...[...points].reverse().map((p) => place(p.r, p.low))];
    root.append(svg("polygon", { points: band.join(" "), class: `band ${kind}` }));
    root.append(svg("polyline", { points: points.map((p) => place(p.r, p.y)).join(" "), class: `line ${kind}` }));
    for (const p of points) root.append(svg("circle", { cx: x(p.r), cy: y(p.y), r: 3.5, class: `dot ${kind}` }));
  }
  // A number of patterns is one mark, as high as the chart: all lines are told together.
  const wide = data.rows.length > 1 ? Math.min((x(last) - x(first)) / (data.rows.length - 1), 24) : 24;
  return data.rows.map((row) => ({ x: x(row.r) - wide / 2, y: top, w: wide, h: bottom - top, ...told(row) }));
}

const between = ({ low, high }, written) => (low === high ? "" : `, ${written(low)} to ${written(high)} in the splits`);

const charts = {
  agreement: (host) => {
    const points = (name) => data.rows.map((row) => ({ r: row.r, ...row[name] }));
    const least = Math.min(data.limit, ...points("worst").map((point) => point.low));
    return curve(host, {
      lines: [{ kind: "mean", points: points("mean") }, { kind: "worst", points: points("worst") }],
      domain: [Math.floor(10 * Math.min(least, 0.9)) / 10, 1], show: (value) => amount(value, 2), limit: data.limit,
      tip: (row) => ({ title: patterns(row.r), lines: [
        `worst pattern ${three(row.worst.y)}${between(row.worst, three)}`, `mean ${three(row.mean.y)}${between(row.mean, three)}`,
        ...(row.proposed ? ["proposed"] : []),
      ] }),
    });
  },

  explained: (host) => {
    const rows = data.rows.filter((row) => row.explained !== null);
    const points = rows.map((row) => ({ r: row.r, y: row.explained, low: row.explained, high: row.explained }));
    const least = Math.min(...points.map((p) => p.y)), most = Math.max(...points.map((p) => p.y));
    const slack = Math.max((most - least) * 0.1, 0.01);
    return curve(host, {
      lines: [{ kind: "", points }], show: percentTick,
      domain: [Math.max(least - slack, Math.min(least, 0)), Math.min(most + slack, Math.max(most, 1))],
      tip: (row) => ({ title: patterns(row.r), lines: [`${percent(row.explained)} of the variance explained`, ...(row.proposed ? ["proposed"] : [])] }),
    });
  },
};

// The numbers of each chart, to be saved.
const tables = {
  agreement: () => [
    ["patterns", ...["worst", "mean"].flatMap((name) => [name, `${name}, lowest`, `${name}, highest`])],
    ...data.rows.map(({ r, worst, mean }) => [r, worst.y, worst.low, worst.high, mean.y, mean.low, mean.high]),
  ],
  explained: () => [["patterns", "explained part of the variance"], ...data.rows.map(({ r, explained }) => [r, explained])],
};
const REACH = {};
