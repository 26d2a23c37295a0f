"use strict";
// -- Numbers as people write them ------------------------------------------------------------------------------------

const count = (value) => Math.round(value).toLocaleString("en-US");

function amount(value, digits = 3) {
  if (value === null || value === undefined) return "unknown";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e9 || size < 1e-4) return value.toExponential(digits - 1).replace("e+", "e");
  if (size >= 10 ** (digits - 1)) return count(value);
  return String(Number(value.toPrecision(digits)));
}

function percent(fraction) {
  if (fraction === null || fraction === undefined) return "unknown";
  if (fraction > 0 && fraction < 0.001) return "< 0.1%";
  const digits = fraction > 0 && fraction < 0.1 ? 1 : 0;
  return `${(100 * fraction).toFixed(digits)}%`;
}

// On an axis all ticks have the same step, so none needs more digits than it has.
const percentTick = (fraction) => `${Number((100 * fraction).toPrecision(3))}%`;

const signed = (value, digits = 3) => (value > 0 ? "+" : value < 0 ? "−" : "") + amount(Math.abs(value), digits);

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

// -- From values to places -------------------------------------------------------------------------------------------

const linear = ([low, high], [from, to]) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

const logarithmic = ([low, high], range) => {
  const scale = linear([Math.log(low), Math.log(high)], range);
  return (value) => scale(Math.log(value));
};

// Round numbers in [low, high], about `wanted` of them.
function ticks(low, high, wanted = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((s) => s * power >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const found = [];
  for (let k = first; k * step <= high + 1e-9 * step; k += 1) found.push(Number((k * step).toPrecision(12)));
  return found;
}

// 1, 2, 5 of every decade, or decades alone, or every so many decades: whatever is near to `wanted`.
function logTicks(low, high, wanted = 6) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const inside = (value) => value >= low * 0.999 && value <= high * 1.001;
  const decades = Array.from({ length: last - first + 1 }, (_, k) => first + k);
  for (const steps of [[1, 2, 3, 5], [1, 2, 5], [1, 3], [1]]) {
    const found = decades.flatMap((k) => steps.map((s) => Number((s * 10 ** k).toPrecision(6)))).filter(inside);
    if (found.length <= wanted && found.length >= 2) return found;
  }
  const every = Math.max(Math.ceil((last - first) / wanted), 1);
  const found = decades.filter((k) => (last - k) % every === 0).map((k) => 10 ** k).filter(inside);
  return found.length ? found : [low, high];
}

// -- Colours: blue and orange, which all kinds of colour vision tell apart --------------------------------------------

const ANCHORS = {
  light: {
    sequential: ["#eff3f6", "#a9cbe2", "#4a8fc0", "#164a75", "#0b2740"],
    diverging: ["#7d3403", "#d98a4b", "#f4f3f1", "#6aaad6", "#0f4c7d"],
  },
  dark: {
    sequential: ["#1b222a", "#274f6e", "#3f86b8", "#8ac4ec", "#e4f3fd"],
    diverging: ["#ffc08d", "#b4621f", "#20262d", "#3a7fb3", "#a9daf9"],
  },
};

// Mixed in OKLab, where equal steps look equal.
function toLab(hex) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const v = parseInt(hex.slice(at, at + 2), 16) / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function toRgb([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((v) => {
    const c = Math.min(Math.max(v, 0), 1);
    return Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055));
  });
}

// 256 colours [r, g, b] of a map, for fractions 0 to 1 (sequential) or differences -1 to 1 (diverging).
const palettes = new Map();
function palette(kind, theme) {
  const key = `${kind} ${theme}`;
  if (!palettes.has(key)) {
    const labs = ANCHORS[theme][kind].map(toLab);
    palettes.set(key, Array.from({ length: 256 }, (_, k) => {
      const place = (k / 255) * (labs.length - 1);
      const i = Math.min(Math.floor(place), labs.length - 2);
      return toRgb(labs[i].map((v, c) => v + (place - i) * (labs[i + 1][c] - v)));
    }));
  }
  return palettes.get(key);
}

// A colour for a fraction of the map, and ink that can be read on it.
function shade(kind, theme, fraction) {
  const [r, g, b] = palette(kind, theme)[Math.round(255 * Math.min(Math.max(fraction, 0), 1))];
  const luminance = [r, g, b].reduce((sum, v, c) => sum + [0.2126, 0.7152, 0.0722][c] * (v / 255) ** 2.2, 0);
  return { fill: `rgb(${r},${g},${b})`, ink: luminance > 0.2 ? "#14191e" : "#ffffff" };
}
