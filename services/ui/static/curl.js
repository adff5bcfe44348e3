/** A request as a command for a shell, ready to be copied. */

import { address, key } from "./api.js";

const PRETTY = 1200; // characters up to which JSON is laid out

/** @typedef {import("./api.js").Request} Request */

/** @param {Request} request @returns {string} */
export function curl(request) {
  const parts = [`curl -s${request.stream ? "N" : ""} ${quoted(address(request.path))}`];
  if (key.get()) parts.push('-H "Authorization: Bearer $PRESSROOM_API_KEY"');
  if (request.file) {
    parts.push(`-F ${quoted(`${request.file.field}=@${request.file.name.replace(/[^\w.-]/g, "_")}`)}`);
    parts.push(`-F ${quoted(`request=${JSON.stringify(request.body)}`)}`);
  } else if (request.body) {
    parts.push("-H 'Content-Type: application/json'", `-d ${quoted(laidOut(request.body))}`);
  }
  return parts.join(" \\\n  ");
}

/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** @param {unknown} body */
function laidOut(body) {
  const pretty = JSON.stringify(body, null, 2);
  return pretty.length > PRETTY ? JSON.stringify(body) : pretty;
}
