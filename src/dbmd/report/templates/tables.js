"use strict";
// The numbers of each chart, in full: what is saved as CSV. They are asked for when they are wanted.

const known = (rows, of) => rows.some((row) => of(row) !== null && of(row) !== undefined);

// A table of rows, from columns [name, value of a row]; columns without any value are left out.
const tableFrom = (rows, columns) => {
  const kept = columns.filter(([, of]) => known(rows, of));
  return [kept.map(([name]) => name), ...rows.map((row) => kept.map(([, of]) => of(row)))];
};

const tables = {
  noise: () => tableFrom(sources, [
    ["source", (s) => s.name], ["noise_level", (s) => s.sigma], ["weight", (s) => s.weight], ["samples", (s) => s.n],
    ["worth", (s) => s.worth], ["explained", (s) => s.explained],
  ]),

  offsets: () => [
    ["source", "size", "feature", "offset"],
    ...data.offsets.flatMap((source) => (source.top.length
      ? source.top.map(({ name, value }) => [source.name, source.size, name, value]) : [[source.name, source.size, "", ""]])),
  ],

  sizes: () => tableFrom(clusters, [
    ["cluster", (c) => c.name], ["memberships", (c) => c.size], ["fraction", (c) => c.fraction], ["samples", (c) => c.count],
    ["agreement", (c) => c.agreement], ["class", (c) => c.class], ["purity", (c) => c.purity],
  ]),

  mix: () => [
    ["source", "cluster", "fraction", "fraction_of_all", "samples"],
    ...sources.flatMap((source, i) => clusters.map((cluster, j) => [
      source.name, cluster.name, data.mix.fractions[i][j], data.mix.overall[j], data.mix.counts[i][j],
    ])),
  ],

  features: () => [
    ["feature", ...clusters.map((cluster) => cluster.name), "mean"],
    ...basis.features.map((feature, i) => [feature, ...basis.values[i], basis.mean[i]]),
  ],

  images: () => {
    const { height, width, channels, values } = basis, bytes = decode(values.data);
    const value = (k, i) => Number((values.low + (bytes[k * height * width * channels + i] / 255) * (values.high - values.low)).toPrecision(4));
    const colour = (i) => (channels === 1 ? [] : ["rgb"[i % 3]]);
    return [
      ["row", "column", ...(channels === 1 ? [] : ["channel"]), ...clusters.map((cluster) => cluster.name)],
      ...Array.from({ length: height * width * channels }, (_, i) => {
        const pixel = Math.floor(i / channels);
        return [Math.floor(pixel / width), pixel % width, ...colour(i), ...clusters.map((_, k) => value(k, i))];
      }),
    ];
  },

  memberships: () => {
    const bins = data.memberships.histogram;
    return [["from", "to", "samples"], ...bins.map((n, i) => [i / bins.length, (i + 1) / bins.length, n])];
  },

  crispness: () => tableFrom(sources.filter((source) => source.crispness), [
    ["source", (s) => s.name], ["samples", (s) => s.n],
    ...["clear", "mostly", "mixed", "unclear", "at_peaks", "expected"].map((kind) => [kind, (s) => (data.memberships.certain ? s.certain : s.crispness)[kind]]),
  ]),

  classes: () => [
    ["class", ...data.classes.columns.map((name) => `cluster ${name}`), "all"],
    ...data.classes.rows.map((name, i) => [name, ...data.classes.counts[i], data.classes.sizes[i]]),
  ],

  objective: () => [
    ["iteration", "objective", "seconds"],
    ...data.convergence.iteration.map((k, i) => [k, data.convergence.objective[i], data.convergence.seconds[i]]),
  ],

  decrease: () => [
    ["iteration", "decrease"], ...data.convergence.iteration.map((k, i) => [k, data.convergence.decrease[i]]),
  ],
};
