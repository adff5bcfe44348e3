/** Tabs as WAI-ARIA has them: arrows, Home and End move between tabs; Tab goes on into the panel. */

import { el } from "./dom.js";

/**
 * @typedef {object} Tab
 * @property {string} id
 * @property {string} title
 * @property {() => Node} build  makes the panel's content, when it is first opened
 */

/**
 * Fill the list and the place for panels, and open the tab the address names (#id), else the first.
 * @param {HTMLElement} list  role tablist
 * @param {HTMLElement} place
 * @param {Tab[]} tabs
 */
export function showTabs(list, place, tabs) {
  const buttons = tabs.map((tab) =>
    el("button", { type: "button", role: "tab", id: `tab-${tab.id}`, "aria-controls": `panel-${tab.id}` }, tab.title));
  const panels = tabs.map((tab) =>
    el("div", { role: "tabpanel", id: `panel-${tab.id}`, "aria-labelledby": `tab-${tab.id}`, tabindex: 0, hidden: true }));
  const built = new Set();

  /** @param {number} index */
  function open(index) {
    buttons.forEach((button, at) => {
      button.setAttribute("aria-selected", String(at === index));
      button.tabIndex = at === index ? 0 : -1;
      panels[at].hidden = at !== index;
    });
    if (!built.has(index)) {
      built.add(index);
      panels[index].append(tabs[index].build());
    }
    buttons[index].scrollIntoView({ block: "nearest", inline: "nearest" });
    history.replaceState(null, "", `#${tabs[index].id}`);
  }

  list.replaceChildren(...buttons);
  place.replaceChildren(...panels);
  buttons.forEach((button, index) => button.addEventListener("click", () => open(index)));
  // As properties, which a list shown later replaces: this one's panels are gone by then.
  list.onkeydown = (event) => {
    const from = buttons.indexOf(/** @type {any} */ (document.activeElement));
    const last = tabs.length - 1;
    const to = { ArrowRight: from < last ? from + 1 : 0, ArrowLeft: from > 0 ? from - 1 : last, Home: 0, End: last }[event.key];
    if (from < 0 || to === undefined) return;
    event.preventDefault();
    open(to);
    buttons[to].focus();
  };
  const named = () => tabs.findIndex((tab) => `#${tab.id}` === location.hash);
  window.onhashchange = () => named() >= 0 && open(named());
  open(Math.max(0, named()));
}
