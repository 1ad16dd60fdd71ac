import { expect, test } from "vitest";
import { placeOf, rangeOf, stepLengthS } from "./chart_time_positions";

const DAY_MS = 86_400_000;

test("a moment is marked within the bar of its step, also late on the newest day", () => {
  const times_ms = [10 * DAY_MS, 11 * DAY_MS, 12 * DAY_MS];
  const stepS = stepLengthS({ times_ms, from_ms: 10 * DAY_MS, to_ms: 13 * DAY_MS });
  expect(stepS).toBe(86_400);
  const [left, right] = rangeOf(10 * 86_400, 12 * 86_400, stepS);
  for (const [number, start] of times_ms.entries()) {
    for (const share of [0, 0.4, 0.6, 0.99]) {
      const place = placeOf(start + share * DAY_MS, stepS);
      expect(Math.abs(place - start / 1000), `day ${number}, ${share}`).toBeLessThanOrEqual(stepS / 2);
      expect(place >= left && place <= right).toBe(true);
    }
  }
});

test("a chart of one step has the length of its time", () => {
  expect(stepLengthS({ times_ms: [0], from_ms: 0, to_ms: 60_000 })).toBe(60);
});
