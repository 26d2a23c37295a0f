"use strict";
// Which chart shows what of the data, and when charts are drawn.

const data = JSON.parse(document.getElementById("data").textContent);
const sources = data.sources, clusters = data.clusters, basis = data.basis;
const allSamples = sources.reduce((sum, source) => sum + source.n, 0);
// Patterns that two halves of the data do not agree on have a question mark.
const doubt = (cluster) => (cluster.doubtful ? "?" : "");
const clusterTitle = (cluster) => cluster.title + doubt(cluster);
const agreed = (cluster) => (cluster.agreement === null ? []
  : [`two halves of the data ${cluster.doubtful ? "do not agree" : "agree"} on it: ${cluster.agreement.toFixed(2)}`]);
// As a part of a sentence: names of known patterns stay as they are.
const inside = (cluster) => cluster.title.replace(/^Cluster (?=\d+$)/, "cluster ");
const majority = (cluster) => (cluster.class === null ? [] : [`${percent(cluster.purity)} of its samples are of class ${cluster.class}`]);

const ZONES = [
  { from: 0, to: 0.5, name: "mixtures", kind: "mixed" },
  { from: 0.5, to: 0.9, name: "mostly one cluster", kind: "mostly" },
  { from: 0.9, to: 1, name: "clear", kind: "clear" },
];

