/** The public API, asked as anybody asks it: same routes, same key, same errors. */

const BASE = new URL("../", document.baseURI);
const KEY = "pressroom.key";

/** @typedef {{name: string, version: string}} Named */
/** @typedef {Record<string, any>} Json */
/** @typedef {{method: string, path: string, body?: Json, file?: {field: string, blob: Blob, name: string}, stream?: boolean}} Request */
/** @typedef {{answer: Json, elapsed: number}} Answered  elapsed: milliseconds from here to here */

/** A refusal, or the server out of reach. */
export class Problem extends Error {
  /** @param {Json} told  @param {number} [status] */
  constructor(told, status = 0) {
    super(told.message ?? "the server gave no reason");
    this.code = told.code ?? "unreachable";
    this.field = told.field ?? told.param ?? null;
    this.hint = told.hint ?? null;
    this.requestId = told.request_id ?? null;
    this.status = status;
  }
}

/** The API key: kept for this tab's session alone. */
export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  /** @param {string} secret */
  set(secret) {
    if (secret) sessionStorage.setItem(KEY, secret);
    else sessionStorage.removeItem(KEY);
  },
};

/** The address of a path. @param {string} path */
export const address = (path) => new URL(path.replace(/^\//, ""), BASE).href;

/**
 * Ask and wait for the whole answer. Throws Problem; AbortError where `signal` says so.
 * @param {Request} request
 * @param {AbortSignal} [signal]
 * @returns {Promise<Answered>}
 */
export async function ask(request, signal) {
  const began = performance.now();
  const response = await send(request, signal);
  const answer = await response.json();
  return { answer, elapsed: performance.now() - began };
}

/** The text of a path. @param {string} path */
export async function read(path) {
  return (await send({ method: "GET", path })).text();
}

/**
 * The documents of a stream of server-sent events as they come. Throws Problem, also for one inside the stream.
 * @param {Request} request
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<Json>}
 */
export async function* events(request, signal) {
  const response = await send(request, signal);
  let rest = "";
  for await (const piece of pieces(/** @type {ReadableStream<Uint8Array>} */ (response.body))) {
    const parts = (rest + piece).split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const data = part.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const told = JSON.parse(data);
      if (told.error) throw new Problem(told.error);
      yield told;
    }
  }
}

/** @param {ReadableStream<Uint8Array>} body */
async function* pieces(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      yield decoder.decode(part.value, { stream: true });
    }
  } finally {
    await reader.cancel();
  }
}

/** @param {Request} request @param {AbortSignal} [signal] */
async function send(request, signal) {
  const headers = new Headers();
  if (key.get()) headers.set("Authorization", `Bearer ${key.get()}`);
  const body = bodyOf(request, headers);
  let response;
  try {
    response = await fetch(address(request.path), { method: request.method, headers, body, signal, credentials: "omit" });
  } catch (fault) {
    if (fault instanceof Error && fault.name === "AbortError") throw fault;
    throw new Problem({ message: "the server cannot be reached", hint: "is it still running?" });
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** @param {Request} request @param {Headers} headers */
function bodyOf(request, headers) {
  if (!request.body) return undefined;
  if (!request.file) {
    headers.set("Content-Type", "application/json");
    return JSON.stringify(request.body);
  }
  const form = new FormData();
  form.append(request.file.field, request.file.blob, request.file.name);
  form.append("request", JSON.stringify(request.body));
  return form;
}

/** @param {Response} response */
async function problemOf(response) {
  try {
    return new Problem((await response.json()).error, response.status);
  } catch {
    return new Problem({ message: `the server answered ${response.status} ${response.statusText}` }, response.status);
  }
}
