import assert from "node:assert/strict";
import test from "node:test";

import { summarize } from "./report.ts";

test("the example of the statement", () => {
  const found = summarize([
    "2026-03-01T10:00:00Z GET /items/42 200 35",
    "2026-03-01T10:00:01Z GET /items/7?full=1 503 900",
    "oops",
  ]);
  const route = { route: "GET /items/:id", count: 2, errors: 1, p95_ms: 900 };
  assert.deepEqual(found, { skipped: 1, routes: [route] });
});

test("the most used route comes first", () => {
  const paths = ["/a", "/b", "/b", "/c"];
  const found = summarize(paths.map((path) => `2026-03-01T10:00:00Z GET ${path} 200 5`));
  assert.deepEqual(found.routes.map((each) => each.route), ["GET /b", "GET /a", "GET /c"]);
});

test("the percentile of twenty values", () => {
  const lines = Array.from({ length: 20 }, (_, number) => `2026-03-01T10:00:00Z GET /a 200 ${number + 1}`);
  assert.equal(summarize(lines).routes[0].p95_ms, 19);
});

test("an empty log", () => {
  assert.deepEqual(summarize([]), { skipped: 0, routes: [] });
});
