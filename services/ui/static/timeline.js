/** Events of a record, one a row: to add, change and remove. */

import { el, fill, newId } from "./dom.js";

/** @typedef {import("./api.js").Json} Json */

const PARTS = /** @type {const} */ ([
  ["time", "When", { type: "datetime-local", step: 1 }],
  ["code", "Code", { type: "text", spellcheck: "false", autocomplete: "off" }],
  ["numeric_value", "Value", { type: "number", step: "any", inputmode: "decimal" }],
  ["unit", "Unit", { type: "text", spellcheck: "false", autocomplete: "off" }],
  ["text_value", "Text", { type: "text", spellcheck: "false", autocomplete: "off" }],
]);

const ALWAYS = ["MEDS_BIRTH", "Gender/F", "Gender/M"];

export function timeline() {
  const list = el("datalist", { id: newId("codes") });
  const rows = el("ol", { class: "events" });
  const count = el("p", { class: "note", role: "status" });
  const tell = () => fill(count, `${rows.children.length} events`);

  /** @param {Json} [event] */
  function add(event = {}) {
    const inputs = PARTS.map(([name, label, kind]) => {
      const input = el("input", { ...kind, name, "aria-label": label, placeholder: label, list: name === "code" ? list.id : null });
      input.value = name === "time" ? local(event.time) : event[name] ?? "";
      return input;
    });
    const remove = el("button", { type: "button", class: "quiet", "aria-label": "Remove this event", onclick: () => {
      row.remove();
      tell();
    } }, "×");
    const row = el("li", {}, ...inputs, remove);
    rows.append(row);
    tell();
    return inputs[0];
  }

  const more = el("button", { type: "button", class: "quiet", onclick: () => add().focus() }, "Add an event");
  tell();
  return {
    element: el("fieldset", {}, el("legend", {}, "Timeline"), rows, list, el("p", { class: "row" }, more, count)),
    get: () => [...rows.children].map(eventOf),
    /** @param {string[]} codes  to choose from; others may be typed */
    offer: (codes) => fill(list, ...[...new Set([...ALWAYS, ...codes])].map((value) => el("option", { value }))),
    /** @param {Json[]} events */
    set(events) {
      fill(rows);
      for (const event of [...events].sort((a, b) => String(a.time).localeCompare(String(b.time)))) add(event);
    },
  };
}

/** @param {Element} row @returns {Json} */
function eventOf(row) {
  const sent = [...row.querySelectorAll("input")].map((input) => [input.name, input.value.trim()]);
  const told = Object.fromEntries(sent.filter(([, value]) => value !== ""));
  return { ...told, time: told.time ?? null, ...(told.numeric_value ? { numeric_value: Number(told.numeric_value) } : {}) };
}

/** A stamp as the field for local times wants it. @param {string | null | undefined} stamp */
function local(stamp) {
  if (!stamp) return "";
  return stamp.includes("T") ? stamp.replace(/(Z|[+-]\d{2}:\d{2})$/, "") : `${stamp}T00:00:00`;
}
