import { describe, expect, it } from "vitest";
import { parsePartial } from "../../../fold/partial_json";
import { type AgentEdit, ghostsOf } from "./streamed_edit_parser";

const TEXT = "one\ntwo\nthree\n";
const call = { path: "a.txt", edits: [{ old: "two\n", new: "two and a \"half\"\nmore\n" }] };

function edit(tool: string, text: string): AgentEdit {
  const { value, open } = parsePartial(text);
  return { row: "r", path: "a.txt", tool, args: value as Record<string, unknown>, open };
}

function applied(edit: AgentEdit): string {
  return ghostsOf(edit, TEXT).reduceRight((text, ghost) => text.slice(0, ghost.from) + ghost.text + text.slice(ghost.to), TEXT);
}

describe("partial JSON", () => {
  it("is the value at its end, and never fails before", () => {
    const whole = JSON.stringify({ a: [1, true, null, "x\u00e9\n\"\\"], b: { c: "\u20ac" } });
    for (let length = 0; length < whole.length; length += 1) expect(parsePartial(whole.slice(0, length)).open).not.toBeNull();
    expect(parsePartial(whole)).toEqual({ value: JSON.parse(whole), open: null });
  });
});

describe("a preview of the agent's edit", () => {
  it("grows at the place of the edit while the model writes it", () => {
    const json = JSON.stringify(call);
    const middle = ghostsOf(edit("edit_file", json.slice(0, json.indexOf("half"))), TEXT);
    expect(middle).toEqual([{ from: 7, to: 7, text: ' and a "', isOpen: true }]);
    expect(applied(edit("edit_file", json))).toBe('one\ntwo and a "half"\nmore\nthree\n');
  });

  it("shows nothing before the old text is known, or if it is not there", () => {
    const json = JSON.stringify(call);
    expect(ghostsOf(edit("edit_file", json.slice(0, json.indexOf("two") + 2)), TEXT)).toEqual([]);
    expect(ghostsOf(edit("edit_file", json), "nothing")).toEqual([]);
  });

  it("shows a whole file that is written, and removes the rest only at its end", () => {
    const json = JSON.stringify({ path: "a.txt", content: "one\nTWO\nthree\n" });
    expect(ghostsOf(edit("write_file", json.slice(0, json.indexOf("WO"))), TEXT)).toEqual([{ from: 4, to: 4, text: "T", isOpen: true }]);
    expect(applied(edit("write_file", json))).toBe("one\nTWO\nthree\n");
    expect(ghostsOf(edit("write_file", json), "")).toEqual([{ from: 0, to: 0, text: "one\nTWO\nthree\n", isOpen: false }]);
  });

  it("edits by line numbers", () => {
    expect(applied(edit("edit_file", JSON.stringify({ path: "a.txt", edits: [{ insert_line: 1, new: "new\n" }] })))).toBe("one\nnew\ntwo\nthree\n");
    expect(applied(edit("edit_file", JSON.stringify({ path: "a.txt", edits: [{ start_line: 2, end_line: 3, new: "x" }] })))).toBe("one\nx\n");
  });
});
