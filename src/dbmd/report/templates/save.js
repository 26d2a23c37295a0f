"use strict";
// Every chart can be saved: the drawing as SVG or PNG, as it is on the screen, and its numbers as CSV.

const MARGIN = 14, SCALE = 2; // SCALE: pixels of a PNG for each of the page
const LINES = ["stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "stroke-opacity"];
const SHAPES = ["fill", "fill-opacity", "opacity", "shape-rendering", ...LINES];
const TEXTS = ["fill", "font-family", "font-size", "font-weight", "opacity", "paint-order", ...LINES];
const USUAL = {
  stroke: "none", "stroke-dasharray": "none", "stroke-linejoin": "miter", "stroke-linecap": "butt", "stroke-opacity": "1",
  "fill-opacity": "1", opacity: "1", "shape-rendering": "auto", "paint-order": "normal",
};

// -- A drawing that stands alone ---------------------------------------------------------------------------------------

// As attributes, not as a style sheet: programs that edit drawings know these.
function withStyles(element) {
  const copy = element.cloneNode(true);
  const originals = [element, ...element.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((original, i) => {
    const style = getComputedStyle(original), target = copies[i];
    if (!["svg", "g"].includes(target.localName)) {
      for (const name of target.localName === "text" ? TEXTS : SHAPES) {
        const value = style.getPropertyValue(name);
        if (name.startsWith("stroke-") && style.stroke === "none") continue;
        if (value && value !== USUAL[name]) target.setAttribute(name, value);
      }
    }
    target.removeAttribute("class");
    target.removeAttribute("style");
  });
  return copy;
}

function written(x, y, text, style, more = {}) {
  const drawn = svg("text", { x, y, fill: style.color, "font-family": style.fontFamily, "font-size": style.fontSize, "font-weight": style.fontWeight, ...more });
  drawn.textContent = text;
  return drawn;
}

// Text outside of drawings, line by line as the browser has broken it.
function* linesOf(host) {
  const walker = document.createTreeWalker(host, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement, range = document.createRange();
    if (parent.closest("svg, button, select, .halo, .unseen, [hidden]") || !node.data.trim()) continue;
    let line = null;
    for (const word of node.data.matchAll(/\S+/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const box = range.getBoundingClientRect();
      if (line && Math.abs(line.box.top - box.top) < box.height / 2) line.text += ` ${word[0]}`;
      else {
        if (line) yield line;
        line = { text: word[0], box, style: getComputedStyle(parent) };
      }
    }
    if (line) yield line;
  }
}

// Title and keys, with lines broken where the chart ends.
function heading(figure, width) {
  const caption = figure.querySelector("figcaption"), lines = [""];
  for (const word of titleOf(figure).split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) && textWidth(longer, 15) * 1.08 > width) lines.push(word); // bold is wider
    else lines[lines.length - 1] = longer;
  }
  const parts = lines.map((line, i) => written(0, 16 + 19 * i, line, getComputedStyle(caption), { "font-size": "15px" }));
  let x = 0, y = 19 * lines.length - 3;
  const keys = [...caption.querySelectorAll(".key")];
  if (keys.length) [x, y] = [0, y + 21];
  for (const key of keys) {
    const mark = getComputedStyle(key, "::before"), text = key.textContent.trim();
    if (x > 0 && x + textWidth(text, 12) + 20 > width) [x, y] = [0, y + 19];
    const size = { width: parseFloat(mark.width), height: parseFloat(mark.height) }, line = parseFloat(mark.borderTopWidth) || 0;
    parts.push(svg("rect", {
      ...size, x: x + line / 2, y: y - size.height + 0.5, rx: mark.borderRadius === "50%" ? size.width / 2 : 2,
      fill: line ? "none" : mark.backgroundColor, ...(line ? { stroke: mark.borderTopColor, "stroke-width": line } : {}),
    }));
    parts.push(written(x + size.width + 6, y, text, getComputedStyle(key), { "font-size": "12px", "font-weight": "400" }));
    x += size.width + textWidth(text, 12) + 24;
  }
  return { parts, height: y + 14 };
}

const titleOf = (figure) => [...figure.querySelector("figcaption").childNodes]
  .filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data.trim()).join(" ").trim();

