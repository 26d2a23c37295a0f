"use strict";
// For each pattern the features that set it apart, as bars from the mean: {panels: [{title, aside, colour, rows: [{name, value, std, text, tip}]}], own}

function rankedPanels(host, { panels, own }) {
  const width = widthOf(host), gap = 34, step = 21;
  const across = Math.max(Math.floor((width + gap) / 290), 1), each = (width - gap * (across - 1)) / across;
  // Bars set the scale. A deviation that is much longer than its bar is cut at the edge of the panel.
  const most = (rows) => {
    const bar = Math.max(...rows.map(({ value }) => Math.abs(value)), 1e-300);
    return Math.min(Math.max(...rows.map(({ value, std }) => Math.abs(value) + (std || 0))), 1.5 * bar) || bar;
  };
  const highest = Math.max(...panels.map(({ rows }) => (rows.length ? most(rows) : 0)));
  const longest = Math.max(...panels.map(({ rows }) => rows.length));
  const high = 30 + longest * step + 14;
  const deep = Math.ceil(panels.length / across) * high;
  const { root } = frame(host, deep + 8);
  if (panels.length > 1) root.append(label(0, deep + 2, own ? "The bars of each pattern have their own scale." : "All bars have one scale.", "muted"));
  // Bars of all panels can be compared if names and numbers take the same room in each, and zero is where the longest
  // bar to the other side has room, if any panel has bars to both.
  const all = panels.flatMap(({ rows }) => rows), goes = (rows, sign) => rows.some((row) => sign * row.value + (row.std || 0) > 0);
  const left = all.length ? labelRoom(all.map((row) => row.name), each, TEXT, 0.42) : 0;
  const room = Math.max(0, ...all.map((row) => textWidth(row.text, SMALL))) + 8;
  const isWide = panels.some(({ rows }) => goes(rows, 1) && goes(rows, -1));
  const marks = [];
  panels.forEach(({ title, aside: beside, colour, rows }, k) => {
    const aside = fitted(beside, each * 0.55);
    const x0 = (k % across) * (each + gap), y0 = Math.floor(k / across) * high;
    root.append(swatch(x0, y0 + 4, colour));
    root.append(label(x0 + 17, y0 + 14, fitted(title, each - textWidth(aside) - 30), "value"));
    root.append(label(x0 + each, y0 + 14, aside, "muted", "end"));
    root.append(svg("line", { x1: x0, x2: x0 + each, y1: y0 + 22, y2: y0 + 22, class: "grid" }));
    if (!rows.length) { root.append(label(x0, y0 + 42, "nothing", "muted")); return; }
    const bound = own ? most(rows) : highest, up = goes(rows, 1), down = goes(rows, -1);
    const from = x0 + left + 6 + (down ? room : 0), to = x0 + each - (up ? room : 0);
    const length = ((each - left - 6 - (isWide ? 2 : 1) * room) / (isWide ? 2 : 1)) / bound; // of a difference of one
    const zero = down ? (up ? from + length * bound : to) : from;
    const x = (value) => zero + value * length;
    root.append(svg("line", { x1: x(0), x2: x(0), y1: y0 + 26, y2: y0 + 30 + rows.length * step, class: "zero" }));
    rows.forEach((row, i) => {
      const y = y0 + 28 + i * step, end = x(row.value), wide = Math.max(Math.abs(end - x(0)), 1);
      root.append(label(x0 + left, y + 14, fitted(row.name, left - 2), "", "end"));
      root.append(svg("rect", { x: Math.min(end, x(0)), y: y + 3, width: wide, height: step - 7, class: row.value < 0 ? "down" : "up" }));
      let edge = end;
      if (row.std) {
        const within = (at) => Math.min(Math.max(at, from), to);
        const ends = [within(x(row.value - row.std)), within(x(row.value + row.std))];
        root.append(svg("line", { x1: ends[0], x2: ends[1], y1: y + step / 2, y2: y + step / 2, class: "whisker" }));
        edge = row.value < 0 ? Math.min(...ends) : Math.max(...ends);
      }
      root.append(label(row.value < 0 ? edge - 4 : edge + 4, y + 14, row.text, "muted small", row.value < 0 ? "end" : "start"));
      marks.push({ x: Math.min(end, x(0)), y: y + 3, w: wide, h: step - 7, ...row.tip });
    });
  });
  return marks;
}

// The whole list of one pattern, which can be searched: {panels: [{title, rows: [[name, value, std, difference]]}], hasStd}
function featureList(box, { panels, hasStd }) {
  const choose = box.querySelector("select"), search = box.querySelector("input");
  const body = box.querySelector("tbody"), said = box.querySelector("output");
  const fill = () => {
    const { rows } = panels[choose.selectedIndex];
    const wanted = search.value.trim().toLowerCase();
    const found = rows.map((row, i) => [i + 1, ...row]).filter(([, name]) => name.toLowerCase().includes(wanted));
    body.replaceChildren(...found.map(([place, name, value, std, difference]) => {
      const row = document.createElement("tr");
      const cells = [["td", place], ["th", name], ["td", amount(value)], ...(hasStd ? [["td", `± ${amount(std, 2)}`]] : []), ["td", signed(difference)]];
      row.append(...cells.map(([tag, text]) => {
        const cell = document.createElement(tag);
        if (tag === "th") cell.scope = "row";
        cell.textContent = text;
        return cell;
      }));
      row.lastChild.className = difference > 0 ? "up" : "down";
      return row;
    }));
    said.textContent = wanted ? `${count(found.length)} of ${count(rows.length)}` : "";
  };
  choose.replaceChildren(...panels.map(({ title }) => new Option(title)));
  choose.addEventListener("change", fill);
  search.addEventListener("input", fill);
  fill();
}
