// What the page keeps, without a browser: node --test test/store.mjs. crates/cli/tests/browser.rs runs it.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { transformWithEsbuild } from "vite";

const source = new URL("../src/store.ts", import.meta.url);
const { code } = await transformWithEsbuild(await readFile(source, "utf8"), source.pathname, { sourcemap: false });
const { EVENTS_MAX, POINTS_MAX, Store } = await import(`data:text/javascript,${encodeURIComponent(code)}`);

const HOUR_MS = 3_600_000;
const START = 1_700_000_000_000;
/** The wall clock. */
let now = 0;
Date.now = () => now;

const point = (number) => ({ number, uptime_ms: 500 * number });
const points = (from, to) => Array.from({ length: to - from + 1 }, (_, at) => point(from + at));
const events = (from, to) => points(from, to).map((one) => ({ ...one, kind: "change" }));
const frame = (number, started_unix_ms, told = []) => ({ point: point(number), status: { started_unix_ms }, events: told });
const numbers = (list) => list.map((one) => one.number);

/** A page that was told of ten points and three events by a daemon of this start. */
function opened(started) {
  now = START + 5000;
  const store = new Store();
  assert.equal(store.begin(points(1, 9), frame(10, started, events(1, 3))), false, "the first is not another");
  return store;
}

test("a clock that steps and a suspend forget nothing", () => {
  for (const step of [HOUR_MS, -HOUR_MS]) {
    const store = opened(START);
    now = START + 5500 + step;
    store.add(frame(11, START));
    assert.equal(store.at(5500), now / 1000, "times are told by the clock as it is");
    assert.deepEqual(numbers(store.points), numbers(points(1, 11)));
    assert.equal(store.begin(points(5, 12), frame(13, START, events(1, 4))), false, "nor does another connection");
    assert.deepEqual([numbers(store.points), numbers(store.events)], [numbers(points(5, 13)), [1, 2, 3, 4]]);
  }
});

test("another start is seen however long the other daemon ran", () => {
  const later = [
    ["at once", [], frame(1, START + 6000, events(1, 1)), [1], [1]],
    ["after more points and events than were known", points(11, 49), frame(50, START + 6000, events(2, 5)), numbers(points(11, 50)), [2, 3, 4, 5]],
  ];
  for (const [what, past, first, kept, told] of later) {
    const store = opened(START);
    assert.equal(store.begin(past, first), true, what);
    assert.deepEqual([numbers(store.points), numbers(store.events)], [kept, told], what);
  }
});

test("of a daemon that does not say when it started the numbers tell", () => {
  const store = opened(undefined);
  assert.equal(store.begin(points(1, 11), frame(12, undefined)), false);
  assert.equal(store.begin(points(1, 3), frame(4, undefined)), true);
  assert.equal(store.begin(points(1, 4), frame(5, START)), true, "one that says so has taken its place");
});

test("what is kept is bounded and each is kept once", () => {
  const store = opened(START);
  store.begin(points(1, 2 * POINTS_MAX), frame(2 * POINTS_MAX, START, events(1, 3)));
  store.add(frame(2 * POINTS_MAX + 1, START, events(3, 2 * EVENTS_MAX)));
  assert.deepEqual(numbers(store.points), numbers(points(POINTS_MAX + 2, 2 * POINTS_MAX + 1)));
  assert.deepEqual(numbers(store.events), numbers(points(EVENTS_MAX + 1, 2 * EVENTS_MAX)));
});
