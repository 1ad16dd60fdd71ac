import { describe, expect, it } from "vitest";
import { type Replacement, findReplacements, transferReplacements } from "./text_difference";

function applied(text: string, changes: Replacement[]): string {
  return changes.toReversed().reduce((before, { from, to, insert }) => before.slice(0, from) + insert + before.slice(to), text);
}
const transferred = (base: string, theirs: string, mine: string) => applied(theirs, transferReplacements(base, theirs, findReplacements(base, mine)));

describe("findReplacements", () => {
  const cases = [["", "a"], ["a", ""], ["a\nb\nc\n", "a\nB\nc\nd\n"], ["x\nx\nx", "x\ny\nx\nx"], ["one two", "one 2 two"], ["😀", "😁"], ["a\n", "a\n\n"]];
  for (const [before = "", after = ""] of cases) {
    it(`turns ${JSON.stringify(before)} into ${JSON.stringify(after)}`, () => expect(applied(before, findReplacements(before, after))).toBe(after));
  }

  it("touches only the characters that differ", () => {
    expect(findReplacements("a\nkeep\nc\n", "aa\nkeep\ncc\n")).toEqual([{ from: 1, to: 1, insert: "a" }, { from: 8, to: 8, insert: "c" }]);
  });

  it("never cuts a character in half", () => {
    expect(findReplacements("😀", "😁")).toEqual([{ from: 0, to: 2, insert: "😁" }]);
  });

  it("turns random texts into each other", () => {
    const random = (seed: number) => Array.from({ length: 30 }, (_, at) => "ab\n😀"[(seed * (at + 7) * 2654435761) % 4] ?? "").join("");
    for (let seed = 1; seed < 300; seed += 1) expect(applied(random(seed), findReplacements(random(seed), random(seed + 1)))).toBe(random(seed + 1));
  });
});

describe("transferReplacements", () => {
  it("keeps both sides' changes", () => expect(transferred("one\ntwo\n", "zero\none\ntwo\n", "one\ntwo mine\n")).toBe("zero\none\ntwo mine\n"));
  it("keeps text typed into a line that they deleted", () => expect(transferred("a\nb\nc\n", "a\nc\n", "a\nb mine\nc\n")).toContain(" mine"));
  it("does not double what they have already", () => expect(transferred("a\n", "a mine\n", "a mine\n")).toBe("a mine\n"));
  it("adds only the rest if they have the beginning of it", () => expect(transferred("a\n", "a mi\n", "a mine\n")).toBe("a mine\n"));
});
