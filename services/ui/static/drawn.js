/** What the pictures show, as data: `pressroom.drawn` in the console, and in tests. To be read only. */

/** @type {Record<string, unknown>} */
const kept = {};

Object.defineProperty(window, "pressroom", {
  value: Object.freeze({
    /** A copy of what each picture was made of. */
    get drawn() {
      return structuredClone(kept);
    },
  }),
});

/** Remember what a picture was made of. @param {string} name @param {unknown} data */
export function remember(name, data) {
  kept[name] = data;
}
