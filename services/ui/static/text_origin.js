/** Text origin: was it written by a language model? The verdict, the sentences that say so, and shared words. */

import { ask } from "./api.js";
import { bench } from "./bench.js";
import { el, facts, field, figure, offer, percent, select, table } from "./dom.js";
import { remember } from "./drawn.js";
import { explanation, requestFold } from "./explain.js";
import { detailsOf, modelSelect } from "./served.js";
import { marked } from "./spans.js";

/** @typedef {import("./api.js").Json} Json */

const VERDICTS = {
  machine: "Machine-like",
  human: "Human-like",
  inconclusive: "Inconclusive",
  too_short: "Too short to say anything",
};

/** @param {Json[]} models */
export function textOrigin(models) {
  const model = modelSelect(models);
  const text = el("textarea", { rows: 12 });
  const modes = () => models.find((one) => one.id === model.value)?.modes ?? ["white_box"];
  const mode = select([]);
  const sync = () => offer(mode, modes().map((/** @type {string} */ one) => [one, one.replace("_", " ")]), mode.value);
  model.addEventListener("change", sync);
  sync();
  const fillIn = async () => {
    text.value = (await detailsOf(model.value)).example.request.text;
  };

  const { element } = bench({
    title: "Text origin",
    lead: "How much a text looks like what the detector's own language model writes. Evidence, never proof.",
    action: "Read",
    controls: [
      field("Detector", model),
      field("Text", text, "English prose. The second half is judged by how the model would have gone on from the first."),
      el("p", { class: "row" }, el("button", { type: "button", class: "quiet", onclick: fillIn }, "Fill in the detector's own example")),
      field("How", mode),
    ],
    async run({ show, say, signal }) {
      if (!text.value.trim()) await fillIn();
      const request = { method: "POST", path: "/v1/text/detect", body: { model: model.value, text: text.value, mode: mode.value } };
      const { answer, elapsed } = await ask(request, signal);
      const [told] = answer.texts;
      show(...verdict(text.value, told), explanation(answer, elapsed), requestFold(request));
      say(`${told.text.words} words read: ${verdictOf(told).toLowerCase()}.`);
    },
  });
  return element;
}

/** @param {string} text @param {Json} told */
function verdict(text, told) {
  const line = told.threshold;
  const spans = spansOf(told);
  remember("text", { verdict: told.verdict, spans });
  return [
    el("p", { class: `verdict ${told.verdict}` }, verdictOf(told)),
    facts([
      ["Score", told.score === null ? null : `${figure(told.score, 3)} (${told.statistic.replaceAll("_", " ")}; higher is more machine-like)`],
      ["Called machine above", line && `${figure(line.machine_above, 3)}: ${percent(line.declared_false_positive_rate)} of human texts are`],
      ["Called human up to", line && figure(line.human_at_most, 3)],
      ["Calibrated on", line && `${line.humans} human and ${line.machines} machine texts of ${line.words.join(" to ")} words`],
      ["Read", `${told.text.words} words, ${told.text.characters} characters`],
      ["Continuations", told.regenerations.asked ? `${told.regenerations.used} of ${told.regenerations.asked}` : null],
    ]),
    ...told.warnings.map((/** @type {Json} */ one) => el("p", { class: "note" }, one.message)),
    el("h3", {}, "The text"),
    marked(text, spans),
    el("ul", { class: "legend" },
      el("li", {}, el("span", { class: "key context" }, "grey"), " read, not judged"),
      el("li", {}, el("span", { class: "key sentence" }, "tinted"), " more machine-like than its neighbours"),
      el("li", {}, el("span", { class: "key evidence" }, "underlined"), " words a continuation has, too")),
    told.overlaps.length ? overlaps(told.overlaps) : null,
  ];
}

/** @param {Json} told @returns {string} */
const verdictOf = (told) => VERDICTS[/** @type {keyof VERDICTS} */ (told.verdict)] ?? told.verdict.replaceAll("_", " ");

/** @param {Json} told @returns {import("./spans.js").Span[]} */
function spansOf(told) {
  const scores = told.sentences.map((/** @type {Json} */ one) => one.score).filter((/** @type {unknown} */ one) => one !== null);
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  const context = told.text.judged_from ? [{ start: 0, end: told.text.judged_from, kind: "context" }] : [];
  const sentences = told.sentences.flatMap((/** @type {Json} */ one) => one.score === null ? [] : [{
    start: Math.max(one.start, told.text.judged_from ?? 0),
    end: one.end,
    kind: "sentence",
    strength: high > low ? (one.score - low) / (high - low) : 0,
    title: `score ${figure(one.score, 3)}`,
  }]);
  const evidence = told.evidence.map((/** @type {Json} */ one) => ({
    start: one.start, end: one.end, kind: "evidence", title: `${one.words} words shared with continuation ${one.regeneration + 1}`,
  }));
  return [...context, ...sentences.filter((/** @type {Json} */ one) => one.end > one.start), ...evidence];
}

/** @param {Json[]} found */
function overlaps(found) {
  const rows = found.map((one) => [`${one.n} ${one.n === 1 ? "word" : "words"}`, one.shared, figure(one.ratio, 3)]);
  return table("Shared with the continuations", ["runs of", "shared", "ratio"], rows);
}
