import { describe, expect, it } from "vitest";
import { authorName, authorOf, markOf } from "./timeline_event";

const nameOf = (by: string) => (by === "" || by === "hutch" ? "Hutch" : by);

describe("the author of a change", () => {
  it("is unknown if several were at work, and not Hutch", () => {
    const change = { type: "file.changed", path: "a", by: "", call_id: "", possible_authors: ["agent", "usr_1"] };
    expect(authorName(authorOf(change), nameOf)).toBe("unknown");
    expect(authorName(authorOf({ ...change, call_id: "c1" }), nameOf)).toBe("agent");
    expect(authorName(authorOf({ type: "snapshot.taken", by: "" }), nameOf)).toBe("Hutch");
  });
});

describe("a stop of a debugger", () => {
  it("is a marker with its place", () => {
    const event = { type: "debug.stopped", debug: "dbg_1", number: 1, reason: "step", file: "shop.py", line: 8 };
    expect(markOf({ seq: 3, at_ms: 1, event })).toMatchObject({ seq: 3, lane: "terminal", kind: "command", label: "shop.py:8" });
  });
});

describe("a request for an approval", () => {
  it("names the call in words, not as JSON", () => {
    const labelOf = (tool: string, summary: string) => markOf({ seq: 1, at_ms: 1, event: { type: "approval.requested", tool, summary } })?.label;
    expect(labelOf("run_tests", "{}")).toBe("needs approval: run_tests");
    expect(labelOf("edit_file", '{"path":"a.py","edits":[]}')).toBe("needs approval: edit_file a.py");
    expect(labelOf("bash", "git push")).toBe("needs approval: git push");
  });
});

describe("an event of an interview's room", () => {
  it("is a marker with its kind and its details", () => {
    const rating = { type: "rating.given", by: "usr_1", criterion: "Correctness", points: 4 };
    expect(markOf({ seq: 31, at_ms: 0, event: rating })).toMatchObject({ seq: 31, author: "usr_1", label: "Rating: Correctness 4" });
    expect(markOf({ seq: 7, at_ms: 0, event: { type: "interview.begun", by: "usr_1" } })?.label).toBe("Begun");
    expect(markOf({ seq: 8, at_ms: 0, event: { type: "struggle.measured" } })).toBeNull();
  });
});
