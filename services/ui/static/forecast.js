/** Forecast: a table or the model's own example in, a plot with intervals and a table to take away out. */

import { ask } from "./api.js";
import { bench } from "./bench.js";
import { figureOf } from "./chart.js";
import { asSeries, readTable, writeTable } from "./csv.js";
import { el, field, fill, save, select } from "./dom.js";
import { explanation, requestFold } from "./explain.js";
import { detailsOf, modelSelect } from "./served.js";

/** @typedef {import("./api.js").Json} Json */

/** @type {Record<string, number[]>} */
const BANDS = { "": [], 80: [80], "80,95": [80, 95] };

/** @param {Json[]} models */
export function forecast(models) {
  const model = modelSelect(models);
  const horizon = el("input", { type: "number", min: 1, step: 1, inputmode: "numeric" });
  const text = el("textarea", { rows: 7, class: "code", spellcheck: "false", placeholder: "date,HUFL,HULL,…\n2018-06-26 00:00:00,11.2,3.4,…" });
  const file = el("input", { type: "file", accept: ".csv,.tsv,.txt,text/csv" });
  const levels = select([["80,95", "80 % and 95 %"], ["80", "80 %"], ["", "none"]]);
  const missing = select([["refuse", "refuse them"], ["ffill", "repeat the last"], ["linear", "draw a line"]]);
  const chosen = () => /** @type {Json} */ (models.find((one) => one.id === model.value));

  const sync = () => {
    horizon.value = chosen().settings.horizon;
    horizon.max = 10 * chosen().settings.horizon;
    levels.disabled = !chosen().settings.intervals;
  };
  model.addEventListener("change", sync);
  file.addEventListener("change", async () => {
    if (file.files[0]) text.value = await file.files[0].text();
  });
  const sample = el("button", { type: "button", class: "quiet", onclick: async () => {
    text.value = asText((await detailsOf(model.value)).example.request.series[0]);
  } }, "Fill in the model's own example");
  sync();

  const { element } = bench({
    title: "Forecast",
    lead: "The past of a few series in raw units; the model says how they go on. Left empty, the model's own example is sent.",
    action: "Forecast",
    controls: [
      field("Model", model),
      field("Table", text, "One row a time step, oldest first, with column names above. The last rows the model reads are sent."),
      field("or a csv file", file),
      el("p", { class: "row" }, sample),
      el("div", { class: "pair" }, field("Steps ahead", horizon), field("Intervals", levels)),
      field("Missing values", missing),
    ],
    async run({ show, say, signal }) {
      if (!text.value.trim()) text.value = asText((await detailsOf(model.value)).example.request.series[0]);
      const { look_back: lookBack, horizon: most } = chosen().settings;
      const series = asSeries(readTable(text.value), lookBack);
      const steps = Number(horizon.value);
      const body = {
        model: model.value, horizon: steps, series: [series],
        ...(levels.disabled || !levels.value ? {} : { levels: BANDS[levels.value] }),
        ...(missing.value === "refuse" ? {} : { missing: missing.value }),
        ...(steps > most ? { roll_out: true } : {}),
      };
      const request = { method: "POST", path: "/v1/forecast", body };
      const { answer, elapsed } = await ask(request, signal);
      show(...pictures(series, answer.series[0]), explanation(answer, elapsed), requestFold(request));
      say(`${answer.series[0].timestamps?.length ?? steps} steps forecast.`);
    },
  });
  return element;
}

/** The plot with its column switch, the warnings, and the table to save. @param {Json} past @param {Json} told */
function pictures(past, told) {
  const columns = Object.keys(told.values);
  const column = select(columns, columns.at(-1));
  const place = el("div");
  const draw = () => fill(place, figureOf(chartOf(column.value, past, told)));
  column.addEventListener("change", draw);
  draw();
  const keep = el("button", { type: "button", class: "quiet", onclick: () => save("forecast.csv", frameOf(told), "text/csv") },
    "Save the forecast as csv");
  const warnings = told.warnings.map((/** @type {Json} */ one) => el("p", { class: "note" }, one.message));
  return [place, el("div", { class: "row ends" }, field("Column", column), keep), ...warnings];
}

/** @param {string} column @param {Json} past @param {Json} told */
function chartOf(column, past, told) {
  const before = past.values[column];
  const ahead = told.values[column];
  const joined = (/** @type {number[]} */ values, /** @type {number | null} */ at) =>
    [...Array(before.length - 1).fill(null), at, ...values];
  const stamps = past.timestamps && told.timestamps ? [...past.timestamps, ...told.timestamps].map(seconds) : null;
  const last = before.at(-1);
  const intervals = [...(told.intervals ?? [])].sort((a, b) => b.level - a.level);
  return {
    name: "forecast",
    summary: `${column}: ${before.length} known steps, then ${ahead.length} forecast`
      + (intervals.length ? `; shaded: ${intervals.map((/** @type {Json} */ one) => `${one.level} %`).reverse().join(" and ")} interval` : ""),
    x: stamps ?? [...before, ...ahead].map((_, at) => at - before.length + 1),
    time: stamps !== null,
    xLabel: stamps ? undefined : "steps from now",
    lines: [
      { label: "known", values: [...before, ...Array(ahead.length).fill(null)], colour: "--ink" },
      { label: "forecast", values: joined(ahead, last), colour: "--data-1" },
    ],
    bands: intervals.map((one) => ({
      label: `${one.level} %`, lower: joined(one.lower[column], last), upper: joined(one.upper[column], last),
      colour: "--data-1", alpha: one.level > 90 ? 0.14 : 0.22,
    })),
  };
}

/** A stamp as epoch seconds; one without a zone is drawn as it is written. @param {string | number} stamp */
function seconds(stamp) {
  if (typeof stamp === "number") return stamp;
  const zoned = /(Z|[+-]\d{2}:?\d{2})$/.test(stamp) || !stamp.includes("T");
  return Date.parse(zoned ? stamp : `${stamp}Z`) / 1e3;
}

/** The forecast as a table: time, columns, and the bounds of each interval. @param {Json} told */
function frameOf(told) {
  const columns = Object.keys(told.values);
  const sides = (told.intervals ?? []).flatMap((/** @type {Json} */ one) =>
    columns.flatMap((name) => [[`${name}_${one.level}_lower`, one.lower[name]], [`${name}_${one.level}_upper`, one.upper[name]]]));
  const all = [...columns.map((name) => [name, told.values[name]]), ...sides];
  const steps = told.values[columns[0]].length;
  const stamps = told.timestamps ?? Array.from({ length: steps }, (_, at) => at + 1);
  const rows = stamps.map((/** @type {string} */ stamp, /** @type {number} */ at) => [stamp, ...all.map(([, values]) => values[at])]);
  return writeTable([told.timestamps ? "time" : "step", ...all.map(([name]) => name)], rows);
}

/** A series as the table people would paste. @param {Json} series */
function asText(series) {
  const columns = Object.keys(series.values);
  const stamps = series.timestamps;
  const rows = series.values[columns[0]].map((/** @type {unknown} */ _, /** @type {number} */ at) =>
    [...(stamps ? [stamps[at]] : []), ...columns.map((name) => short(series.values[name][at]))]);
  return writeTable([...(stamps ? ["date"] : []), ...columns], rows);
}

/** A number with as many digits as tell it from other float32 numbers, which is what models read. @param {number | null} value */
function short(value) {
  if (value === null) return value;
  const written = [6, 7, 8, 9].map((digits) => Number(value.toPrecision(digits)));
  return written.find((one) => Math.fround(one) === Math.fround(value)) ?? value;
}
