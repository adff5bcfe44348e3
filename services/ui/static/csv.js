/** Tables as text: what people paste, and what they take away. */

import { Problem } from "./api.js";

/** @typedef {{heads: string[], rows: string[][]}} Table */

/** What is wrong with a table, before it is sent. @param {string} message @param {string} hint */
const refusal = (message, hint) => new Problem({ code: "table_unreadable", field: "table", message, hint });

/**
 * Read separated values: comma, semicolon or tab, fields perhaps quoted. Throws Problem.
 * @param {string} text
 * @returns {Table}
 */
export function readTable(text) {
  const clean = text.replace(/^\ufeff/, "").trim();
  if (!clean) throw refusal("the table is empty", "paste rows with a line of column names above them");
  const first = clean.split(/\r?\n/, 1)[0];
  const mark = ["\t", ";", ","].find((one) => first.includes(one)) ?? ",";
  const [heads, ...rows] = records(clean, mark);
  const ragged = rows.findIndex((row) => row.length !== heads.length);
  if (ragged >= 0) {
    throw refusal(`row ${ragged + 2} has ${rows[ragged].length} fields, the first row has ${heads.length}`, "quote fields that hold the separator");
  }
  return { heads: heads.map((head) => head.trim()), rows };
}

/** @param {string} text @param {string} mark @returns {string[][]} */
function records(text, mark) {
  /** @type {string[][]} */
  const found = [[]];
  let cell = "";
  let inside = false;
  for (let at = 0; at <= text.length; at += 1) {
    const sign = text[at];
    if (inside) {
      if (sign === undefined) throw refusal("a quoted field does not end", "close it with a double quote");
      if (sign !== '"') cell += sign;
      else if (text[at + 1] === '"') cell += text[++at];
      else inside = false;
    } else if (sign === '"' && !cell) inside = true;
    else if (sign === mark || sign === "\n" || sign === undefined) {
      found[found.length - 1].push(cell.replace(/\r$/, ""));
      cell = "";
      if (sign === "\n") found.push([]);
    } else cell += sign;
  }
  return found;
}

/** Separated values with commas. @param {string[]} heads @param {(string | number | null)[][]} rows */
export function writeTable(heads, rows) {
  return [heads, ...rows].map((row) => row.map(cell).join(",") + "\n").join("");
}

/** @param {string | number | null} value */
function cell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * The table as a series of a forecast request: the columns that are no numbers are its timestamps.
 * @param {Table} sent
 * @param {number} rowsKept  the last so many are sent
 */
export function asSeries({ heads, rows }, rowsKept) {
  const kept = rows.slice(-rowsKept);
  const isNumber = heads.map((_, at) => kept.every((row) => row[at].trim() === "" || isFinite(Number(row[at]))));
  const time = isNumber.indexOf(false);
  const columns = /** @type {[string, number][]} */ (heads.flatMap((head, at) => (at === time ? [] : [[head || `column ${at + 1}`, at]])));
  const values = Object.fromEntries(columns.map(([head, at]) => [head, kept.map((row) => number(row[at]))]));
  if (time < 0) return { values };
  return { timestamps: kept.map((row) => row[time].trim().replace(/^(\d{4}-\d{2}-\d{2}) /, "$1T")), values };
}

/** @param {string} text */
function number(text) {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  const value = Number(trimmed);
  return Number.isNaN(value) ? trimmed : value;
}
