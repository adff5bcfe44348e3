/** Health records: a timeline to edit, and the risks that follow from it. What is typed goes to this server when asked, and nowhere else. */

import { ask } from "./api.js";
import { bench } from "./bench.js";
import { figureOf } from "./chart.js";
import { checkbox, el, field, figure, fill, percent, select, table } from "./dom.js";
import { explanation, requestFold } from "./explain.js";
import { timeline } from "./timeline.js";
import { detailsOf, modelSelect } from "./served.js";

/** @typedef {import("./api.js").Json} Json */

const YEAR = 365.25;
const SHOWN = 5; // curves drawn at first
const STEPS = 120; // points of a curve

/** @param {Json[]} models */
export function records(models) {
  const model = modelSelect(models);
  const chosen = () => /** @type {Json} */ (models.find((one) => one.id === model.value));
  const at = el("input", { type: "date" });
  const years = select([["1", "1 year"], ["5", "5 years"], ["10", "10 years"], ["20", "20 years"]], "10");
  const events = timeline();
  const sync = () => events.offer(chosen().pretraining_tasks);
  model.addEventListener("change", sync);
  sync();
  const sample = async () => {
    const { example } = await detailsOf(model.value);
    at.value = example.request.prediction_time.slice(0, 10);
    events.set(example.request.patients[0].events);
  };

  const { element } = bench({
    title: "Health records",
    lead: "Events of one patient up to a day; the model says how soon something may follow. The sample is made up, and nothing is stored.",
    action: "Predict",
    controls: [
      field("Model", model),
      el("div", { class: "pair" }, field("As of", at, "Later events are not read."), field("Look ahead", years)),
      el("p", { class: "row" }, el("button", { type: "button", class: "quiet", onclick: sample }, "Fill in a made-up patient")),
      events.element,
    ],
    async run({ show, say, signal }) {
      if (!events.get().length) await sample();
      const days = Number(years.value) * YEAR;
      const horizons = [...new Set([YEAR, days / 2, days])].filter((one) => one <= days).sort((a, b) => a - b);
      const body = { model: model.value, prediction_time: at.value, patients: [{ id: "patient", events: events.get() }], horizons_days: horizons };
      const adapters = [...new Set(chosen().adapters.map((/** @type {Json} */ one) => one.name))];
      if (!adapters.length) Object.assign(body, { tasks: chosen().pretraining_tasks.slice(0, 8) });
      const request = { method: "POST", path: "/v1/ehr/predict", body };
      const { answer, elapsed } = await ask(request, signal);
      const [patient] = answer.patients;
      show(...curves(patient, days), explanation(answer, elapsed), requestFold(request));
      say(`${patient.tasks.length} outcomes predicted from ${patient.events.used} events.`);
    },
  });
  return element;
}

/** @param {Json} patient @param {number} days */
function curves(patient, days) {
  const tasks = [...patient.tasks].sort((a, b) => b.risk.at(-1) - a.risk.at(-1));
  const place = el("div");
  const shown = tasks.map((task, at) => ({ task, ...checkbox(nameOf(task), at < SHOWN, () => draw()) }));
  const draw = () => fill(place, figureOf(chartOf(shown.filter((one) => one.box.checked).map((one) => one.task), days)));
  draw();
  const { horizons_days: horizons } = tasks[0];
  const heads = ["outcome", ...horizons.map((/** @type {number} */ one) => `risk in ${figure(one / YEAR, 2)} y`), "half by"];
  const rows = shown.map(({ task, element }) =>
    [element, ...task.risk.map(percent), task.median_days === null ? "not reached" : `${figure(task.median_days / YEAR, 3)} y`]);
  const counts = Object.entries(patient.events).filter(([name, count]) => count && !["received", "used"].includes(name));
  const left = counts.map(([name, count]) => `${count} ${name.replaceAll("_", " ")}`).join(", ");
  return [
    place,
    table("Risks, highest first; tick what the picture shows", heads, rows),
    el("p", { class: "note" }, `${patient.events.used} of ${patient.events.received} events were read${left && ` (${left})`}. `,
      tasks[0].calibration),
  ];
}

/** @param {Json[]} tasks @param {number} days */
function chartOf(tasks, days) {
  const x = Array.from({ length: STEPS + 1 }, (_, at) => (days * at) / STEPS);
  return {
    name: "records",
    summary: tasks.length
      ? `Probability that it has not happened yet, over ${figure(days / YEAR, 3)} years: ${tasks.map(nameOf).join(", ")}`
      : "No outcome is ticked",
    x: x.map((one) => one / YEAR),
    xLabel: "years from now",
    range: /** @type {[number, number]} */ ([0, 1]),
    written: percent,
    lines: tasks.map((task, at) => ({
      label: nameOf(task), values: x.map((one) => survival(task.hazard, one)), colour: `--data-${(at % 6) + 1}`, dashed: at >= 6,
    })),
  };
}

/** exp(-∫ hazard) up to a day: the hazard is constant between edges. @param {Json} hazard @param {number} day */
function survival({ edges_days: edges, per_day: rates }, day) {
  const hazard = rates.reduce((/** @type {number} */ sum, /** @type {number} */ rate, /** @type {number} */ at) =>
    sum + rate * Math.max(0, Math.min(day, edges[at + 1] ?? Infinity) - edges[at]), 0);
  return Math.exp(-hazard);
}

/** @param {Json} task */
const nameOf = (task) => task.task.replaceAll("_", " ");
