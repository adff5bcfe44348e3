/** Line charts with bands, drawn by uPlot: colours of the page, redrawn for dark and light and for every width. */

import { el } from "./dom.js";
import { remember } from "./drawn.js";

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {(number | null)[]} values
 * @property {string} colour  a custom property of the style sheet, e.g. "--data-1"
 * @property {boolean} [dashed]
 */
/**
 * @typedef {object} Band  between two lines that are not drawn themselves
 * @property {string} label
 * @property {(number | null)[]} lower
 * @property {(number | null)[]} upper
 * @property {string} colour
 * @property {number} alpha
 */
/**
 * @typedef {object} Chart
 * @property {string} name  what `pressroom.drawn` calls it
 * @property {string} summary  the picture in a sentence, for those who do not see it
 * @property {number[]} x  epoch seconds if `time`
 * @property {boolean} [time]
 * @property {string} [xLabel]
 * @property {[number, number]} [range]  of y
 * @property {(value: number) => string} [written]  how y is written
 * @property {Line[]} lines
 * @property {Band[]} [bands]
 */

const HEIGHT = 300;
const dark = matchMedia("(prefers-color-scheme: dark)");

/** A figure that draws itself as soon as it stands in the page. @param {Chart} chart @returns {HTMLElement} */
export function figureOf(chart) {
  const place = el("div", { class: "plot", role: "img", "aria-label": chart.summary });
  const figure = el("figure", {}, place, el("figcaption", {}, chart.summary));
  remember(chart.name, { x: chart.x, lines: chart.lines, bands: chart.bands ?? [] });
  /** @type {any} */
  let plot = null;
  const draw = () => {
    plot?.destroy();
    plot = place.clientWidth ? paint(chart, place) : null;
    if (plot) dark.addEventListener("change", draw);
    else dark.removeEventListener("change", draw); // hidden or replaced: nothing page-wide holds it
  };
  new ResizeObserver(() => {
    if (plot && place.clientWidth) plot.setSize({ width: place.clientWidth, height: HEIGHT });
    else draw();
  }).observe(place);
  return figure;
}

/** @param {Chart} chart @param {HTMLElement} place */
function paint(chart, place) {
  const style = getComputedStyle(place);
  const colour = (/** @type {string} */ name, alpha = 1) => withAlpha(style.getPropertyValue(name).trim(), alpha);
  const bands = chart.bands ?? [];
  const edge = { class: "edge", stroke: "transparent", width: 0, points: { show: false } };
  const series = /** @type {any[]} */ ([
    chart.time ? { label: "time" } : { label: chart.xLabel ?? "", value: plain },
    ...bands.flatMap((band) => [{ ...edge, label: `${band.label} upper` }, { ...edge, label: `${band.label} lower` }]),
    ...chart.lines.map((line) => ({
      label: line.label,
      stroke: colour(line.colour),
      width: 1.75,
      dash: line.dashed ? [5, 4] : undefined,
      points: { show: false },
      value: (/** @type {any} */ _, /** @type {number | null} */ v) => (v === null || v === undefined ? "–" : (chart.written ?? short)(v)),
    })),
  ]);
  const font = `12px ${style.fontFamily}`;
  const axis = { stroke: colour("--muted"), font, labelFont: font, grid: { stroke: colour("--rule"), width: 1 }, ticks: { show: false } };
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    tzDate: (/** @type {number} */ seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
    scales: { x: { time: chart.time ?? false }, y: chart.range ? { range: chart.range } : {} },
    series,
    bands: bands.map((band, at) => ({ series: [2 * at + 1, 2 * at + 2], fill: colour(band.colour, band.alpha) })),
    axes: [
      { ...axis, space: 70, size: chart.time ? 44 : 28, label: chart.xLabel, labelSize: 22 },
      { ...axis, size: 58, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map(chart.written ?? short) },
    ],
    cursor: { points: { size: 7 }, drag: { x: true, y: false } },
    legend: { markers: { width: 0, fill: (/** @type {any} */ _, /** @type {number} */ i) => series[i].stroke } },
  };
  const columns = [chart.x, ...bands.flatMap((band) => [band.upper, band.lower]), ...chart.lines.map((line) => line.values)];
  return new uPlot(options, columns, place);
}

/** @param {any} _ @param {number | null} value */
const plain = (_, value) => (value === null || value === undefined ? "–" : short(value));

/** @param {number} value */
const short = (value) => Number(value.toPrecision(5)).toLocaleString("en");

/** @param {string} hex  #rrggbb @param {number} alpha */
export function withAlpha(hex, alpha) {
  return alpha === 1 ? hex : `${hex}${Math.round(alpha * 255).toString(16).padStart(2, "0")}`;
}
