/** Chat: two language models side by side, streamed; how fast each is, and what pruning did to it. */

import { events } from "./api.js";
import { bench, problem } from "./bench.js";
import { el, facts, field, figure, fill, percent } from "./dom.js";
import { remember } from "./drawn.js";
import { explanation, requestFold } from "./explain.js";
import { modelSelect } from "./served.js";

/** @typedef {import("./api.js").Json} Json */
/** @typedef {{role: string, content: string}} Message */

/** @param {Json[]} models */
export function chat(models) {
  const pruned = models.find((model) => model.receipt) ?? models[0];
  const twin = models.find((model) => model !== pruned && !model.receipt) ?? models.find((model) => model !== pruned);
  const sides = [pruned, ...(twin ? [twin] : [])].map((first, at) => side(models, first, at));
  const prompt = el("textarea", { rows: 3 });
  prompt.value = "Name three things a lighthouse keeper needs.";
  const tokens = el("input", { type: "number", min: 1, step: 1, inputmode: "numeric", value: 64 });
  const temperature = el("input", { type: "number", min: 0, max: 2, step: 0.1, inputmode: "decimal", value: 0 });
  const anew = el("button", { type: "button", class: "quiet", onclick: () => sides.forEach((one) => one.clear()) }, "New conversation");

  const { element } = bench({
    title: "Chat",
    lead: "The same words to two models at once: a pruned one and its dense twin, answering token by token.",
    action: "Send",
    controls: [
      field("Message", prompt),
      el("div", { class: "pair" }, field("Tokens at most", tokens), field("Temperature", temperature)),
      ...sides.map((one, at) => field(at ? "Right" : "Left", one.model)),
      el("p", { class: "row" }, anew),
    ],
    async run({ show, say, signal }) {
      show(el("div", { class: "twins" }, ...sides.map((one) => one.element)));
      const options = { max_tokens: Number(tokens.value), temperature: Number(temperature.value) };
      const ended = await Promise.all(sides.map((one) => one.send(prompt.value, options, signal)));
      const answered = ended.filter(Boolean).length;
      remember("chat", sides.map((one) => one.told()));
      if (signal.aborted) say("Stopped.");
      else if (answered < sides.length) say(answered ? "One of two answered." : "Not answered.");
    },
  });
  return element;
}

/** One model with its conversation. @param {Json[]} models @param {Json} first @param {number} at */
function side(models, first, at) {
  const model = modelSelect(models, first.id);
  const log = el("div", { class: "log", role: "log", "aria-label": at ? "Right answers" : "Left answers", tabindex: 0 });
  const below = el("div");
  /** @type {Message[]} */
  let said = [];
  /** @type {Json} */
  let last = {};
  const heading = el("h3", {}, first.id);
  const receipt = el("div");
  const name = () => {
    fill(heading, model.value);
    fill(receipt, quality(/** @type {Json} */ (models.find((one) => one.id === model.value))));
  };
  const clear = () => {
    said = [];
    fill(log);
    fill(below);
  };
  model.addEventListener("change", () => { name(); clear(); });
  name();

  /** Whether the answer came to its end. @param {string} text @param {Json} options @param {AbortSignal} signal */
  async function send(text, options, signal) {
    const mine = said; // a new conversation has another list: what still comes is no part of it
    mine.push({ role: "user", content: text });
    const answer = el("p", { class: "assistant" });
    log.append(el("p", { class: "user" }, text), answer);
    const body = { model: model.value, messages: [...mine], ...options, stream: true, stream_options: { include_usage: true } };
    const request = { method: "POST", path: "/v1/chat/completions", body, stream: true };
    const clock = { began: performance.now(), first: 0, last: 0 };
    /** @type {Json} */
    let own = {};
    let ended = false;
    last = {};
    try {
      for await (const told of events(request, signal)) {
        const piece = told.choices[0]?.delta?.content;
        if (piece) {
          clock.last = performance.now();
          clock.first ||= clock.last;
          answer.append(piece);
          log.scrollTop = log.scrollHeight;
        }
        if (told.usage) own = { model: body.model, usage: told.usage, explained: told.pressroom };
      }
      own = { ...own, text: answer.textContent, speed: speed(clock, own.usage.completion_tokens) };
      ended = true;
      if (mine === said) {
        last = own;
        fill(below, pace(own, clock), explanation(own.explained), requestFold(request));
      }
    } catch (fault) {
      if (mine === said && /** @type {Error} */ (fault).name !== "AbortError") fill(below, problem(fault));
    }
    if (answer.textContent) mine.push({ role: "assistant", content: answer.textContent });
    else mine.pop(); // nothing was answered: the next message begins where this one did
    return ended;
  }

  return { model, clear, send, told: () => last, element: el("section", { "aria-label": at ? "Right model" : "Left model" }, heading, receipt, log, below) };
}

/** @typedef {{began: number, first: number, last: number}} Clock */

/** Tokens a second after the first. @param {Clock} clock @param {number} tokens */
const speed = (clock, tokens) => (tokens > 1 && clock.last > clock.first ? ((tokens - 1) * 1e3) / (clock.last - clock.first) : null);

/** @param {Json} told @param {Clock} clock */
function pace(told, clock) {
  return facts([
    ["Tokens a second", told.speed === null ? "–" : figure(told.speed, 3)],
    ["First after", `${figure(clock.first - clock.began, 3)} ms`],
    ["Tokens", `${told.usage.completion_tokens} after a prompt of ${told.usage.prompt_tokens}`],
  ]);
}

/** What is known of a model's quality: the pruning's receipt, else its own perplexity. @param {Json} model */
function quality(model) {
  const { receipt } = model;
  const own = model.metrics.find((/** @type {Json} */ one) => one.name === "perplexity");
  if (!receipt) {
    return facts([["Perplexity", own && `${figure(own.value)} on ${own.data}, ${own.windows} windows of ${own.split}`]]);
  }
  const { dense, pruned, text, windows, tokens } = receipt.perplexity;
  return facts([
    ["Pruned by", `${receipt.method.method.toUpperCase()}, ${receipt.method.pattern}: ${percent(receipt.total.removed)} of the weights are gone`],
    ["Perplexity", `${figure(pruned)}, dense ${figure(dense)} (${text}, ${windows} windows of ${tokens} tokens)`],
  ]);
}
