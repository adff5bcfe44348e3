/** Watermark: weave a message into generated text, read it from text, and see which tokens carry it. */

import { ask } from "./api.js";
import { bench } from "./bench.js";
import { el, facts, field, figure, fill, table } from "./dom.js";
import { remember } from "./drawn.js";
import { explanation, requestFold } from "./explain.js";
import { modelSelect } from "./served.js";
import { marked } from "./spans.js";

/** @typedef {import("./api.js").Json} Json */

const VERDICTS = {
  marked: "Marked",
  not_marked: "Not marked",
  inconclusive: "Inconclusive",
  too_short: "Too short to say anything",
};

/** @param {Json[]} models */
export function watermark(models) {
  const text = el("textarea", { rows: 9 });
  const reading = read(models, text);
  const writing = write(models, (made) => {
    text.value = made;
    reading.start();
  });
  return el("div", {}, writing, reading.element);
}

/** @param {Json[]} models @param {(text: string) => void} made  what happens with a text */
function write(models, made) {
  const model = modelSelect(models);
  const schemeOf = () => /** @type {Json} */ (models.find((one) => one.id === model.value));
  const message = el("input", { type: "number", min: 0, step: 1, inputmode: "numeric", value: 42 });
  const prompt = el("textarea", { rows: 2 });
  prompt.value = "Lighthouses are built where";
  const tokens = el("input", { type: "number", min: 1, step: 1, inputmode: "numeric" });
  const temperature = el("input", { type: "number", min: 0, max: 2, step: 0.1, inputmode: "decimal", value: 0.8 });
  const seed = el("input", { type: "number", step: 1, inputmode: "numeric", value: 1 });
  const lead = el("span");
  const sync = () => {
    const { tokens_for_one_segment: enough, settings } = schemeOf();
    const bits = settings.scheme.message_bits;
    tokens.value = enough;
    fill(lead, `A whole number of ${bits} bits, up to ${figure(2 ** bits - 1, 16)}, leans the choice of every word a little. It can be read from the text alone.`);
  };
  model.addEventListener("change", sync);
  sync();

  return bench({
    title: "Write with a message",
    lead,
    action: "Write and read",
    controls: [
      field("Scheme", model),
      field("Prompt", prompt),
      el("div", { class: "pair" }, field("Message", message), field("Tokens", tokens)),
      el("div", { class: "pair" }, field("Temperature", temperature), field("Seed", seed)),
    ],
    async run({ show, say, signal }) {
      const body = {
        model: model.value, prompt: prompt.value, watermark: { message: Number(message.value) },
        max_tokens: Number(tokens.value), temperature: Number(temperature.value), seed: Number(seed.value), ignore_eos: true,
      };
      const request = { method: "POST", path: "/v1/watermark/generate", body };
      const { answer, elapsed } = await ask(request, signal);
      remember("written", { text: answer.text, segments: answer.segments_embedded });
      show(
        el("p", { class: "marked" }, answer.text),
        facts([
          ["Written by", `${answer.generator.name}:${answer.generator.version}`],
          ["Tokens", answer.tokens],
          ["Key", answer.key_id],
          ["Strength", `${figure(answer.delta, 3)} logits`],
          ["Message in full", answer.fully_embedded ? "yes" : "no: the text is too short"],
        ]),
        explanation(answer, elapsed), requestFold(request));
      say("Written; it is read below.");
      made(answer.text);
    },
  }).element;
}

/** @param {Json[]} models @param {HTMLTextAreaElement} text */
function read(models, text) {
  const model = modelSelect(models);
  return bench({
    title: "Read a text",
    lead: "Under every key the server knows. Half of all tokens fit any message by chance; a mark is what goes beyond.",
    action: "Read",
    controls: [field("Scheme", model), field("Text", text, "Two hundred words or more say most.")],
    async run({ show, say, signal }) {
      const body = { model: model.value, text: text.value, return_marks: true };
      const request = { method: "POST", path: "/v1/watermark/decode", body };
      const { answer, elapsed } = await ask(request, signal);
      const [told] = answer.results;
      show(...reading(text.value, told), explanation(answer, elapsed), requestFold(request));
      say(`${told.tokens} tokens read: ${verdictOf(told).toLowerCase()}.`);
    },
  });
}

/** @param {Json} told */
const verdictOf = (told) => VERDICTS[/** @type {keyof VERDICTS} */ (told.verdict)];

/** @param {string} text @param {Json} told */
function reading(text, told) {
  const counted = told.marks.filter((/** @type {Json} */ one) => one.counted);
  const carrying = counted.filter((/** @type {Json} */ one) => one.available).length;
  const spans = told.marks.filter((/** @type {Json} */ one) => one.available !== null).map((/** @type {Json} */ one) => ({
    start: one.start, end: one.end, kind: one.available ? "carries" : "against",
    title: one.counted ? "" : "came before; counted once",
  }));
  remember("watermark", { verdict: told.verdict, message: told.message, tokens: told.tokens, counted: counted.length, carrying, spans });
  const segments = told.segments.map((/** @type {Json} */ one, /** @type {number} */ at) =>
    [at + 1, one.message, `${one.count} of ${one.unique_tokens}`, figure(one.p_value, 3), figure(one.power, 3)]);
  return [
    el("p", { class: `verdict ${told.verdict}` }, verdictOf(told),
      told.message === null ? null : el("span", {}, ` with message ${told.message}`)),
    facts([
      ["p-value", `${figure(told.p_value, 3)}; unmarked texts are called marked at ${figure(told.level, 3)}`],
      ["Keys tried", told.keys_tried],
      ["Key", told.verdict === "marked" ? told.key_id : null],
      ["Registered as", told.payload?.label],
      ["Tokens that fit", `${carrying} of ${counted.length} counted; about ${Math.round(counted.length / 2)} would by chance`],
    ]),
    marked(text, spans),
    el("ul", { class: "legend" },
      el("li", {}, el("span", { class: "key carries" }, "tinted"), " fits the message"),
      el("li", {}, el("span", { class: "key against" }, "faint"), " does not")),
    table("Segments of the message", ["segment", "likeliest message", "tokens that fit", "p-value", "power"], segments),
  ];
}
