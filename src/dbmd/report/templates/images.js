"use strict";
// Components as pictures: bytes in, one small canvas for each out. The browser enlarges them without blurring.

function decode(text) {
  const plain = atob(text), bytes = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i += 1) bytes[i] = plain.charCodeAt(i);
  return bytes;
}

// {height, width, channels, pictures: bytes, map, legend, captions: [[title, line]], tips}
function images(host, { height, width, channels, pictures, map, legend, captions, tips }) {
  const colours = channels === 1 ? palette(map, document.documentElement.dataset.theme) : null;
  const size = height * width * channels;
  host.replaceChildren(...captions.map(([title, text], k) => {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { height, width });
    const context = canvas.getContext("2d"), image = context.createImageData(width, height);
    for (let i = 0; i < height * width; i += 1) {
      const at = k * size + i * channels;
      image.data.set(colours ? colours[pictures[at]] : pictures.subarray(at, at + 3), 4 * i);
      image.data[4 * i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    const name = document.createElement("strong"), rest = document.createElement("span");
    name.textContent = title;
    rest.textContent = text;
    caption.append(name, rest);
    figure.append(canvas, caption);
    return figure;
  }));
  if (colours) {
    const bar = document.createElement("div");
    bar.className = "colours";
    host.append(bar);
    const { root, width: room } = frame(bar, 32);
    colourBar(root, 0, 0, Math.min(room, 260), map, document.documentElement.dataset.theme, legend);
  }
  return [...host.querySelectorAll("figure")].map((figure, k) => (
    { x: figure.offsetLeft, y: figure.offsetTop, w: figure.offsetWidth, h: figure.offsetHeight, ...tips[k] }
  ));
}
