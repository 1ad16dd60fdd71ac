import assert from "node:assert/strict";
import test from "node:test";

import { ExpiringCache } from "./cache.js";

test("a value is stored", () => {
  const cache = new ExpiringCache(2);
  cache.put("a", "1", 1000, 0);
  assert.equal(cache.get("a", 10), "1");
  assert.equal(cache.get("b", 10), null);
});

test("a value expires", () => {
  const cache = new ExpiringCache(2);
  cache.put("a", "1", 1000, 0);
  assert.equal(cache.get("a", 999), "1");
  assert.equal(cache.get("a", 2000), null);
});

test("a full cache removes an entry", () => {
  const cache = new ExpiringCache(2);
  ["a", "b", "c"].forEach((key, nowMs) => cache.put(key, key, 1000, nowMs));
  assert.equal(cache.size(3), 2);
  assert.equal(cache.get("a", 3), null);
});

test("report 311: a read counts as use", () => {
  const cache = new ExpiringCache(2);
  cache.put("busy", "1", 1000, 0);
  cache.put("idle", "2", 1000, 1);
  cache.get("busy", 2);
  cache.put("new", "3", 1000, 3);
  assert.equal(cache.get("busy", 4), "1");
});
