/** The page: a key if the server wants one, and a tab for each family it serves. */

import "./drawn.js";
import { ask, key, Problem } from "./api.js";
import { problem } from "./bench.js";
import { chat } from "./chat.js";
import { detect } from "./detect.js";
import { el, field, fill } from "./dom.js";
import { forecast } from "./forecast.js";
import { models as modelsTab } from "./models.js";
import { records } from "./records.js";
import { showTabs } from "./tabs.js";
import { textOrigin } from "./text_origin.js";
import { watermark } from "./watermark.js";

/** @typedef {import("./api.js").Json} Json */

/** A family's name in the list of models, and its tab. @type {{family: string, id: string, title: string, build: (models: Json[]) => Node}[]} */
const FAMILIES = [
  { family: "forecast", id: "forecast", title: "Forecast", build: forecast },
  { family: "detect", id: "detect", title: "Detect", build: detect },
  { family: "text-detect", id: "text", title: "Text origin", build: textOrigin },
  { family: "watermark", id: "watermark", title: "Watermark", build: watermark },
  { family: "ehr", id: "records", title: "Health records", build: records },
  { family: "llm", id: "chat", title: "Chat", build: chat },
];

const list = /** @type {HTMLElement} */ (document.getElementById("tabs"));
const place = /** @type {HTMLElement} */ (document.getElementById("panels"));
const notice = /** @type {HTMLElement} */ (document.getElementById("notice"));
const keyForm = /** @type {HTMLFormElement} */ (document.getElementById("key-form"));

async function start() {
  fill(notice, "Asking what is served …");
  try {
    const { answer } = await ask({ method: "GET", path: "/v1/models" });
    fill(notice);
    keyForm.hidden = !key.get();
    if (answer.data.length) open(answer.data);
    else fill(notice, "No model is served yet. They may still be loading: reload the page in a moment.");
  } catch (fault) {
    fill(notice, problem(fault));
    keyForm.hidden = !(fault instanceof Problem && [401, 403].includes(fault.status)) && !key.get();
  }
}

/** @param {Json[]} served */
function open(served) {
  const tabs = FAMILIES.flatMap(({ family, id, title, build }) => {
    const own = served.filter((model) => model.family === family);
    return own.length ? [{ id, title, build: () => build(own) }] : [];
  });
  showTabs(list, place, [...tabs, { id: "models", title: "Models", build: () => modelsTab(served) }]);
}

function askForKey() {
  const secret = el("input", { type: "password", autocomplete: "off", spellcheck: "false" });
  secret.value = key.get();
  const take = el("button", { type: "submit" }, "Use this key");
  fill(keyForm, field("API key", secret, "Kept in this tab until it is closed, and sent with every request."), take);
  keyForm.addEventListener("submit", (event) => {
    event.preventDefault();
    key.set(secret.value.trim());
    start();
  });
}

askForKey();
start();
