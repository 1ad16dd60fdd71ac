import { expect, test } from "vitest";
import type { Row, Tool } from "../../fold/view_types";
import type { Item } from "./conversation_items";
import { placeOf, rowAfter } from "./conversation_keys";

const item = (kind: Row["kind"], rest: object = {}): Item => ({ kind: "row", id: kind, row: { kind, ...rest } as Row });
const tool = (rest: object) => item("tool", { tool: "read_file", arguments: "{}", files: [], tests: null, ...rest });

test("keys go from row to row, and from prompt to prompt", () => {
  const items = [item("prompt"), item("reply"), tool({}), item("prompt"), item("reply")];
  const path = (step: Parameters<typeof rowAfter>[2], from: number) => rowAfter(items, from, step);
  expect([path("next", 0), path("next", 4), path("previous", 2), path("previous", 0), path("previous", -1)]).toEqual([1, 4, 1, 0, 4]);
  expect([path("nextTurn", 0), path("nextTurn", 3), path("previousTurn", 4), path("previousTurn", 3), path("previousTurn", -1)]).toEqual([3, 4, 3, 0, 3]);
});

test("a row leads to the file that it is about", () => {
  expect(placeOf(tool({ arguments: '{"path":"a.py","start_line":7}' }))).toEqual({ path: "a.py", line: 7 });
  expect(placeOf(tool({ tool: "apply_patch", files: [{ path: "b.py" }] as Tool["files"] }))).toEqual({ path: "b.py", line: 0 });
  expect(placeOf(tool({ tests: { cases: [{ file: "t.py", line: 3 }] } as Tool["tests"] }))).toEqual({ path: "t.py", line: 3 });
  expect([placeOf(item("reply")), placeOf(undefined), placeOf(tool({}))]).toEqual([null, null, null]);
});
