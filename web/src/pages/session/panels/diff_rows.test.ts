import { describe, expect, it } from "vitest";
import { parsePatch } from "../../../shared/patch_parser";
import { changeRows, messageOf, quoted, reversePatch } from "./diff_rows";

const PATCH = `diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,3 +1,4 @@ def f():
 one
-two
+TWO
+more
 three
`;
const options = { isOpen: () => true, isSplit: false, comments: [], draft: null };

describe("rows of a diff", () => {
  const file = parsePatch(PATCH)[0];
  if (!file) throw new Error("no file");

  it("are the same lines unified and split", () => {
    expect(changeRows([file], options).map((row) => row.kind)).toEqual(["file", "hunk", "line", "line", "line", "line", "line"]);
    const split = changeRows([file], { ...options, isSplit: true }).filter((row) => row.kind === "pair");
    expect(split.map(({ left, right }) => [left?.text, right?.text])).toEqual([["one", "one"], ["two", "TWO"], [undefined, "more"], ["three", "three"]]);
  });

  it("have a comment below its last line, which the agent gets with path and text", () => {
    const draft = { path: "a.py", side: "new" as const, from: 1, to: 3 };
    const comment = { ...draft, quoted: quoted(file, draft), text: "Why?" };
    const kinds = changeRows([file], { ...options, comments: [comment] }).map((row) => row.kind);
    expect(kinds.indexOf("comment")).toBe(6);
    expect(messageOf([comment])).toBe("a.py:1-3: Why?\n> one\n> TWO\n> more");
  });

  it("can be taken back", () => {
    expect(reversePatch(file, [0])).toBe("--- a/a.py\n+++ b/a.py\n@@ -1,4 +1,3 @@\n one\n+two\n-TWO\n-more\n three\n");
  });

  it("name a file as it is, not as git quotes it", () => {
    const added = "new file mode 100644\nindex 0000000..1\n--- /dev/null\n";
    const patch = [
      `diff --git "a/safe\\342\\200\\256 \\"x\\".txt" "b/safe\\342\\200\\256 \\"x\\".txt"\n${added}+++ "b/safe\\342\\200\\256 \\"x\\".txt"\n@@ -0,0 +1 @@\n+a\n`,
      `diff --git a/two words.txt b/two words.txt\n${added}+++ b/two words.txt\t\n@@ -0,0 +1 @@\n+a\n`,
      'diff --git "a/\\303\\244" "b/\\303\\244"\nindex 1..2\nBinary files differ\n',
    ].join("");
    expect(parsePatch(patch).map((each) => each.path)).toEqual(['safe\u202e "x".txt', "two words.txt", "ä"]);
  });
});
