"use strict";
// Which of the data the views show: patterns as lines and ranked bars, memberships as maps, stacks and points.

const TOP_FEATURES = 8, FIRST_PANELS = 12;

const views = {
  lines: (host) => {
    const { x, labels, unit, values, mean, std, step, total } = basis;
    const difference = pressed("basis-view") === "difference", together = pressed("lines-view") === "together";
    const minus = (line) => (difference ? line.map((value, i) => value - mean[i]) : line);
    const written = (value) => (difference ? signed(value) : amount(value));
    const width = step > 1 ? `, mean of ${step}` : "";
    const short = (value) => String(Number(Number(value).toPrecision(6)));
    const at = {
      tick: (value) => (labels ? fitted(labels[Math.min(Math.round(value / step), labels.length - 1)], 90) : short(value)),
      name: (i) => (labels ? labels[i] : `${basis.counts ? "feature " : ""}${short(x[i])}${unit ? ` ${unit}` : ""}`) + width,
    };
    setTable(host, () => [
      ["feature", ...clusters.map(clusterLabel), ...(std ? clusters.map((cluster) => `${clusterLabel(cluster)} std`) : [])],
      ...x.map((place, i) => [labels ? labels[i] : place, ...values.map((row) => row[i]), ...(std ? std.map((row) => row[i]) : [])]),
    ]);
    const shown = together || pressed("ranked-count") !== "first" ? clusters : clusters.slice(0, FIRST_PANELS);
    return (together ? linesTogether : linesOneByOne)(host, {
      x, at, used: basis.used.filter((k) => k < shown.length), mean: difference ? null : mean, show: written,
      title: difference ? "difference from the mean of the patterns" : "",
      across: `feature${unit ? `, ${unit}` : ""}${step > 1 ? ` (means of ${step} of ${count(total)})` : ""}`,
      lines: shown.map((cluster, k) => ({
        name: clusterLabel(cluster) + doubt(cluster), title: clusterTitle(cluster), aside: percent(cluster.fraction), colour: clusterColour(k),
        values: minus(values[k]), std: std ? std[k] : null,
      })),
    });
  },

  ranked: (host) => {
    const { names, mean, lists, values, std, relative } = basis.ranked;
    const all = pressed("ranked-count") !== "first";
    const panels = clusters.slice(0, all ? clusters.length : FIRST_PANELS).map((cluster, k) => ({
      title: clusterTitle(cluster), aside: cluster.class === null ? percent(cluster.fraction) : `${percent(cluster.purity)} are ${cluster.class}`,
      colour: clusterColour(k),
      rows: lists[k].slice(0, TOP_FEATURES).map((j, place) => {
        const by = values[k][place] - mean[j], times = relative ? relative[j] : 1, off = std ? std[k][place] : null;
        return {
          name: names[j], value: by * times, std: off === null ? null : off * times, text: signed(by, 2),
          tip: { title: `${names[j]}, ${inside(cluster)}`, lines: [
            `value ${amount(values[k][place])}${off === null ? "" : ` ± ${amount(off, 2)}`}`,
            `${signed(by)} from the mean of the patterns, ${amount(mean[j])}`,
          ] },
        };
      }).filter((row, _, rows) => Math.abs(row.value) > 0.02 * Math.abs(rows[0] ? rows[0].value : 0)),
    }));
    setTable(host, () => [
      ["pattern", "rank", "feature", "value", ...(std ? ["std"] : []), "difference"],
      ...clusters.flatMap((cluster, k) => lists[k].map((j, place) => [
        cluster.name, place + 1, names[j], values[k][place], ...(std ? [std[k][place]] : []), Number((values[k][place] - mean[j]).toPrecision(5)),
      ])),
    ]);
    const ends = panels.filter(({ rows }) => rows.length).map(({ rows }) => Math.abs(rows[0].value));
    // A pattern that hardly differs would have no bars to be seen beside one that differs much.
    return rankedPanels(host, { panels, own: Math.min(...ends) < 0.25 * Math.max(...ends) });
  },

  maps: (host) => {
    const found = data.maps;
    const names = clusters.map(clusterLabel);
    const where = `${found.shape[0]} × ${found.shape[1]} pixels`;
    const values = decode(found.values), cluster = decode(found.cluster), n = found.height * found.width;
    setTable(host, () => [
      ["row", "column", ...names],
      ...Array.from({ length: n }, (_, i) => i).filter((i) => cluster[i] !== NO_MEMBERSHIPS).map((i) => [
        Math.floor((Math.floor(i / found.width) * found.shape[0]) / found.height), Math.floor(((i % found.width) * found.shape[1]) / found.width),
        ...names.map((_, k) => Number((values[k * n + i] / 254).toFixed(3))),
      ]),
    ]);
    return maps(host, {
      ...found, values, cluster, names, size: pressed("map-size"),
      titles: [["Clusters", "largest membership"], ...clusters.map((each) => [clusterTitle(each), percent(each.fraction)])],
      tips: [
        { title: "Map of the clusters", lines: [where, "each pixel in the colour of its largest membership"] },
        ...clusters.map((each) => ({ title: `Map of ${inside(each)}`, lines: [where, `${percent(each.fraction)} of all memberships`] })),
      ],
    });
  },

  simplex: (host) => {
    const found = data.simplex, by = pressed("simplex-colour") || "cluster";
    const ternary = found.triangle && pressed("simplex-view") !== "plane";
    const { x, y } = ternary ? found.triangle : found;
    const TRIANGLE = [[0.5, Math.sqrt(0.75)], [0, 0], [1, 0]];
    const places = ternary ? TRIANGLE : found.corners;
    const codes = { cluster: found.leading.map((each) => each[0]), source: found.source, class: found.class }[by];
    const names = { cluster: clusters.map(clusterLabel), source: sources.map((source) => source.name), class: found.classes || [] }[by];
    const colours = names.map((_, k) => kindColour(k, names.length)), other = kindColour(-1);
    const present = new Set(codes);
    const said = (i) => found.leading[i].map((k, place) => [k, found.memberships[i][place], found.std ? found.std[i][place] : null])
      .filter(([k, h]) => k >= 0 && h > 0)
      .map(([k, h, off]) => `${clusterLabel(clusters[k])}: ${h.toFixed(2)}${off === null ? "" : ` ± ${off.toFixed(2)}`}`);
    setTable(host, () => [
      ["row", "source", "class", "cluster", "membership", "x", "y"],
      ...x.map((place, i) => [
        found.row[i], found.source[i] < 0 ? "" : sources[found.source[i]].name, found.class && found.class[i] >= 0 ? found.classes[found.class[i]] : "",
        found.leading[i][0] < 0 ? "" : clusters[found.leading[i][0]].name, found.memberships[i][0], place, y[i],
      ]),
    ]);
    return simplex(host, {
      x, y, ternary, extent: ternary ? [1, Math.sqrt(0.75)] : found.extent,
      corners: clusters.map((cluster, k) => ({
        x: places[k] ? places[k][0] : 0, y: places[k] ? places[k][1] : 0, name: (clusters.length > 12 ? cluster.name : clusterLabel(cluster)) + doubt(cluster),
        colour: by === "cluster" ? clusterColour(k) : "var(--ink)", shown: ternary || found.shown[k],
        tip: { title: clusterTitle(cluster), lines: ["a corner: the pattern alone", `${percent(cluster.fraction)} of all memberships`] },
      })).filter((corner) => corner.shown),
      colour: (i) => (codes[i] < 0 ? other : colours[codes[i]]),
      kinds: by === "cluster" ? [] : [
        ...names.map((name, k) => ({ name, colour: colours[k], k })).filter(({ k }) => present.has(k)),
        ...(present.has(-1) ? [{ name: by === "class" ? "no known class, or another" : "other sources", colour: other }] : []),
      ],
      tip: (i) => ({
        title: `Row ${count(found.row[i])}`,
        lines: [
          ...(sources.length > 1 && found.source[i] >= 0 ? [sources[found.source[i]].name] : []),
          ...(found.class && found.class[i] >= 0 ? [`class ${found.classes[found.class[i]]}`] : []), ...said(i),
        ],
      }),
    });
  },
};

