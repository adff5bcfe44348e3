/** The work bench every tab has: what it is, a form, and a place where answers and refusals appear. */

import { Problem } from "./api.js";
import { el, fill } from "./dom.js";

/**
 * @typedef {object} View  where an answer is shown
 * @property {(...nodes: (Node | null)[]) => void} show  replace the answer
 * @property {(text: string) => void} say  tell what is going on; screen readers hear it
 * @property {AbortSignal} signal  the caller has pressed stop, or asks anew
 */

/**
 * @param {object} plan
 * @param {string} plan.title
 * @param {string | Node} plan.lead  one sentence: what can be done here
 * @param {(Node | null)[]} plan.controls
 * @param {string} plan.action  the button
 * @param {(view: View) => Promise<void>} plan.run  what the button does; a thrown Problem is shown
 */
export function bench({ title, lead, controls, action, run }) {
  const status = el("p", { class: "status", role: "status", "aria-live": "polite" });
  const outcome = el("div", { class: "outcome" });
  const button = el("button", { type: "submit" }, action);
  const stop = el("button", { type: "button", class: "quiet", hidden: true }, "Stop");
  const form = el("form", { "aria-label": title, novalidate: true }, ...controls, el("p", { class: "row" }, button, stop));
  /** @type {AbortController | null} */
  let running = null;

  const say = (/** @type {string} */ text) => fill(status, text);
  const show = (/** @type {(Node | null)[]} */ ...nodes) => fill(outcome, ...nodes);
  const busy = (/** @type {boolean} */ on) => {
    button.disabled = on;
    stop.hidden = !on;
    outcome.setAttribute("aria-busy", String(on));
  };

  async function start() {
    running?.abort();
    const mine = running = new AbortController();
    busy(true);
    say("Asking …");
    try {
      await run({ show, say, signal: mine.signal });
      if (status.textContent === "Asking …") say("Answered.");
    } catch (fault) {
      if (running !== mine) return;
      say("");
      if (/** @type {Error} */ (fault).name === "AbortError") say("Stopped.");
      else show(problem(fault));
    }
    if (running === mine) busy(false);
  }

  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    start();
  });
  stop.addEventListener("click", () => running?.abort());
  const element = el("section", { class: "bench" },
    el("header", {}, el("h2", {}, title), el("p", { class: "lead" }, lead)),
    el("div", { class: "sides" }, form, el("div", { class: "answer" }, status, outcome)));
  return { element, form, start };
}

/** A refusal as its parts. @param {unknown} fault */
export function problem(fault) {
  if (!(fault instanceof Problem)) {
    console.error(fault);
    return el("div", { class: "problem", role: "alert" }, el("p", {}, String(/** @type {Error} */ (fault).message ?? fault)));
  }
  return el("div", { class: "problem", role: "alert" },
    el("p", {}, fault.message),
    fault.field && el("p", {}, el("b", {}, "Field "), el("code", {}, fault.field)),
    fault.hint && el("p", {}, el("b", {}, "What helps "), fault.hint),
    el("p", { class: "note" }, fault.code, fault.requestId && ` · request ${fault.requestId}`));
}
