"use strict";
// Parts of a whole in the colours of the clusters: {rows: [{name, fractions, strong}], kinds: [{name, colour}], tip(i, j)}

function stacked(host, { rows, kinds, tip: words }) {
  const step = rows.length > 24 ? 18 : 28;
  const { root, width } = frame(host, 10);
  let top = 14;
  top += swatches(root, kinds, 0, top, width);
  const bottom = top + rows.length * step + (rows[0].strong ? 8 : 0);
  setHeight(root, bottom + 26);
  const names = distinct(rows.filter((row) => !row.strong).map((row) => row.name), width * NAMES);
  if (rows[0].strong) names.unshift(rows[0].name);
  const left = labelRoom(names, width);
  const x = linear([0, 1], [left + 8, width - 18]);
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    root.append(svg("line", { x1: x(tick), x2: x(tick), y1: top - 2, y2: bottom + 3, class: "grid" }));
    root.append(label(x(tick), bottom + 19, percent(tick), "muted", "middle"));
  }
  const marks = [], theme = document.documentElement.dataset.theme;
  rows.forEach((row, i) => {
    const y = top + i * step + (i && rows[0].strong ? 8 : 0);
    root.append(label(left, y + step / 2 + 4, fitted(names[i], left - 4), row.strong ? "value" : "", "end"));
    let before = 0;
    row.fractions.forEach((fraction, j) => {
      if (!(fraction > 0)) return;
      const from = x(before), wide = x(before + fraction) - from;
      before += fraction;
      const box = { x: from, width: Math.max(wide - (wide > 3 ? 1 : 0), 0.4), y: y + 2, height: step - (step > 20 ? 6 : 4) };
      root.append(filled(svg("rect", box), kinds[j].colour));
      const text = (100 * fraction).toFixed(0);
      if (step > 20 && textWidth(text, SMALL) + 6 <= wide) {
        const said = label(from + box.width / 2, y + step / 2 + 3, text, "small", "middle");
        root.append(filled(said, theme === "dark" ? "#10151a" : "#ffffff"));
      }
      marks.push({ x: box.x, y: box.y, w: box.width, h: box.height, ...words(i, j) });
    });
  });
  return marks;
}
