/** Beneath every answer: the request as a command, and how the answer came about. */

import { curl } from "./curl.js";
import { el, facts, figure, fold } from "./dom.js";

const STAGES = /** @type {const} */ (["preprocess", "queue", "inference", "postprocess"]);

/** @typedef {import("./api.js").Json} Json */
/** @typedef {import("./api.js").Request} Request */

/** A fold-out with the request as curl. @param {Request} request @param {string} [title] */
export function requestFold(request, title = "The request, as curl") {
  const command = curl(request);
  const said = el("span", { role: "status", class: "said" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      said.textContent = "Copied";
    } catch {
      said.textContent = "The browser did not allow copying: select the text instead";
    }
  };
  const note = request.file ? el("p", { class: "note" }, `${request.file.name} lies in the working directory.`) : null;
  const button = el("button", { type: "button", class: "quiet", onclick: copy }, "Copy");
  const code = el("pre", { class: "curl", tabindex: 0, "aria-label": title }, command);
  return fold(title, code, el("p", { class: "row" }, button, said), note ?? "");
}

/**
 * Which model answered, and where the time went.
 * @param {Json} told  the explanation every answer carries
 * @param {number | null} elapsed  milliseconds from the page's point of view
 */
export function explanation(told, elapsed = null) {
  return el("section", { class: "explanation", "aria-label": "How this was answered" },
    facts([
      ["Answered by", `${told.model}:${told.version}`],
      ["Artifact", digest(told.digest)],
      ["Request id", el("code", {}, told.request_id)],
      ["Shared a pass with", told.batch_rows > 1 ? `${told.batch_rows} rows in all` : "nobody"],
    ]),
    timings(told.timings, elapsed));
}

/** A digest short enough to read, whole when hovered or copied from its title. @param {string} text */
export function digest(text) {
  return el("code", { title: text }, text.slice(0, 19), "…");
}

/** @param {Record<string, number>} times @param {number | null} elapsed */
function timings(times, elapsed) {
  const total = times.total_ms || 1;
  const bars = STAGES.map((stage) => {
    const bar = el("span", { class: `stage ${stage}` });
    bar.style.setProperty("flex-grow", String(Math.max(times[`${stage}_ms`] / total, 0.004)));
    return bar;
  });
  const legend = STAGES.map((stage) =>
    el("li", { class: stage }, `${stage} `, el("b", {}, `${figure(times[`${stage}_ms`], 3)} ms`)));
  const around = elapsed === null ? null : el("li", {}, "seen here ", el("b", {}, `${figure(elapsed, 3)} ms`));
  return el("div", { class: "timings" },
    el("div", { class: "bar", "aria-hidden": "true" }, ...bars),
    el("ul", {}, ...legend, el("li", {}, "in all ", el("b", {}, `${figure(times.total_ms, 3)} ms`)), around));
}
