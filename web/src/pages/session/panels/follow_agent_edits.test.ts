import { expect, test } from "vitest";
import type { Row, View } from "../../../fold/view_types";
import { LiveEdits } from "./follow_agent_edits";

const row = (id: string, status: string, path: string) => ({ kind: "tool", id, tool: "write_file", status, runId: "run_1", arguments: JSON.stringify({ path, content: "" }) }) as unknown as Row;
const view = (...rows: Row[]) => ({ run: "run_1", rows }) as View;

test("an edit at work is followed, and lingers when it has ended", () => {
  const edits = new LiveEdits();
  edits.update(view(), 0);
  expect(edits.update(view(row("a", "running", "a.txt")), 1).map((each) => each.path)).toEqual(["a.txt"]);
  expect(edits.missed).toBeNull();
  expect(edits.update(view(row("a", "done", "a.txt")), 2).map((each) => each.path)).toEqual(["a.txt"]);
  expect(edits.update(view(row("a", "done", "a.txt")), 9999)).toEqual([]);
});

test("an edit that began and ended between two updates is reported once", () => {
  const edits = new LiveEdits();
  edits.update(view(row("old", "done", "old.txt")), 0);
  expect(edits.missed).toBeNull(); // it was there when the page was opened
  edits.update(view(row("old", "done", "old.txt"), row("a", "done", "a.txt"), row("b", "done", "b.txt")), 1);
  expect(edits.missed?.path).toBe("b.txt");
  edits.update(view(row("old", "done", "old.txt"), row("a", "done", "a.txt"), row("b", "done", "b.txt")), 2);
  expect(edits.missed).toBeNull();
});

test("a helper's edit is not followed: it is in the helper's own files", () => {
  const edits = new LiveEdits();
  edits.update(view(), 0);
  const waiting = { ...row("a", "asking", "a.txt"), approval: { helper: { session: "ses_1", name: "h1" } } } as unknown as Row;
  expect(edits.update(view(waiting), 1)).toEqual([]);
  expect(edits.missed).toBeNull();
});
