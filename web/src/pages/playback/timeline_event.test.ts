import { describe, expect, it } from "vitest";
import { authorName, authorOf } from "./timeline_event";

const nameOf = (by: string) => (by === "" || by === "hutch" ? "Hutch" : by);

describe("the author of a change", () => {
  it("is unknown if several were at work, and not Hutch", () => {
    const change = { type: "file.changed", path: "a", by: "", call_id: "", possible_authors: ["agent", "usr_1"] };
    expect(authorName(authorOf(change), nameOf)).toBe("unknown");
    expect(authorName(authorOf({ ...change, call_id: "c1" }), nameOf)).toBe("agent");
    expect(authorName(authorOf({ type: "snapshot.taken", by: "" }), nameOf)).toBe("Hutch");
  });
});
