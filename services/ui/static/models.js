/** Models: what is served, where it comes from, the certificate that it computes what its paper's code computes, and traffic. */

import { read } from "./api.js";
import { problem } from "./bench.js";
import { el, facts, figure, fill, fold, select, table } from "./dom.js";
import { remember } from "./drawn.js";
import { digest, requestFold } from "./explain.js";
import { parse, trafficOf } from "./exposition.js";
import { detailsOf } from "./served.js";

/** @typedef {import("./api.js").Json} Json */

/** @param {Json[]} served */
export function models(served) {
  const choice = select(served.map((model) => [model.id, `${model.id}:${model.version}, ${model.family}`]));
  choice.setAttribute("aria-label", "Model");
  const place = el("div", { class: "outcome", "aria-live": "polite" });
  let asked = 0;
  const open = async () => {
    const mine = asked += 1;
    fill(place, el("p", { class: "status" }, "Asking …"));
    const [told, metrics] = await Promise.all([detailsOf(choice.value, true), read("/metrics")].map(settled));
    if (mine !== asked) return; // another model was chosen meanwhile
    if (told instanceof Error) fill(place, problem(told));
    else fill(place, ...described(told), el("h3", {}, "Traffic since the server started"), ...traffic(told, metrics), requestOf(told));
  };
  choice.addEventListener("change", open);
  open();
  const again = el("button", { type: "button", onclick: open }, "Refresh");
  return el("section", { class: "bench" },
    el("header", {}, el("h2", {}, "Models"), el("p", { class: "lead" },
      "Every model served is an artifact whose digest pins all of its bytes, with a certificate made when it was pressed.")),
    el("div", { class: "row choice" }, choice, again), place);
}

/** What a promise comes to, be it a fault. @param {Promise<any>} promise */
const settled = (promise) => promise.catch((fault) => fault);

/** @param {Json} told */
const requestOf = (told) => requestFold({ method: "GET", path: `/v1/models/${encodeURIComponent(told.id)}` });

/** @param {Json} told */
function described(told) {
  const { manifest, parity } = told;
  remember("models", { id: told.id, verdict: parity.verdict, cases: parity.cases.length, files: Object.keys(manifest.files) });
  const files = Object.entries(manifest.files).map(([name, entry]) => [name, size(entry.bytes), digest(`sha256:${entry.sha256}`)]);
  const scores = told.metrics.map((/** @type {Json} */ one) =>
    [one.name.replaceAll("_", " "), `${figure(one.value)} ${one.unit}`, `${one.data}, ${one.split}`, one.origin]);
  return [
    el("h3", {}, `${told.id}:${told.version}`),
    facts([
      ["Family", `${told.family}, ${told.architecture}`],
      ["Paper", `${manifest.paper.title} (${manifest.paper.venue})`],
      ["Official code", `${manifest.official.repository} at ${manifest.official.commit.slice(0, 12)}`],
      ["Licence", manifest.official.licence],
      ["Checkpoint", `${manifest.source.file} (${manifest.source.format}, ${manifest.source.tensors} tensors)`],
      ["Digest", el("code", { class: "whole" }, told.digest)],
      ["Runs as", `${manifest.runtime.kind}${manifest.runtime.opset ? `, opset ${manifest.runtime.opset}` : ""}`],
      ["Takes", manifest.request],
    ]),
    fold("What is done with a request", el("ol", {}, ...manifest.pipeline.map((/** @type {string} */ step) => el("li", {}, step)))),
    scores.length ? table("Measured quality", ["figure", "value", "on", "by"], scores) : null,
    ...certificate(parity),
    fold("Files", table("Files of the artifact", ["file", "size", "digest"], files)),
  ];
}

/** @param {Json} parity */
function certificate(parity) {
  const rows = parity.cases.map((/** @type {Json} */ one) => [one.name, ...["graph", "pipeline"].map((stage) => difference(one[stage]))]);
  return [
    el("h3", {}, "Parity certificate"),
    facts([
      ["Verdict", el("strong", { class: parity.verdict }, parity.verdict)],
      ["Largest difference", `${figure(parity.max_abs)}${parity.unit ? ` ${parity.unit}` : ""}`],
      ["Allowed", Object.entries(parity.tolerance).map(([name, value]) => `${name} ${value}`).join(", ")],
      ["Compared", Array.isArray(parity.stages) ? parity.stages.join(" → ") : null],
    ]),
    fold(`All ${rows.length} cases`, table("Cases of the certificate", ["case", "graph", "pipeline"], rows)),
  ];
}

/** @param {Json | null | undefined} stage */
function difference(stage) {
  if (!stage) return "–";
  return `${figure(stage.max_abs)} ${stage.holds === false ? "breaks" : "holds"}`;
}

/** What the metrics say of the model, or why they cannot be read. @param {Json} told @param {string | Error} metrics */
function traffic(told, metrics) {
  if (metrics instanceof Error) return [problem(metrics)];
  const { requests, stages, queue, rows, memory } = trafficOf(parse(metrics), told.id, told.version);
  remember("traffic", { requests, stages });
  const asked = requests.map((one) => [one.route, one.protocol, one.code, one.count]);
  const spent = stages.map((one) => [one.stage, figure(one.mean, 3), figure(one.p50, 3), figure(one.p99, 3)]);
  return [
    facts([
      ["Rows waiting", queue],
      ["Rows a pass, on average", rows === null ? null : figure(rows, 3)],
      ["Memory of the server", size(memory)],
    ]),
    asked.length ? table("Requests", ["route", "protocol", "outcome", "count"], asked) : el("p", { class: "note" }, "No request yet."),
    asked.length ? table("Where the time went, milliseconds", ["stage", "mean", "median", "p99"], spent) : null,
    el("p", { class: "note" }, "Median and p99 are estimates, from the buckets of histograms."),
  ];
}

/** @param {number} bytes */
function size(bytes) {
  return bytes >= 2 ** 20 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${(bytes / 2 ** 10).toFixed(1)} KiB`;
}
