import assert from "node:assert/strict";
import test from "node:test";

import { RateLimiter } from "./limiter.js";

test("the example of the statement", () => {
  const limiter = new RateLimiter(2, 1000);
  assert.equal(limiter.allow("ann", 0), true);
  assert.equal(limiter.allow("ann", 400), true);
  assert.equal(limiter.allow("ann", 999), false);
  assert.equal(limiter.allow("ann", 1000), true);
  assert.equal(limiter.remaining("ann", 1000), 0);
  assert.equal(limiter.allow("bob", 1000), true);
});

test("an unknown client has its whole limit", () => {
  assert.equal(new RateLimiter(5, 1000).remaining("carol", 0), 5);
});

test("a refused request does not count", () => {
  const limiter = new RateLimiter(1, 100);
  assert.equal(limiter.allow("ann", 0), true);
  assert.equal(limiter.allow("ann", 60), false);
  assert.equal(limiter.allow("ann", 100), true);
});
