import { describe, expect, it } from "vitest";
import { hexOf, textIn } from "./unshared_file_reading";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("textIn", () => {
  it("decodes a whole text, and refuses what is none", () => {
    expect(textIn(bytes("crème brûlée"), false)).toBe("crème brûlée");
    expect(textIn(new Uint8Array([0x61, 0, 0x62]), false)).toBeNull();
    expect(textIn(new Uint8Array([0xff, 0xfe, 0x61]), false)).toBeNull();
    expect(textIn(new Uint8Array(), true)).toBe("");
  });

  it("cuts off a character that a page begins or ends in, and no other", () => {
    const text = "é€😀a";
    const all = bytes(text);
    const starts = [0, 2, 5, 9, 10]; // of the characters, and the end
    for (let from = 0; from <= all.length; from += 1) {
      for (let to = from; to <= all.length; to += 1) {
        const whole = [...text].filter((_, at) => (starts[at] ?? 0) >= from && (starts[at + 1] ?? 0) <= to).join("");
        expect(textIn(all.subarray(from, to), true), `${from} to ${to}`).toBe(whole);
      }
    }
  });
});

describe("hexOf", () => {
  it("shows offset, bytes and characters", () => {
    expect(hexOf(bytes("\u0000PNG and more text"), 16).split("\n")).toEqual([
      "00000010  00 50 4e 47 20 61 6e 64 20 6d 6f 72 65 20 74 65  ·PNG and more te",
      `00000020  78 74${" ".repeat(42)}  xt`,
    ]);
  });
});
