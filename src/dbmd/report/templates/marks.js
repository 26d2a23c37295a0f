"use strict";
// A chart is a host with marks: boxes {x, y, w, h} in the host's own coordinates with a title and lines of text.
// Pointer, touch and keyboard all do the same: they choose a mark, which is then outlined and explained.

const tip = document.getElementById("tip");
const spoken = document.getElementById("spoken");
const marksOf = new WeakMap();
let active = null; // {host, mark}

function show(host, mark, aloud) {
  if (active && active.mark === mark) return;
  hide();
  active = { host, mark };
  const title = document.createElement("strong");
  title.textContent = mark.title;
  tip.replaceChildren(title, ...mark.lines.map((line) => {
    const row = document.createElement("span");
    row.textContent = line;
    return row;
  }));
  tip.hidden = false;
  if (aloud) spoken.textContent = [mark.title, ...mark.lines].join(". ");

  const halo = host.querySelector(".halo");
  Object.assign(halo.style, {
    left: `${mark.x - 2}px`, top: `${mark.y - 2}px`, width: `${mark.w + 4}px`, height: `${mark.h + 4}px`,
  });
  halo.hidden = false;
  if (aloud) halo.scrollIntoView({ block: "nearest" }); // a chart may be taller than the window
  place();
}

// Above the mark if there is room, below it otherwise, and never beyond the edges of the window.
function place() {
  if (!active) return;
  const { host, mark } = active;
  const frame = host.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const middle = frame.left + mark.x + mark.w / 2;
  const left = Math.min(Math.max(middle - own.width / 2, 8), document.documentElement.clientWidth - own.width - 8);
  const above = frame.top + mark.y - own.height - 10;
  const top = above >= 8 ? above : frame.top + mark.y + mark.h + 10;
  Object.assign(tip.style, { left: `${left}px`, top: `${top}px` });
}

function hide() {
  if (!active) return;
  active.host.querySelector(".halo").hidden = true;
  tip.hidden = true;
  active = null;
}

// The mark under the pointer, or the nearest one not further away than `reach`.
function under(marks, x, y, reach) {
  let best = null, least = reach;
  for (const mark of marks) {
    const dx = Math.max(mark.x - x, 0, x - mark.x - mark.w), dy = Math.max(mark.y - y, 0, y - mark.y - mark.h);
    const away = Math.hypot(dx, dy);
    if (away < least || (away === 0 && least === 0 && mark.w * mark.h < best.w * best.h)) {
      best = mark;
      least = away;
    }
  }
  return best;
}

// How many marks an arrow key goes forward or back. Marks are in reading order; where `across` of them make a row, up and
// down go by rows.
const ARROWS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
function beside(marks, from, key) {
  const step = ARROWS[key] * (key === "ArrowUp" || key === "ArrowDown" ? marks.across || 1 : 1);
  const at = marks.indexOf(from), to = at + step;
  const beyond = marks.across && Math.abs(step) === 1 && Math.floor(to / marks.across) !== Math.floor(at / marks.across);
  return (!beyond && marks[to]) || from;
}

// `reach`: from how far a pointer takes hold of a mark.
function interact(host, marks, reach = 12) {
  const known = marksOf.has(host);
  if (active && active.host === host) hide();
  marksOf.set(host, { marks, reach, last: null });
  const halo = document.createElement("div");
  halo.className = "halo";
  halo.hidden = true;
  host.append(halo);
  if (known) return;

  const at = (event) => {
    const frame = host.getBoundingClientRect(), state = marksOf.get(host);
    const x = event.clientX - frame.left, y = event.clientY - frame.top;
    const mark = under(state.marks, x, y, state.reach);
    if (mark) show(host, mark.at ? mark.at(x, y) : mark, false); // a mark may have parts that only a pointer can reach
    else hide();
  };
  host.addEventListener("pointermove", at);
  host.addEventListener("pointerdown", at);
  host.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hide(); });
  host.addEventListener("focus", () => {
    const state = marksOf.get(host);
    // A click focuses too, but has chosen its mark already.
    if (state.marks.length && host.matches(":focus-visible")) show(host, (state.last = state.last || state.marks[0]), true);
  });
  host.addEventListener("blur", hide);
  host.addEventListener("keydown", (event) => {
    const state = marksOf.get(host);
    const from = active && active.host === host ? active.mark : state.last || state.marks[0];
    let to = null;
    if (event.key in ARROWS) to = beside(state.marks, from, event.key);
    else if (event.key === "Home") to = state.marks[0];
    else if (event.key === "End") to = state.marks[state.marks.length - 1];
    else if (event.key === "Escape") hide();
    if (!to) return;
    event.preventDefault();
    state.last = to;
    show(host, to, true);
  });
}

document.addEventListener("pointerdown", (event) => { if (active && !active.host.contains(event.target)) hide(); });
addEventListener("scroll", place, { passive: true });

// -- The numbers of a chart, for those who want to save them ----------------------------------------------------------
// A table is [[header, ...], [value, ...], ...]; a drawing sets it again. It may be a function, called when it is wanted.

function setTable(host, rows) {
  (host.closest("figure.chart") || host).__table = rows;
}

function tableOf(host) {
  const rows = (host.closest("figure.chart") || host).__table;
  return typeof rows === "function" ? rows() : rows;
}
