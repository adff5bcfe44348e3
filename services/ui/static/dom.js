/** Elements and text. Nothing here, or anywhere in the page, turns text into markup. */

/**
 * An element with attributes, listeners (`onclick`) and children; null, undefined and false are left out.
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...(Node | string | number | null | undefined | false)} children
 * @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  fill(made, ...children);
  return made;
}

/**
 * Replace what an element holds.
 * @param {Element} element
 * @param {...(Node | string | number | null | undefined | false)} children
 */
export function fill(element, ...children) {
  const kept = children.filter((child) => child !== null && child !== undefined && child !== false);
  element.replaceChildren(...kept.map((child) => (child instanceof Node ? child : String(child))));
}

let made = 0;

/** A new id for an element. @param {string} stem */
export function newId(stem) {
  made += 1;
  return `${stem}-${made}`;
}

/**
 * A labelled control.
 * @param {string} label
 * @param {HTMLElement} control
 * @param {string} [hint]
 */
export function field(label, control, hint) {
  control.id ||= newId("field");
  const note = hint ? el("small", { id: `${control.id}-hint` }, hint) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return el("div", { class: "field" }, el("label", { for: control.id }, label), control, note);
}

/** A checkbox with its label. @param {string} label @param {boolean} checked @param {(on: boolean) => void} [changed] */
export function checkbox(label, checked, changed) {
  const box = el("input", { type: "checkbox", checked });
  if (changed) box.addEventListener("change", () => changed(box.checked));
  return { box, element: el("label", { class: "check" }, box, el("span", {}, label)) };
}

/**
 * A drop-down.
 * @param {(string | [string, string])[]} options  values, or values with their labels
 * @param {string} [chosen]
 * @returns {HTMLSelectElement}
 */
export function select(options, chosen) {
  const made = el("select");
  offer(made, options, chosen);
  return made;
}

/**
 * Replace what a drop-down offers.
 * @param {HTMLSelectElement} box
 * @param {(string | [string, string])[]} options
 * @param {string} [chosen]
 */
export function offer(box, options, chosen) {
  const pairs = options.map((one) => (typeof one === "string" ? [one, one] : one));
  fill(box, ...pairs.map(([value, label]) => el("option", { value, selected: value === chosen }, label)));
}

/**
 * A table; the first column heads its rows.
 * @param {string} caption
 * @param {string[]} heads
 * @param {(Node | string | number | null)[][]} rows
 */
export function table(caption, heads, rows) {
  const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)));
  const body = rows.map(([first, ...rest]) =>
    el("tr", {}, el("th", { scope: "row" }, first), ...rest.map((cell) => el("td", {}, cell))));
  const made = el("table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, ...body));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, made);
}

/** Terms and what they are. @param {[string, Node | string | number | null | undefined][]} pairs */
export function facts(pairs) {
  const kept = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { class: "facts" }, ...kept.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))));
}

/** A fold-out. @param {string} title @param {...(Node | string)} children */
export function fold(title, ...children) {
  return el("details", {}, el("summary", {}, title), ...children);
}

/** A number with so many significant digits, without trailing zeros. @param {number | null | undefined} value */
export function figure(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 10 });
}

/** A share as percent. @param {number} share */
export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

/** Hand a text to the reader as a file. @param {string} name @param {string} text @param {string} type */
export function save(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}
