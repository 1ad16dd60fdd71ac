import assert from "node:assert/strict";
import test from "node:test";

import { freeSlots, mergeBookings } from "./bookings.ts";

test("overlapping and touching bookings become one", () => {
  const merged = mergeBookings([[540, 600], [570, 630], [700, 720], [630, 640]]);
  assert.deepEqual(merged, [[540, 640], [700, 720]]);
});

test("the given list is not changed", () => {
  const bookings: [number, number][] = [[20, 30], [10, 25]];
  mergeBookings(bookings);
  assert.deepEqual(bookings, [[20, 30], [10, 25]]);
});

test("a booking cannot end before it begins", () => {
  assert.throws(() => mergeBookings([[20, 10]]));
});

test("the gaps that are long enough", () => {
  assert.deepEqual(freeSlots([[540, 600], [630, 720]], 480, 780, 60), [[480, 540], [720, 780]]);
});
