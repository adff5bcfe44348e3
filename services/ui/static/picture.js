/** A picture on a canvas, with boxes and a map of labels over it. */

import { remember } from "./drawn.js";

const SHOWN = 900; // pixels: a larger picture is drawn smaller
const FONT = "600 13px system-ui, sans-serif";

/** @typedef {import("./api.js").Json} Json */
/** @typedef {{layer: HTMLCanvasElement, colours: Record<string, number[]>}} LabelMap */

/** The map of a segmentation as a layer whose background is clear. @param {Json} dense @returns {Promise<LabelMap>} */
export async function readMap(dense) {
  const bytes = Uint8Array.from(atob(dense.png), (sign) => sign.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const layer = document.createElement("canvas");
  [layer.width, layer.height] = [bitmap.width, bitmap.height];
  const context = /** @type {CanvasRenderingContext2D} */ (layer.getContext("2d", { willReadFrequently: true }));
  context.drawImage(bitmap, 0, 0);
  const nothing = dense.segments.find((/** @type {Json} */ one) => one.value === 0)?.color;
  if (nothing) clear(context, nothing);
  const colours = Object.fromEntries(dense.segments.map((/** @type {Json} */ one) => [one.label, one.color]));
  return { layer, colours };
}

/** Make one colour see-through. @param {CanvasRenderingContext2D} context @param {number[]} colour */
function clear(context, [red, green, blue]) {
  const { width, height } = context.canvas;
  const pixels = context.getImageData(0, 0, width, height);
  const { data } = pixels;
  for (let at = 0; at < data.length; at += 4) {
    if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) data[at + 3] = 0;
  }
  context.putImageData(pixels, 0, 0);
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {ImageBitmap} bitmap
 * @param {Json} found  the answer of /v1/detect
 * @param {Record<string, number[]> | false} colours  of the boxes by label; false: no boxes
 * @param {LabelMap | false} map  false: no map
 */
export function paintPicture(canvas, bitmap, found, colours, map) {
  const scale = Math.min(1, SHOWN / Math.max(bitmap.width, bitmap.height)) * (bitmap.width < SHOWN / 2 ? 2 : 1);
  canvas.width = Math.round(bitmap.width * scale);
  canvas.height = Math.round(bitmap.height * scale);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  if (map) {
    context.globalAlpha = 0.55;
    context.imageSmoothingEnabled = false;
    context.drawImage(map.layer, 0, 0, canvas.width, canvas.height);
    context.globalAlpha = 1;
  }
  const boxes = colours ? found.detections.map((/** @type {Json} */ one) => ({ ...one, colour: colours[one.label] ?? [200, 40, 30] })) : [];
  for (const one of boxes.toReversed()) paintBox(context, one, scale); // the best on top
  remember("detect", { width: canvas.width, height: canvas.height, scale, boxes, map: Boolean(map) });
}

/** @param {CanvasRenderingContext2D} context @param {Json} one @param {number} scale */
function paintBox(context, { box, label, score, colour }, scale) {
  const [x, y, right, bottom] = [box.xmin, box.ymin, box.xmax, box.ymax].map((value) => value * scale);
  const paint = `rgb(${colour.join(" ")})`;
  context.lineWidth = 5;
  context.strokeStyle = "rgb(255 255 255 / 0.85)";
  context.strokeRect(x, y, right - x, bottom - y);
  context.lineWidth = 3;
  context.strokeStyle = paint;
  context.strokeRect(x, y, right - x, bottom - y);
  const text = `${label} ${score.toFixed(2)}`;
  context.font = FONT;
  const width = context.measureText(text).width + 10;
  const left = Math.max(0, Math.min(x, context.canvas.width - width));
  const top = Math.max(0, y - 10);
  context.fillStyle = paint;
  context.fillRect(left, top, width, 20);
  context.fillStyle = luminance(colour) > 0.45 ? "#111" : "#fff";
  context.fillText(text, left + 5, top + 14.5);
}

/** @param {number[]} colour */
const luminance = ([red, green, blue]) => (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