const charts = {
  ...views,

  noise: (host) => dotPlot(host, {
    title: `noise level σ${data.preparation.unit === "the data" ? "" : `, in units of ${data.preparation.unit}`}`, aside: "weight",
    rows: sources.map((source) => ({
      name: source.name, value: source.sigma, aside: amount(source.weight, 2),
      tip: { title: source.name, lines: [
        `noise level ${amount(source.sigma)}`,
        `a sample counts ${amount(source.weight, 2)} of one of ${sources[0].name}`,
        `${count(source.n)} samples, worth ${amount(source.worth, 2)} of those`,
        ...(source.explained === null ? [] : [`${percent(source.explained)} of its variation explained`]),
      ] },
    })),
  }),

  offsets: (host) => dotPlot(host, {
    title: "size of the offset", aside: "most in",
    rows: data.offsets.map((source) => ({
      name: source.name, value: source.size, aside: source.top.length ? source.top[0].name : "",
      tip: { title: source.name, lines: [
        `offset ${amount(source.size)}, root mean square`, ...source.top.slice(0, 3).map(({ name, value }) => `${name} ${signed(value)}`),
      ] },
    })),
  }),

  sizes: (host) => bars(host, {
    // With weights, sums and numbers of samples have nothing in common but that both are parts of a whole.
    title: data.weighted ? "per cent of all" : "samples", across: "cluster",
    rows: clusters.map((cluster) => ({
      name: cluster.name + doubt(cluster) + (cluster.class === null ? "" : ` (mostly ${cluster.class})`), short: cluster.name + doubt(cluster),
      bar: data.weighted ? 100 * cluster.fraction : cluster.size,
      dot: data.weighted ? (100 * cluster.count) / (allSamples || 1) : cluster.count, aside: percent(cluster.fraction),
      tip: { title: clusterTitle(cluster), lines: [
        `memberships add up to ${amount(cluster.size)}${data.weighted ? ", weighted" : " samples"}, ${percent(cluster.fraction)}`,
        `the largest membership of ${count(cluster.count)} samples`, ...majority(cluster), ...agreed(cluster),
      ] },
    })),
  }),

  mix: (host) => {
    if (pressed("mix-view") !== "table") return mixAsBars(host);
    const { fractions, counts, overall } = data.mix;
    // Against all samples, so that colours stand out only where a source is different.
    const apart = (i, j) => fractions[i][j] - overall[j];
    const most = Math.max(0.1, ...fractions.flatMap((row, i) => row.map((_, j) => Math.abs(apart(i, j)))));
    return matrix(host, {
      rows: sources.map((source) => source.name), columns: clusters.map((cluster) => cluster.name),
      across: "cluster", down: "source", map: "diverging",
      legend: [`−${amount(100 * most, 2)} points`, "as in all", `+${amount(100 * most, 2)} points`],
      cell: (i, j) => ({
        fraction: 0.5 + apart(i, j) / (2 * most), text: (100 * fractions[i][j]).toFixed(0),
        tip: { title: `${sources[i].name}, ${inside(clusters[j])}`, lines: [
          `${percent(fractions[i][j])} of the source's memberships`, `${percent(overall[j])} of all memberships`,
          `the largest membership of ${count(counts[i][j])} of its samples`,
        ] },
      }),
    });
  },

  features: (host) => {
    const { features, mean, values } = basis;
    const difference = pressed("basis-view") === "difference", own = pressed("basis-scale") === "own";
    const shown = values.map((row, i) => row.map((value) => (difference ? value - mean[i] : value)));
    const low = (row) => Math.min(...row), high = (row) => Math.max(...row), bound = (row) => Math.max(...row.map(Math.abs));
    // Patterns that no sample has may lie anywhere; they do not set the scale.
    const all = shown.flatMap((row) => basis.used.map((j) => row[j])), limits = { low: low(all), high: high(all), bound: bound(all) };
    // What has both signs is shown about zero, in two colours; what has not, from its lowest value to its highest.
    const two = difference || (!own && limits.low < -0.05 * limits.high);
    // A few differences far larger than most would leave the rest without colour: then colours go with the square root,
    // and the legend says so by its numbers.
    const bent = two && !own && limits.bound > 10 * median(all.map(Math.abs));
    const fraction = (i, value) => {
      if (bent) return 0.5 + (Math.sign(value) * Math.sqrt(Math.abs(value) / limits.bound)) / 2;
      const row = basis.used.map((j) => shown[i][j]);
      if (two) return 0.5 + value / (2 * (own ? bound(row) : limits.bound) || 1);
      const [from, to] = own ? [low(row), high(row)] : [limits.low, limits.high];
      return to > from ? (value - from) / (to - from) : 0.5;
    };
    const middle = difference ? "mean" : two ? "0" : "value";
    const ends = (part) => [signed(-limits.bound * part, 2), signed(limits.bound * part, 2)];
    const legend = own ? ["lowest", middle, "highest"]
      : bent ? [ends(1)[0], ends(0.25)[0], middle, ends(0.25)[1], ends(1)[1]]
      : two ? [ends(1)[0], middle, ends(1)[1]]
      : [amount(limits.low), middle, amount(limits.high)];
    return matrix(host, {
      rows: features, columns: clusters.map((cluster) => cluster.name + doubt(cluster)), across: "cluster", down: "feature",
      map: two ? "diverging" : "sequential", legend,
      cell: (i, j) => ({
        fraction: fraction(i, shown[i][j]), text: features.length <= 20 ? (difference ? signed : amount)(shown[i][j], 2) : "",
        tip: { title: `${features[i]}, ${inside(clusters[j])}`, lines: [
          `value ${amount(values[i][j])}`, `${signed(values[i][j] - mean[i])} from the mean of the patterns, ${amount(mean[i])}`,
        ] },
      }),
    });
  },

  images: (host) => {
    const difference = basis.difference && pressed("basis-view") === "difference";
    return images(host, {
      ...basis, pictures: decode((difference ? basis.difference : basis.values).data),
      map: difference || basis.signed ? "diverging" : "sequential",
      legend: difference
        ? [signed(basis.difference.low), "mean", signed(basis.difference.high)]
        : [(basis.beyond[0] ? "≤ " : "") + amount(basis.values.low), basis.signed ? "0" : "value", (basis.beyond[1] ? "≥ " : "") + amount(basis.values.high)],
      captions: clusters.map((cluster) => [
        cluster.name + doubt(cluster), cluster.class === null ? percent(cluster.fraction) : `${percent(cluster.purity)} are ${cluster.class}`,
      ]),
      tips: clusters.map((cluster) => ({
        title: clusterTitle(cluster), lines: [
          `${percent(cluster.fraction)} of all memberships`, ...majority(cluster), ...agreed(cluster),
          ...(cluster.pure ? [] : ["extrapolated: no sample is this pure"]),
        ],
      })),
    });
  },

  memberships: (host) => {
    const bins = data.memberships.histogram;
    return histogram(host, {
      bins, zones: ZONES, title: "largest membership of a sample",
      tip: (i, fraction) => ({
        title: `${amount(i / bins.length)} to ${amount((i + 1) / bins.length)}`,
        lines: [`${percent(fraction)} of the samples`, `${count(bins[i])} samples`],
      }),
    });
  },

  // What noise makes is told from what the data say, where the uncertainty of memberships is known.
  crispness: (host) => strips(host, {
    rows: sources.filter((source) => source.crispness).map((source) => {
      const found = data.memberships.certain ? source.certain : source.crispness;
      return {
        name: source.name,
        parts: [...[...ZONES].reverse(), { kind: "unclear", name: "too noisy to say" }].filter(({ kind }) => kind in found).map(({ kind, name }) => ({
          kind, fraction: found[kind],
          tip: { title: source.name, lines: [
            `${percent(found[kind])} of its samples: ${name}`,
            ...(found.expected === undefined ? [] : [`${percent(found.at_peaks)} look clear, ${percent(found.expected)} are expected to be`]),
          ] },
        })),
      };
    }),
  }),

  classes: (host) => {
    const { rows, columns: heads, counts, sizes, pairs } = data.classes;
    return matrix(host, {
      rows, columns: heads, across: "cluster", down: "class", square: true,
      map: "sequential", legend: ["0%", "of the class", "100%"],
      cell: (i, j) => ({
        fraction: counts[i][j] / (sizes[i] || 1), text: counts[i][j] ? count(counts[i][j]) : "", outlined: i === j && i < pairs,
        tip: { title: `Class ${rows[i]} in cluster ${heads[j]}`, lines: [
          `${count(counts[i][j])} of ${count(sizes[i])} samples, ${percent(counts[i][j] / (sizes[i] || 1))}`,
          ...(i === j && i < pairs ? ["the matched pair"] : []),
        ] },
      }),
    });
  },

  objective: (host) => {
    const { iteration, objective, seconds } = data.convergence;
    return line(host, {
      show: (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 6 }),
      points: iteration.map((k, i) => ({
        x: k, y: objective[i],
        tip: { title: `Iteration ${count(k)}`, lines: [
          `objective ${objective[i].toLocaleString("en-US", { maximumSignificantDigits: 8 })}`, `after ${amount(seconds[i])} s`,
        ] },
      })),
    });
  },

  decrease: (host) => {
    const { iteration, decrease, gain } = data.convergence;
    return line(host, {
      title: "part of the whole decrease (log)", log: true, show: (value) => `${amount(100 * value)}%`,
      points: iteration.map((k, i) => ({
        x: k, y: decrease[i] / gain,
        tip: { title: `Iteration ${count(k)}`, lines: [`made ${amount((100 * decrease[i]) / gain, 2)}% of the whole gain`] },
      })).filter((point) => point.y > 0),
    });
  },
};

// Charts whose marks are thin are taken hold of from further away.
const REACH = { lines: 60, simplex: 8, objective: 30, decrease: 30, noise: 24, offsets: 24, memberships: 24 };

// Which of a group of buttons is pressed.
const pressed = (group) => document.querySelector(`[data-group="${group}"] [aria-pressed="true"]`)?.value;

listFeatures();

for (const group of document.querySelectorAll("[data-group]")) {
  group.addEventListener("click", ({ target }) => {
    if (target.tagName !== "BUTTON") return;
    for (const button of group.querySelectorAll("button")) button.setAttribute("aria-pressed", button === target);
    hosts.filter((host) => group.closest("section").contains(host)).forEach(draw);
  });
}