// What each source holds, as bars of the clusters' colours. Clusters that are not shown make one part.
function mixOfSources() {
  const { fractions, overall } = data.mix, hidden = clusters.length < data.n_clusters;
  const kinds = clusters.map((cluster, j) => ({ name: clusterLabel(cluster) + doubt(cluster), colour: clusterColour(j) }));
  if (hidden) kinds.push({ name: "all others", colour: kindColour(-1) });
  const whole = (row) => (hidden ? [...row, Math.max(row.reduce((rest, value) => rest - value, 1), 0)] : row);
  const rows = [{ name: "all sources", fractions: whole(overall), strong: true }, ...sources.map((source, i) => ({ name: source.name, fractions: whole(fractions[i]) }))];
  return { kinds, rows };
}

function mixAsBars(host) {
  const { kinds, rows } = mixOfSources(), { counts } = data.mix;
  return stacked(host, {
    rows, kinds,
    tip: (i, j) => ({ title: `${rows[i].name}, ${kinds[j].name}`, lines: [
      `${percent(rows[i].fractions[j])} of ${i ? "the source's" : "all"} memberships`,
      ...(i ? [`${percent(rows[0].fractions[j])} of all memberships`] : []),
      ...(i && j < clusters.length ? [`the largest membership of ${count(counts[i - 1][j])} of its samples`] : []),
    ] }),
  });
}

// The whole list of features of each pattern, where features have no order.
function listFeatures() {
  const box = document.querySelector(".feature-list");
  if (!box) return;
  const { names, mean, lists, values, std } = basis.ranked;
  featureList(box, {
    hasStd: Boolean(std),
    panels: clusters.map((cluster, k) => ({
      title: clusterTitle(cluster),
      rows: lists[k].map((j, place) => [names[j], values[k][place], std ? std[k][place] : null, values[k][place] - mean[j]]),
    })),
  });
}