// The whole figure as one drawing: title, keys, and what the host holds: drawings, pictures and text.
function drawing(figure) {
  const host = figure.querySelector("[data-chart]"), frame = host.getBoundingClientRect();
  const { parts, height } = heading(figure, frame.width);
  const body = svg("g", { transform: `translate(0 ${height})` });
  for (const inner of host.querySelectorAll("svg, canvas")) {
    const box = inner.getBoundingClientRect(), [x, y] = [box.left - frame.left, box.top - frame.top];
    if (inner.localName === "canvas") {
      const picture = svg("image", { x, y, width: box.width, height: box.height, href: inner.toDataURL(), preserveAspectRatio: "none" });
      if (getComputedStyle(inner).imageRendering === "pixelated") picture.setAttribute("image-rendering", "pixelated");
      body.append(picture);
    } else if (!inner.parentElement.closest("svg")) {
      const scale = inner.viewBox.baseVal && inner.viewBox.baseVal.width ? box.width / inner.viewBox.baseVal.width : 1;
      body.append(svg("g", { transform: `translate(${x} ${y}) scale(${scale})` }, ...withStyles(inner).childNodes));
    }
  }
  for (const { text, box, style } of linesOf(host)) {
    body.append(written(box.left - frame.left, box.top - frame.top + box.height * 0.78, text, style));
  }
  const width = Math.ceil(frame.width) + 2 * MARGIN, tall = Math.ceil(height + frame.height) + 2 * MARGIN;
  const paper = document.documentElement.dataset.theme === "dark" ? getComputedStyle(document.body).backgroundColor : "#ffffff";
  const root = svg("svg", { width, height: tall, viewBox: `0 0 ${width} ${tall}` });
  const name = svg("title");
  name.textContent = titleOf(figure);
  root.append(name, svg("rect", { width, height: tall, fill: paper }), svg("g", { transform: `translate(${MARGIN} ${MARGIN})` }, ...parts, body));
  // Names that were cut may end in half a character, which no file can hold.
  return new XMLSerializer().serializeToString(root).replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
}

async function painted(figure) {
  const image = new Image(), canvas = document.createElement("canvas");
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing(figure))}`;
  await image.decode();
  Object.assign(canvas, { width: SCALE * image.width, height: SCALE * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

function asCsv(rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

// -- Buttons -----------------------------------------------------------------------------------------------------------

const SAVED_AS = {
  SVG: async (figure) => new Blob([drawing(figure)], { type: "image/svg+xml" }),
  PNG: painted,
  CSV: async (figure) => new Blob([asCsv(tableOf(figure.querySelector("[data-chart]")))], { type: "text/csv" }),
};

const fileName = (figure) => titleOf(figure).toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) || "chart";

async function save(figure, kind) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await SAVED_AS[kind](figure));
  link.download = `${fileName(figure)}.${kind.toLowerCase()}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// One stop for the tab key; arrows go from button to button.
function addSaving(figure) {
  const bar = document.createElement("span"), title = titleOf(figure);
  bar.className = "save";
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", `Save: ${title}`);
  const buttons = Object.keys(SAVED_AS).map((kind, i) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: kind, tabIndex: i ? -1 : 0 });
    const what = kind === "CSV" ? "the numbers" : "the chart";
    button.setAttribute("aria-label", `Save ${what} as ${kind}`);
    button.title = `Save ${what} as ${kind}`;
    button.addEventListener("click", () => save(figure, kind));
    return button;
  });
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], at = buttons.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = buttons[(at + step + buttons.length) % buttons.length];
    for (const button of buttons) button.tabIndex = button === next ? 0 : -1;
    next.focus();
  });
  bar.append(...buttons);
  figure.querySelector("figcaption").append(bar);
}
