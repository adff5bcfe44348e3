/** Prometheus' text format, read far enough to say in words what a model has done. */

/** @typedef {{name: string, labels: Record<string, string>, value: number}} Sample */

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const ESCAPES = { "\\\\": "\\", '\\"': '"', "\\n": "\n" };

/** Every sample of an exposition. @param {string} text @returns {Sample[]} */
export function parse(text) {
  return text.split("\n").flatMap((line) => {
    const found = line.startsWith("#") ? null : LINE.exec(line);
    if (!found) return [];
    const labels = [...(found[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, value.replace(/\\[\\"n]/g, unescaped)]);
    return [{ name: found[1], labels: Object.fromEntries(labels), value: Number(found[3].replace("Inf", "Infinity")) }];
  });
}

/** @param {string} sign */
const unescaped = (sign) => ESCAPES[/** @type {keyof ESCAPES} */ (sign)];

/** One version's traffic. Times are milliseconds. @param {Sample[]} samples @param {string} model @param {string} version */
export function trafficOf(samples, model, version) {
  const own = samples.filter(({ labels }) => labels.model === model && labels.version === version);
  const named = (/** @type {string} */ name) => own.filter((one) => one.name === name);
  const first = (/** @type {string} */ name) => named(name)[0]?.value ?? 0;
  const requests = named("pressroom_requests_total").filter((one) => one.value > 0).map(({ labels, value }) =>
    ({ route: labels.route, protocol: labels.protocol, code: labels.code, count: value }));
  const stages = named("pressroom_stage_seconds_count").map(({ labels, value }) => {
    const of = (/** @type {string} */ name) => named(`pressroom_stage_seconds_${name}`).filter((one) => one.labels.stage === labels.stage);
    const quantile = (/** @type {number} */ share) => 1e3 * quantileOf(of("bucket"), share);
    return { stage: labels.stage, mean: (1e3 * of("sum")[0].value) / value, p50: quantile(0.5), p99: quantile(0.99) };
  });
  const passes = first("pressroom_batch_rows_count");
  const memory = samples.filter((one) => one.name === "pressroom_worker_resident_bytes").reduce((sum, one) => sum + one.value, 0);
  return { requests, stages, queue: first("pressroom_queue_rows"), rows: passes ? first("pressroom_batch_rows_sum") / passes : null, memory };
}

/** The bound of the bucket a share of all values lies up to, between bounds by proportion. @param {Sample[]} buckets @param {number} share */
function quantileOf(buckets, share) {
  const sorted = buckets.map((one) => ({ bound: Number(one.labels.le.replace("+Inf", "Infinity")), count: one.value }))
    .sort((a, b) => a.bound - b.bound);
  const wanted = share * (sorted.at(-1)?.count ?? 0);
  const at = sorted.findIndex((one) => one.count >= wanted);
  if (!wanted || at < 0) return NaN;
  const before = at ? sorted[at - 1] : { bound: 0, count: 0 };
  if (sorted[at].bound === Infinity) return before.bound;
  return before.bound + ((sorted[at].bound - before.bound) * (wanted - before.count)) / (sorted[at].count - before.count || 1);
}
