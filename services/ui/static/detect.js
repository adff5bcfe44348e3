/** Detect: a picture and labels in your words; boxes around what was found, and a label for every pixel. */

import { ask } from "./api.js";
import { bench } from "./bench.js";
import { checkbox, el, field, fill, table } from "./dom.js";
import { explanation, requestFold } from "./explain.js";
import { paintPicture, readMap } from "./picture.js";
import { modelSelect } from "./served.js";

/** @typedef {import("./api.js").Json} Json */

const SAMPLE = "scene.webp";
const SAMPLE_LABELS = "cat, pizza, pineapple, fire engine, owl";

/** @param {Json[]} models */
export function detect(models) {
  const model = modelSelect(models, (models.find((one) => one.detector) ?? models.at(-1))?.id);
  const file = el("input", { type: "file", accept: "image/jpeg,image/png,image/webp" });
  const labels = el("textarea", { rows: 3, spellcheck: "false" });
  labels.value = SAMPLE_LABELS;
  const threshold = el("input", { type: "number", min: 0, max: 1, step: 0.05, inputmode: "decimal", value: 0.5 });
  const most = el("input", { type: "number", min: 1, step: 1, inputmode: "numeric", value: 6 });
  const background = el("input", { type: "number", min: 0, max: 1, step: 0.05, inputmode: "decimal", value: 0.8 });
  const preview = el("img", { class: "preview", src: SAMPLE, alt: "The picture that is sent: drawn objects, until you choose a file" });
  file.addEventListener("change", async () => {
    URL.revokeObjectURL(preview.src);
    preview.src = file.files[0] ? URL.createObjectURL(file.files[0]) : SAMPLE;
  });

  const { element } = bench({
    title: "Detect",
    lead: "Find things in a picture by naming them. Any words will do; a file is sent to this server and nowhere else.",
    action: "Detect",
    controls: [
      field("Model", model),
      field("Picture", file, "JPEG, PNG or WebP. Without a file the sample below is sent."),
      preview,
      field("Labels", labels, "Separated by commas or lines."),
      el("div", { class: "pair" }, field("Boxes from score", threshold), field("Boxes at most", most)),
      field("Map from score", background, "Pixels whose best label scores less are left clear."),
    ],
    async run({ show, say, signal }) {
      const chosen = /** @type {Json} */ (models.find((one) => one.id === model.value));
      const picture = file.files[0] ?? new File([await (await fetch(SAMPLE)).blob()], SAMPLE);
      const words = labels.value.split(/[,\n]/).map((/** @type {string} */ one) => one.trim()).filter(Boolean);
      const common = { model: model.value, ...(words.length ? { labels: words } : {}) };
      const sent = (/** @type {string} */ path, /** @type {Json} */ more) =>
        ({ method: "POST", path, body: { ...common, ...more }, file: { field: "image", blob: picture, name: picture.name } });
      const boxes = sent("/v1/detect", {
        threshold: Number(threshold.value), max_detections: Number(most.value), class_agnostic: true,
        proposals: chosen.detector ? "model" : "grid",
      });
      const map = sent("/v1/segment", { background_threshold: Number(background.value) });
      const [found, dense] = [await ask(boxes, signal), await ask(map, signal)];
      show(...await pictures(picture, found.answer, dense.answer),
        explanation(found.answer, found.elapsed),
        requestFold(boxes, "The boxes' request, as curl"), requestFold(map, "The map's request, as curl"));
      say(`${found.answer.detections.length} found.`);
    },
  });
  return element;
}

/** The picture with its switches, and what was found as a table. @param {Blob} file @param {Json} found @param {Json} dense */
async function pictures(file, found, dense) {
  const bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
  const map = await readMap(dense);
  const canvas = el("canvas", { class: "picture", role: "img", "aria-label": summary(found) });
  const draw = () => paintPicture(canvas, bitmap, found, boxes.box.checked && map.colours, area.box.checked && map);
  const boxes = checkbox("Boxes", true, draw);
  const area = checkbox("Map", true, draw);
  const shares = dense.segments.map((/** @type {Json} */ one) => el("li", {}, swatch(one.color), `${one.label} `,
    el("b", {}, `${Math.round((100 * one.pixels) / (dense.map_size.width * dense.map_size.height))} %`)));
  draw();
  const rows = found.detections.map((/** @type {Json} */ one) =>
    [one.label, one.score.toFixed(2), [one.box.xmin, one.box.ymin, one.box.xmax, one.box.ymax].map(Math.round).join(", ")]);
  const how = found.proposals === "grid"
    ? "Boxes are windows of several sizes, because this model has no detector of its own: coarse, and good to compare labels by."
    : "Boxes come from the model's detector.";
  return [
    canvas,
    el("p", { class: "row" }, boxes.element, area.element),
    el("ul", { class: "legend", "aria-label": "Share of the picture by label" }, ...shares),
    rows.length ? table("Found, best first", ["label", "score", "box (x, y to x, y), pixels"], rows) : el("p", {}, "No box reached that score."),
    el("p", { class: "note" }, how),
  ];
}

/** @param {number[]} colour */
function swatch(colour) {
  const made = el("span", { class: "swatch", "aria-hidden": "true" });
  made.style.setProperty("background-color", `rgb(${colour.join(" ")})`);
  return made;
}

/** @param {Json} found */
function summary(found) {
  const names = found.detections.map((/** @type {Json} */ one) => one.label);
  return names.length ? `The picture, with boxes around: ${names.join(", ")}` : "The picture; nothing was found";
}
