/** The models a tab may choose from, and what the server tells of one. */

import { ask } from "./api.js";
import { select } from "./dom.js";

/** @typedef {import("./api.js").Json} Json */

/** @type {Map<string, Promise<Json>>} */
const known = new Map();

/** A drop-down of models. @param {Json[]} models @param {string} [chosen] */
export function modelSelect(models, chosen) {
  return select(models.map((model) => [model.id, `${model.id}:${model.version}`]), chosen);
}

/** Everything the server tells of a model: GET /v1/models/NAME. @param {string} name @param {boolean} [anew] @returns {Promise<Json>} */
export function detailsOf(name, anew = false) {
  const found = (anew ? null : known.get(name)) ?? ask({ method: "GET", path: `/v1/models/${encodeURIComponent(name)}` }).then((told) => told.answer);
  known.set(name, found);
  found.catch(() => known.delete(name));
  return found;
}
