import { expect, test } from "vitest";
import { ranked } from "./match_ranking";

const ENTRIES = ["Undo the last run", "Run all tests", "Contests", "Tests", "Home", "test_slugs.py"];
const find = (words: string) => ranked(ENTRIES, words, (each) => each);

test("what begins with the typed text comes before scattered characters", () => {
  expect(find("test")).toEqual(["Tests", "test_slugs.py", "Run all tests", "Contests", "Undo the last run"]);
  expect(find("slugs")).toEqual(["test_slugs.py"]);
  expect(find("rat")).toEqual(["Run all tests"]);
});

test("without words every entry stays in its place", () => {
  expect(find(" ")).toEqual(ENTRIES);
});
