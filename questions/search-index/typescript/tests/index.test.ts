import assert from "node:assert/strict";
import test from "node:test";

import { SearchIndex } from "./index.ts";

function example(): SearchIndex {
  const index = new SearchIndex();
  index.add("n1", "Buy milk, eggs and more milk");
  index.add("n2", "The milk is in the fridge");
  index.add("n3", "Eggs: where? In the fridge!");
  return index;
}

test("the examples of the statement", () => {
  const index = example();
  assert.deepEqual(index.search("milk"), ["n1", "n2"]);
  assert.deepEqual(index.search("FRIDGE the"), ["n2", "n3"]);
  assert.deepEqual(index.search("eggs milk"), ["n1"]);
  assert.deepEqual(index.search("cheese"), []);
});

test("a query without words finds nothing", () => {
  assert.deepEqual(example().search("?!"), []);
});

test("a note is removed", () => {
  const index = example();
  assert.equal(index.remove("n1"), true);
  assert.equal(index.remove("n1"), false);
  assert.deepEqual(index.search("milk"), ["n2"]);
});
