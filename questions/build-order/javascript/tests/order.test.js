import assert from "node:assert/strict";
import test from "node:test";

import { buildOrder, buildWaves } from "./order.js";

const build = { app: ["lib", "assets"], lib: [], assets: ["lib"], docs: [] };

test("the order of the statement", () => {
  assert.deepEqual(buildOrder(build), ["docs", "lib", "assets", "app"]);
});

test("a circle is an error", () => {
  assert.throws(() => buildOrder({ a: ["b"], b: ["a"] }));
});

test("an unknown need is an error", () => {
  assert.throws(() => buildOrder({ a: ["b"] }));
});

test("the waves of the statement", () => {
  assert.deepEqual(buildWaves(build), [["docs", "lib"], ["assets"], ["app"]]);
});
