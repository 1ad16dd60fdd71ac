import { expect, test } from "vitest";
import type { Task } from "./task_values_filter_and_order";
import { withValues } from "./task_values_filter_and_order";
import { mergeValues } from "./three_way_merge";

const fields = { title: "Fix login", state: "todo", owner: "", priority: "", estimate: "", milestone: "", labels: ["bug"], depends_on: [], criteria: [{ text: "green", done: false }, { text: "fast", done: false }] } as Task["fields"];
const task: Task = { id: "tsk_1", repository: "", address: "", key: "T-1", fields, description: "", links: [], revision: 1, archived: false, created_by: "", created_ms: 0, updated_ms: 0 };

test("a field that only one side has changed is no conflict, and an equal change is none", () => {
  const theirs = withValues(task, { owner: "bo", priority: "high" });
  expect(mergeValues({ state: "todo" }, { state: "done" }, theirs)).toEqual({ values: { state: "done" }, conflicts: [] });
  expect(mergeValues({ owner: "" }, { owner: "bo" }, theirs)).toEqual({ values: {}, conflicts: [] });
  expect(mergeValues({ owner: "" }, { owner: "ada" }, theirs)).toEqual({ values: { owner: "ada" }, conflicts: ["owner"] });
});

test("labels and criteria are merged entry by entry", () => {
  const theirs = withValues(task, { labels: ["bug", "ui"], criteria: [{ text: "green", done: true }, { text: "fast", done: false }, { text: "small", done: false }] });
  const mine = { labels: ["auth", "bug"], criteria: [{ text: "green", done: false }, { text: "fast", done: true }] };
  expect(mergeValues({ labels: fields.labels, criteria: fields.criteria }, mine, theirs)).toEqual({
    values: { labels: ["auth", "bug", "ui"], criteria: [{ text: "green", done: true }, { text: "fast", done: true }, { text: "small", done: false }] },
    conflicts: [],
  });
});
