import { expect, test } from "vitest";
import { mergeResults, runsToMerge } from "./merged_test_results";

type Case = Parameters<typeof mergeResults>[0][number][number];
const result = (name: string, outcome: Case["outcome"], suite = "unittest"): Case => ({ number: 1, suite, name, outcome, duration_s: 0, message: "", file: "", line: 0 });
const run = (id: string, partial: boolean, state: "passed" | "failed" | "running" = "passed", total = 1, stored = total) => ({ id, partial, state, total, stored }) as Parameters<typeof runsToMerge>[0][number];
const ids = (...runs: ReturnType<typeof run>[]) => runsToMerge(runs).map((each) => each.id);

test("a partial run changes the results of its own tests only", () => {
  const merged = mergeResults([[result("b", "passed")], [result("a", "passed"), result("b", "failed"), result("b", "failed", "other")]]);
  expect(merged.map((each) => [each.suite, each.name, each.outcome, each.isOlder])).toEqual([
    ["unittest", "b", "passed", false], ["unittest", "a", "passed", true], ["other", "b", "failed", true],
  ]);
  const twice = mergeResults([[result("a", "passed"), result("a", "failed")]]);
  expect([twice.length, new Set(twice.map((each) => each.key)).size]).toEqual([2, 2]);
});

test("runs are read back to the newest one of all tests", () => {
  expect(ids(run("all", false), run("old", true))).toEqual(["all"]);
  expect(ids(run("now", true, "running"), run("part", true), run("part2", true), run("all", false), run("older", false))).toEqual(["part", "part2", "all"]);
  expect(ids(run("part", true), run("deleted", true, "passed", 4, 0), run("broken", false, "failed", 0), run("all", false))).toEqual(["part", "all"]);
  expect(ids(run("broken", false, "failed", 0), run("all", false))).toEqual(["broken"]);
  expect(ids()).toEqual([]);
});
