/** Marked passages of a text. Places count characters as Python counts them: a pair of surrogates is one. */

import { el } from "./dom.js";

/**
 * @typedef {object} Span
 * @property {number} start
 * @property {number} end
 * @property {string} kind  class of the passage
 * @property {number} [strength]  0..1, how strong the tint is
 * @property {string} [title]
 */

/**
 * A text cut wherever a span begins or ends; a passage has the classes of all spans over it.
 * @param {string} text
 * @param {Span[]} spans
 */
export function marked(text, spans) {
  const signs = Array.from(text);
  const cuts = new Set([0, signs.length, ...spans.flatMap((span) => [span.start, span.end])]);
  const edges = [...cuts].sort((a, b) => a - b);
  const sorted = [...spans].sort((a, b) => a.start - b.start);
  /** @type {Span[]} */
  let open = [];
  let next = 0;
  const passages = edges.slice(0, -1).map((start, at) => {
    open = open.filter((span) => span.end > start);
    while (next < sorted.length && sorted[next].start <= start) open.push(sorted[next++]);
    return passage(signs.slice(start, edges[at + 1]).join(""), open.filter((span) => span.end > start));
  });
  return el("p", { class: "marked" }, ...passages);
}

/** @param {string} text @param {Span[]} over */
function passage(text, over) {
  if (!over.length) return document.createTextNode(text);
  const title = over.map((span) => span.title).filter(Boolean).join("; ");
  const made = el("span", { class: over.map((span) => span.kind).join(" "), title: title || null }, text);
  const strength = over.find((span) => span.strength !== undefined)?.strength;
  if (strength !== undefined) made.style.setProperty("--strength", `${Math.round(100 * strength)}%`);
  return made;
}
